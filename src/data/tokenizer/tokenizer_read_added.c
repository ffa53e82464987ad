// tokenizer_read_added.c -- reads the field `added_tokens` of a tokenizer.json. tokenizer_load.c calls it. tokenizer_added.c
// finds the tokens in text.
#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

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
    TRY(tokenizer_add_name(t, content, strlen(content), id, true, e));
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
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= TOKENIZER_IDS)
        FAIL(E_USAGE, "added_tokens[%zu].id of \"%.*s\" must be a whole number from 0 to %d", index,
             TEXT_CUT(content, 100), TOKENIZER_IDS - 1);
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
        TRY(tokenizer_set_decoded(t, &t->entries[tokens[i].id], name.ptr, name.bytes, e));
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
    // tokenizer_add_name may move all names, so the pointers to them are set after the last call.
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
