// tokenizer_vocab.c -- gives ids their names and what they decode to. tokenizer_model.c, tokenizer_unigram.c and
// tokenizer_read_added.c call it.
#include "base/alloc.h"
#include "data/tokenizer/bpe/bpe_bytes.h"
#include "data/tokenizer/tokenizer_private.h"

#include <stdio.h>
#include <string.h>

status tokenizer_set_decoded(tokenizer *t, tokenizer_entry *entry, const char *name, size_t bytes,
                             err *e)
{
    const size_t offset = t->decoded.bytes;
    tokenizer_decoder_add(&t->decoder, name, bytes, entry->added, &t->decoded);
    entry->decoded_offset = offset;
    entry->decoded_bytes = (uint32_t)(t->decoded.bytes - offset);
    return text_check(&t->decoded, e);
}

// Gives an id a name. The id must be unused or have that name already.
status tokenizer_add_name(tokenizer *t, const char *name, size_t bytes, int32_t id, bool added,
                          err *e)
{
    status result = OK;
    uint32_t number;
    if (bytes > 1 << 20) FAIL(E_USAGE, "a token of %zu bytes; at most 1 MiB is possible", bytes);
    if (id >= t->vocab) {
        size_t room = t->entry_room;
        TRY(alloc_grow(&t->entries, &t->entry_room, (size_t)id + 1, sizeof *t->entries,
                       "a tokenizer", e));
        if (t->entry_room > room)
            memset(t->entries + room, 0, (t->entry_room - room) * sizeof *t->entries);
        t->vocab = id + 1;
    }
    TRY(bpe_strings_add(&t->names, name, bytes, &number, e));
    TRY(alloc_grow(&t->name_ids, &t->name_id_room, (size_t)number + 1, sizeof *t->name_ids,
                   "a tokenizer", e));
    t->name_ids[number] = id;
    t->entries[id] = (tokenizer_entry){.name = number + 1, .added = added};
    TRY(tokenizer_set_decoded(t, &t->entries[id], name, bytes, e));
done:
    return result;
}

int32_t tokenizer_name_id(const tokenizer *t, const char *name, size_t bytes)
{
    const int64_t number = bpe_strings_find(&t->names, name, bytes);
    return number < 0 || (size_t)number >= t->model_names ? -1 : t->name_ids[number];
}

const char *tokenizer_name(const tokenizer *t, int32_t id)
{
    return t->names.bytes + t->names.spans[t->entries[id].name - 1].offset;
}

size_t tokenizer_spell_byte(const tokenizer *t, int byte, char out[8])
{
    const char raw = (char)byte;
    if (t->byte_level) return bpe_spell(&raw, 1, out);
    return (size_t)snprintf(out, 8, "<0x%02X>", (unsigned)byte);
}
