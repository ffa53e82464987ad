// tokenizer_model.c -- reads the fields `model` (vocabulary, merges, the id of bytes that the
// vocabulary lacks) and `added_tokens` of a tokenizer.json. tokenizer_load.c calls it. An error names
// a field that this encoder does not support.
#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/bpe_bytes.h"
#include "data/tokenizer/bpe_merge.h"
#include "data/tokenizer/tokenizer_private.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 1 << 22 }; // larger than any vocabulary, so that a broken file cannot claim gigabytes

static status set_decoded(tokenizer *t, tokenizer_entry *entry, const char *name, size_t bytes,
                          err *e)
{
    const size_t offset = t->decoded.bytes;
    tokenizer_decoder_add(&t->decoder, name, bytes, entry->added, &t->decoded);
    entry->decoded_offset = offset;
    entry->decoded_bytes = (uint32_t)(t->decoded.bytes - offset);
    return text_check(&t->decoded, e);
}

// Gives an id a name. The id must be unused or have that name already.
static status add_name(tokenizer *t, const char *name, size_t bytes, int32_t id, bool added, err *e)
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
    TRY(set_decoded(t, &t->entries[id], name, bytes, e));
done:
    return result;
}

static status read_vocab(tokenizer *t, const json_t *vocab, err *e)
{
    status result = OK;
    const char *name;
    json_t *value;
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        FAIL(E_USAGE, "model.vocab must map tokens to ids; it is missing, empty or something else");
    json_object_foreach((json_t *)vocab, name, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= IDS)
            FAIL(E_USAGE, "model.vocab: the id of \"%.*s\" must be a whole number from 0 to %d",
                 TEXT_CUT(name, 100), IDS - 1);
        if (id < t->vocab && t->entries[id].name)
            FAIL(E_USAGE, "model.vocab: \"%.*s\" and \"%.*s\" have the same id %d",
                 TEXT_CUT(name, 100),
                 TEXT_CUT(t->names.bytes + t->names.spans[t->entries[id].name - 1].offset, 100),
                 (int)id);
        TRY(add_name(t, name, strlen(name), (int32_t)id, false, e));
    }
    t->model_names = t->names.count;
done:
    return result;
}

// Reads a merge, "a b" or ["a", "b"].
static status read_merge(const json_t *merge, size_t index, const char **left, size_t *left_bytes,
                         const char **right, err *e)
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        *left = json_string_value(json_array_get(merge, 0));
        *right = json_string_value(json_array_get(merge, 1));
        *left_bytes = *left ? strlen(*left) : 0;
    } else {
        *left = json_string_value(merge);
        const char *space = *left ? strchr(*left, ' ') : NULL;
        *left_bytes = space ? (size_t)(space - *left) : 0;
        *right = space && !strchr(space + 1, ' ') ? space + 1 : NULL;
    }
    if (*left && *right) return OK;
    return err_set(e, E_USAGE, "model.merges[%zu] must be \"left right\" or [\"left\", \"right\"]",
                   index);
}

static status name_id(const tokenizer *t, size_t index, const char *name, size_t bytes, int32_t *id,
                      err *e)
{
    int64_t number = bpe_strings_find(&t->names, name, bytes);
    if (number < 0) {
        return err_set(e, E_USAGE, "model.merges[%zu]: the token \"%.*s\" is not in model.vocab",
                       index, bytes > 100 ? (int)text_cut(name, 100) : (int)bytes, name);
    }
    *id = t->name_ids[number];
    return OK;
}

static status read_merges(tokenizer *t, const json_t *merges, err *e)
{
    status result = OK;
    text joined = {0};
    uint32_t rank = 0;
    if (!json_is_array(merges)) FAIL(E_USAGE, "model.merges must be a list");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const char *left, *right;
        size_t left_bytes;
        int32_t left_id = -1, right_id = -1, id = -1;
        const json_t *merge = json_array_get(merges, i);
        // Some files contain the first line of an old merges.txt.
        if (json_is_string(merge) && strncmp(json_string_value(merge), "#version", 8) == 0)
            continue;
        TRY(read_merge(merge, i, &left, &left_bytes, &right, e));
        joined.bytes = 0;
        text_add_bytes(&joined, left, left_bytes);
        text_add(&joined, right);
        TRY(text_check(&joined, e));
        TRY(name_id(t, i, left, left_bytes, &left_id, e));
        TRY(name_id(t, i, right, strlen(right), &right_id, e));
        TRY(name_id(t, i, joined.chars, joined.bytes, &id, e));
        TRY(bpe_pairs_set(&t->merges, bpe_pair_key(left_id, right_id), bpe_merge_value(rank++, id),
                          e));
    }
done:
    text_clear(&joined);
    return result;
}

// Spells a byte as the vocabulary does: as a character, or as <0xE4>. Returns the length.
static size_t spell_byte(const tokenizer *t, int byte, char out[8])
{
    const char raw = (char)byte;
    if (t->byte_level) return bpe_spell(&raw, 1, out);
    return (size_t)snprintf(out, 8, "<0x%02X>", (unsigned)byte);
}

// Finds the id of each byte, and the id of bytes or characters that the vocabulary lacks.
static status read_bytes(tokenizer *t, const json_t *model, err *e)
{
    status result = OK;
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    int64_t number = unknown ? bpe_strings_find(&t->names, unknown, strlen(unknown)) : -1;
    t->unknown = number < 0 ? -1 : t->name_ids[number];
    t->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    t->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    if (!t->byte_level && unknown && t->unknown < 0)
        FAIL(E_USAGE, "model.unk_token \"%.*s\" is not in model.vocab", TEXT_CUT(unknown, 100));
    for (int byte = 0; byte < 256; byte++) {
        char spelled[8];
        number = bpe_strings_find(&t->names, spelled, spell_byte(t, byte, spelled));
        t->byte_id[byte] = number < 0 ? -1 : t->name_ids[number];
        if (number < 0 && t->byte_fallback && !t->byte_level)
            FAIL(E_USAGE, "model.byte_fallback is true, but model.vocab lacks <0x%02X>",
                 (unsigned)byte);
        if (number < 0 && t->byte_level && unknown && t->unknown < 0)
            FAIL(E_USAGE,
                 "model.unk_token \"%.*s\" is not in model.vocab, and neither is the byte %d",
                 TEXT_CUT(unknown, 100), byte);
    }
done:
    return result;
}

// Returns whether a merge joins a byte that stands for a character. Then the names of tokens do not show what they join.
static bool merges_bytes(const json_t *merges)
{
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const char *both = json_string_value(merge),
                   *left = json_string_value(json_array_get(merge, 0)),
                   *right = json_string_value(json_array_get(merge, 1));
        if ((both && strstr(both, "<0x")) || (left && strstr(left, "<0x")) ||
            (right && strstr(right, "<0x")))
            return true;
    }
    return false;
}

// SentencePiece's tokenizers do not divide a text into words, but hardly a token goes on after a space.
static status find_neighbors(tokenizer *t, const json_t *model, err *e)
{
    status result = OK;
    if (t->byte_level || !t->byte_fallback || t->ignore_merges ||
        merges_bytes(json_object_get(model, "merges")))
        return OK;
    for (size_t i = 0; i < t->model_names; i++) {
        const bpe_span *span = &t->names.spans[i];
        const char *name = t->names.bytes + span->offset;
        size_t length = 0;
        uint32_t before = span->bytes ? unicode_read(name, &length) : 0;
        for (size_t k = length; k < span->bytes; k += length) {
            const uint32_t character = unicode_read(name + k, &length);
            TRY(bpe_pairs_set(&t->neighbors, bpe_pair_key((int32_t)before, (int32_t)character), 0,
                              e));
            before = character;
        }
    }
done:
    return result;
}

static bool is_absent_or_empty(const json_t *model, const char *key)
{
    const json_t *value = json_object_get(model, key);
    return !value || json_is_null(value) || (json_is_string(value) && !*json_string_value(value)) ||
           (json_is_number(value) && json_number_value(value) == 0) || json_is_false(value);
}

status tokenizer_check_model(const json_t *model, err *e)
{
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(model)) return err_set(e, E_USAGE, "model is missing or is no object");
    // Files of the first releases have no type.
    if (!type || (json_is_string(type) && strcmp(json_string_value(type), "BPE") == 0)) return OK;
    return err_set(e, E_USAGE, "model.type is %s; only BPE is supported",
                   json_is_string(type) ? json_string_value(type) : "no string");
}

status tokenizer_read_model(tokenizer *t, const json_t *model, err *e)
{
    static const char *const unsupported[] = {"dropout", "continuing_subword_prefix",
                                              "end_of_word_suffix"};
    status result = OK;
    if (t->byte_level && !is_absent_or_empty(model, "byte_fallback"))
        FAIL(E_USAGE, "model.byte_fallback is true, and pre_tokenizer has ByteLevel; valid: one of "
                      "the two");
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        if (!is_absent_or_empty(model, unsupported[i]))
            FAIL(E_USAGE, "model.%s is set; only null is supported", unsupported[i]);
    }
    t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    TRY(read_vocab(t, json_object_get(model, "vocab"), e));
    TRY(read_merges(t, json_object_get(model, "merges"), e));
    TRY(read_bytes(t, model, e));
    TRY(find_neighbors(t, model, e));
done:
    return result;
}

static status read_added_flag(const json_t *token, size_t index, const char *key, bool absent,
                              bool *out, err *e)
{
    const json_t *value = json_object_get(token, key);
    if (value && !json_is_boolean(value))
        return err_set(e, E_USAGE, "added_tokens[%zu].%s must be true or false", index, key);
    *out = value ? json_is_true(value) : absent;
    return OK;
}

// The id that HuggingFace's tokenizers give an added token, whatever the file says: its id in the
// vocabulary, or the first id that is at least the vocabulary's size and exceeds all ids of earlier
// added tokens.
static int32_t huggingface_id(const tokenizer *t, const char *content, int32_t greatest)
{
    int64_t number = bpe_strings_find(&t->names, content, strlen(content));
    if (number >= 0) return t->name_ids[number];
    return greatest >= (int32_t)t->model_names ? greatest + 1 : (int32_t)t->model_names;
}

// Gives an added token its id. Refuses an id that HuggingFace would not give, because then nobody
// knows which ids the model was trained with.
static status set_added_id(tokenizer *t, size_t index, const char *content, int32_t id,
                           int32_t greatest, err *e)
{
    status result = OK;
    int32_t expected = huggingface_id(t, content, greatest);
    bool taken = id < t->vocab && t->entries[id].name;
    if (id != expected)
        FAIL(E_USAGE, "added_tokens[%zu].id of \"%.*s\" is %d; HuggingFace's tokenizers make it %d",
             index, TEXT_CUT(content, 100), (int)id, (int)expected);
    if (taken && t->entries[id].added)
        FAIL(E_USAGE, "added_tokens[%zu]: \"%.*s\" is given twice", index, TEXT_CUT(content, 100));
    const bpe_span *name = taken ? &t->names.spans[t->entries[id].name - 1] : NULL;
    if (taken && strcmp(t->names.bytes + name->offset, content) != 0)
        FAIL(E_USAGE, "added_tokens[%zu]: the id %d of \"%.*s\" is already the id of \"%.*s\"",
             index, (int)id, TEXT_CUT(content, 100), TEXT_CUT(t->names.bytes + name->offset, 100));
    TRY(add_name(t, content, strlen(content), id, true, e));
done:
    return result;
}

static status read_added_token(tokenizer *t, const json_t *token, size_t index,
                               tokenizer_added_token *out, bool *normalized, int32_t *greatest,
                               err *e)
{
    status result = OK;
    const char *content = json_string_value(json_object_get(token, "content"));
    const json_t *id = json_object_get(token, "id");
    bool special = false;
    if (!content || !*content)
        FAIL(E_USAGE, "added_tokens[%zu].content must be a string that is not empty", index);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= IDS)
        FAIL(E_USAGE, "added_tokens[%zu].id of \"%.*s\" must be a whole number from 0 to %d", index,
             TEXT_CUT(content, 100), IDS - 1);
    TRY(read_added_flag(token, index, "special", false, &special, e));
    TRY(read_added_flag(token, index, "normalized", !special, normalized, e));
    TRY(read_added_flag(token, index, "single_word", false, &out->single_word, e));
    TRY(read_added_flag(token, index, "lstrip", false, &out->lstrip, e));
    TRY(read_added_flag(token, index, "rstrip", false, &out->rstrip, e));
    out->id = (int32_t)json_integer_value(id);
    TRY(set_added_id(t, index, content, out->id, *greatest, e));
    if (out->id > *greatest) *greatest = out->id;
    t->entries[out->id].special = out->special = special;
done:
    return result;
}

// Sets the contents of the tokens that are found in normalized text: their names, normalized too. HuggingFace's tokenizers
// also decode them so.
static status normalize_names(tokenizer *t, tokenizer_added_token *tokens, size_t count, err *e)
{
    status result = OK;
    tokenizer_normalizer_workspace *w = NULL;
    size_t offset = 0;
    TRY(tokenizer_normalizer_workspace_open(&w, e));
    for (size_t i = 0; i < count; i++) {
        const bpe_span *span = &t->names.spans[t->entries[tokens[i].id].name - 1];
        const tokenizer_span in = {.ptr = t->names.bytes + span->offset, .bytes = span->bytes};
        tokenizer_span name;
        TRY(tokenizer_normalizer_run(t->normalizer, w, &in, &name, e));
        tokens[i].bytes = name.bytes;
        if (tokens[i].bytes == 0)
            FAIL(E_USAGE, "added_tokens: nothing of \"%.*s\" is left when it is normalized",
                 TEXT_CUT(t->names.bytes + span->offset, 100));
        text_add_bytes(&t->normalized_names, name.ptr, name.bytes);
        TRY(set_decoded(t, &t->entries[tokens[i].id], name.ptr, name.bytes, e));
    }
    TRY(text_check(&t->normalized_names, e));
    for (size_t i = 0; i < count; offset += tokens[i++].bytes)
        tokens[i].content = t->normalized_names.chars + offset;
done:
    tokenizer_normalizer_workspace_close(w);
    return result;
}

status tokenizer_read_added(tokenizer *t, const json_t *added, err *e)
{
    status result = OK;
    size_t count = json_array_size(added), raws = 0, normals = 0;
    int32_t greatest = -1;
    tokenizer_added_token *raw = NULL, *normal = NULL;
    TRY(alloc_zeroed(&raw, count, sizeof *raw, "the added tokens", e));
    TRY(alloc_zeroed(&normal, count, sizeof *normal, "the added tokens", e));
    if (added && !json_is_array(added) && !json_is_null(added))
        FAIL(E_USAGE, "added_tokens must be a list");
    for (size_t i = 0; i < count; i++) {
        tokenizer_added_token token = {0};
        bool normalized = false;
        TRY(read_added_token(t, json_array_get(added, i), i, &token, &normalized, &greatest, e));
        if (normalized)
            normal[normals++] = token;
        else
            raw[raws++] = token;
    }
    // add_name may move all names, so the pointers to them are set after the last call.
    for (size_t i = 0; i < raws; i++) {
        const bpe_span *span = &t->names.spans[t->entries[raw[i].id].name - 1];
        raw[i].content = t->names.bytes + span->offset;
        raw[i].bytes = span->bytes;
    }
    TRY(normalize_names(t, normal, normals, e));
    TRY(tokenizer_added_open(raw, raws, &t->raw, e));
    TRY(tokenizer_added_open(normal, normals, &t->normalized, e));
done:
    free(raw);
    free(normal);
    return result;
}
