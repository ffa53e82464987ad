// tokenizer_model.c -- reads the field `model` of a tokenizer.json: vocabulary, merges, the id of bytes that the vocabulary
// lacks. tokenizer_load.c calls it. tokenizer_unigram.c reads a Unigram model. An error names a field that this encoder does
// not support.
#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/bpe/bpe_bytes.h"
#include "data/tokenizer/bpe/bpe_merge.h"
#include "data/tokenizer/tokenizer_private.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        if (!json_is_integer(value) || id < 0 || id >= TOKENIZER_IDS)
            FAIL(E_USAGE, "model.vocab: the id of \"%.*s\" must be a whole number from 0 to %d",
                 TEXT_CUT(name, 100), TOKENIZER_IDS - 1);
        if (id < t->vocab && t->entries[id].name)
            FAIL(E_USAGE, "model.vocab: \"%.*s\" and \"%.*s\" have the same id %d",
                 TEXT_CUT(name, 100), TEXT_CUT(tokenizer_name(t, (int32_t)id), 100), (int)id);
        TRY(tokenizer_add_name(t, name, strlen(name), (int32_t)id, false, e));
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
        number = bpe_strings_find(&t->names, spelled, tokenizer_spell_byte(t, byte, spelled));
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

status tokenizer_check_model(const json_t *model, bool *is_unigram, err *e)
{
    const json_t *type = json_object_get(model, "type");
    const char *word = json_string_value(type);
    if (!json_is_object(model)) return err_set(e, E_USAGE, "model is missing or is no object");
    // Files of the first releases have no type.
    *is_unigram = word && strcmp(word, "Unigram") == 0;
    if (!type || *is_unigram || (word && strcmp(word, "BPE") == 0)) return OK;
    return err_set(e, E_USAGE, "model.type is %.*s; valid are BPE and Unigram",
                   TEXT_CUT(word ? word : "no string", 60));
}

status tokenizer_read_model(tokenizer *t, const json_t *model, err *e)
{
    static const char *const unsupported[] = {"dropout", "continuing_subword_prefix",
                                              "end_of_word_suffix"};
    static const char *const flags[] = {"ignore_merges", "byte_fallback", "fuse_unk"};
    status result = OK;
    if (t->byte_level && !is_absent_or_empty(model, "byte_fallback"))
        FAIL(E_USAGE, "model.byte_fallback is true, and pre_tokenizer has ByteLevel; valid: one of "
                      "the two");
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        if (!is_absent_or_empty(model, unsupported[i]))
            FAIL(E_USAGE, "model.%s is set; only null is supported", unsupported[i]);
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const json_t *flag = json_object_get(model, flags[i]);
        if (flag && !json_is_null(flag) && !json_is_boolean(flag))
            FAIL(E_USAGE, "model.%s must be true or false", flags[i]);
    }
    t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    TRY(read_vocab(t, json_object_get(model, "vocab"), e));
    TRY(read_merges(t, json_object_get(model, "merges"), e));
    TRY(read_bytes(t, model, e));
    TRY(find_neighbors(t, model, e));
done:
    return result;
}
