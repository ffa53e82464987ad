// tokenizer.c -- the operations of an open tokenizer that need no workspace: ids, names, decoding,
// and its files. Commands, data preparation and checkpoints call it. tokenizer_load.c and
// tokenizer_train.c build a tokenizer; tokenizer_encode.c encodes.
#include "base/file.h"
#include "data/tokenizer/tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

int32_t tokenizer_vocab(const tokenizer *t)
{
    return t->vocab;
}

int32_t tokenizer_id(const tokenizer *t, const char *token)
{
    int64_t number = bpe_strings_find(&t->names, token, strlen(token));
    return number < 0 ? -1 : t->name_ids[number];
}

static const char *end_of_text_name(const tokenizer *t)
{
    static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                        "<|eos|>"};
    if (t->end_of_text && tokenizer_id(t, t->end_of_text) >= 0) return t->end_of_text;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (tokenizer_id(t, usual[i]) >= 0) return usual[i];
    }
    return NULL;
}

bool tokenizer_adds_special_tokens(const tokenizer *t)
{
    return t->before.count + t->after.count > 0;
}

int32_t tokenizer_end_of_text(const tokenizer *t)
{
    const char *name = end_of_text_name(t);
    return name ? tokenizer_id(t, name) : -1;
}

void tokenizer_decode_next(const tokenizer *t, int32_t id, bool skip_special, text *out)
{
    if (id < 0 || id >= t->vocab) return;
    const tokenizer_entry *entry = &t->entries[id];
    if (!entry->name || (skip_special && entry->special)) return;
    text_add_bytes(out, t->decoded.chars + entry->decoded_offset, entry->decoded_bytes);
}

void tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
                      text *out)
{
    const size_t start = out->bytes;
    size_t first_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        tokenizer_decode_next(t, ids[i], skip_special, out);
        if (first_bytes == 0) first_bytes = out->bytes - start;
    }
    tokenizer_decoder_strip(&t->decoder, out, start, first_bytes);
}

status tokenizer_save(const tokenizer *t, const char *path, err *e)
{
    return file_replace(path, t->json, t->json_bytes, e);
}

const char *tokenizer_file_name(int i)
{
    return i == 0 ? "tokenizer.json" : tokenizer_side_file_names[i - 1];
}

const char *tokenizer_file(const tokenizer *t, int i, size_t *bytes)
{
    *bytes = i == 0 ? t->json_bytes : t->files[i - 1].bytes;
    return i == 0 ? t->json : t->files[i - 1].content;
}

// The tokenizer_config.json with which transformers opens a tokenizer that Trireme has trained.
static char *new_settings(const tokenizer *t)
{
    const char *end = end_of_text_name(t);
    json_t *root = json_pack("{s:s, s:b, s:s*}", "tokenizer_class", "PreTrainedTokenizerFast",
                             "clean_up_tokenization_spaces", 0, "eos_token", end);
    char *dumped = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return dumped;
}

status tokenizer_save_folder(const tokenizer *t, const char *folder, err *e)
{
    status result = OK;
    char *path = NULL, *settings = NULL;
    TRY(file_join(folder, "tokenizer.json", &path, e));
    TRY(tokenizer_save(t, path, e));
    for (int i = 0; i < TOKENIZER_SIDE_FILES; i++) {
        const char *content = t->files[i].content;
        size_t bytes = t->files[i].bytes;
        if (!content && i == TOKENIZER_SIDE_CONFIG) {
            content = settings = new_settings(t);
            if (!settings) FAIL(E_MEMORY, "out of memory");
            bytes = strlen(settings);
        }
        if (!content) continue;
        free(path);
        TRY(file_join(folder, tokenizer_side_file_names[i], &path, e));
        TRY(file_replace(path, content, bytes, e));
    }
done:
    free(path);
    free(settings);
    return result;
}
