// vocab_unigram.c -- Unigram tokenizers of GGUF files, of the kind "t5": each piece has a score, and a text becomes the row of
// pieces with the best sum. The keys of a tokenizer.json, and the steps of a tokenizer.json that keys say. Export and import
// call it. Facts of llama.cpp's converter for T5, and of its tokenizer.
#include "convert/vocab.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_charsmap.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Out

// What the steps of a tokenizer.json do to a text.
typedef struct unigram_steps {
    const char *map; // base64 of SentencePiece's map of characters; NULL: none
    bool prefix;     // a space stands before a text
    bool removes;    // spaces at the ends and beside a space go
} unigram_steps;

static bool is_replacement(const json_t *step, const char *kind, const char *pattern)
{
    const char *found = json_string_value(json_object_get(json_object_get(step, "pattern"), kind));
    return vocab_is_type(step, "Replace") && found && strcmp(found, pattern) == 0;
}

// Adds what a step does. Returns false for one that a file cannot say.
static bool add_step(unigram_steps *s, const json_t *step)
{
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    if (vocab_is_type(step, "Precompiled")) {
        s->map = json_string_value(json_object_get(step, "precompiled_charsmap"));
        return s->map != NULL;
    }
    if (vocab_is_type(step, "Metaspace")) {
        s->prefix = scheme ? strcmp(scheme, "never") != 0
                           : !json_is_false(json_object_get(step, "add_prefix_space"));
        return true;
    }
    if (vocab_is_type(step, "Prepend")) return s->prefix = true;
    if (is_replacement(step, "Regex", " {2,}") || vocab_is_type(step, "WhitespaceSplit"))
        return s->removes = true;
    return vocab_is_type(step, "Strip") || is_replacement(step, "String", " ") ||
           is_replacement(step, "Regex", "\\A" VOCAB_SPACE) ||
           is_replacement(step, "Regex", "\\A +| +\\z");
}

static status read_steps(const char *folder, const json_t *root, const char *field,
                         const char *list, unigram_steps *s, err *e)
{
    const json_t *step = json_object_get(root, field), *steps = json_object_get(step, list);
    const size_t count = steps ? json_array_size(steps) : json_is_object(step) ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = steps ? json_array_get(steps, i) : step;
        const char *type = json_string_value(json_object_get(one, "type"));
        if (!add_step(s, one))
            return err_set(e, E_USAGE,
                           "%s/tokenizer.json: %s: found %s, which llama.cpp does not compute with "
                           "Unigram; valid: the steps of SentencePiece",
                           folder, field, type ? type : "nothing");
    }
    return OK;
}

static status add_map(const char *base64, gguf_keys *out, err *e)
{
    status result = OK;
    uint8_t *map = NULL;
    TRY(alloc_zeroed(&map, strlen(base64) / 4 * 3 + 4, 1, "a map of characters", e));
    const int64_t bytes = tokenizer_decode_base64(base64, map);
    if (bytes < 0) FAIL(E_USAGE, "tokenizer.json: precompiled_charsmap is no base64");
    if (bytes == 0) goto done;
    gguf_add_array(out, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, (uint64_t)bytes);
    gguf_put(out, map, (size_t)bytes);
done:
    free(map);
    return result;
}

status vocab_export_unigram(const char *folder, const json_t *root, gguf_keys *out, err *e)
{
    status result = OK;
    unigram_steps s = {NULL, false, false};
    TRY(read_steps(folder, root, "normalizer", "normalizers", &s, e));
    TRY(read_steps(folder, root, "pre_tokenizer", "pretokenizers", &s, e));
    gguf_add_bool(out, "tokenizer.ggml.add_space_prefix", s.prefix);
    gguf_add_bool(out, "tokenizer.ggml.remove_extra_whitespaces", s.removes);
    if (s.map) TRY(add_map(s.map, out, e));
done:
    return result;
}

// ---- In

static status add_charsmap(const gguf *from, json_t *steps, err *e)
{
    status result = OK;
    text map = {0};
    const gguf_value *v = gguf_value_find(from, "tokenizer.ggml.precompiled_charsmap");
    if (!v) goto done;
    if (!v->is_array || (v->type != GGUF_U8 && v->type != GGUF_I8))
        FAIL(E_USAGE, "%s: tokenizer.ggml.precompiled_charsmap is no list of bytes",
             gguf_path(from));
    tokenizer_add_base64(&map, (const char *)v->data, v->count);
    TRY(text_check(&map, e));
    json_array_append_new(steps, json_pack("{s:s, s:s}", "type", "Precompiled",
                                           "precompiled_charsmap", map.chars ? map.chars : ""));
done:
    text_clear(&map);
    return result;
}

status vocab_unigram_normalizer(const gguf *from, bool prefix, bool removes, json_t **out, err *e)
{
    status result = OK;
    json_t *steps = json_array();
    TRY(add_charsmap(from, steps, e));
    if (removes) {
        json_array_append_new(steps, vocab_replacement("Regex", "\\A +| +\\z", ""));
        json_array_append_new(steps, vocab_replacement("Regex", " {2,}", " "));
    }
    json_array_append_new(steps, vocab_replacement("String", " ", VOCAB_SPACE));
    // Metaspace puts no mark before a mark, and SentencePiece does.
    if (prefix)
        json_array_append_new(
            steps, vocab_replacement("Regex", "\\A" VOCAB_SPACE, VOCAB_SPACE VOCAB_SPACE));
    *out = json_pack("{s:s, s:O}", "type", "Sequence", "normalizers", steps);
done:
    json_decref(steps);
    return result;
}

status vocab_unigram_model(const gguf *from, const gguf_value *tokens, const gguf_value *types,
                           const gguf_value *scores, const json_t *ids, json_t **out, err *e)
{
    status result = OK;
    json_t *pieces = json_array();
    int64_t unknown = -1, bytes = 0, type;
    uint64_t count = tokens->count;
    // Fillers at the end are rows of the table without a piece.
    while (count > 1 && types && gguf_value_int(types, count - 1, &type) && type == VOCAB_UNUSED)
        count--;
    for (uint64_t i = 0; i < count; i++) {
        double score;
        char filler[40];
        const gguf_string *name = &tokens->strings[i];
        if (!gguf_value_real(scores, i, &score) || !isfinite(score))
            FAIL(E_USAGE, "%s: tokenizer.ggml.scores: item %" PRIu64 " is no number",
                 gguf_path(from), i);
        if (types && gguf_value_int(types, i, &type)) {
            if (type == VOCAB_UNKNOWN && unknown < 0) unknown = (int64_t)i;
            bytes += type == VOCAB_BYTE;
        }
        // Of two tokens with one name the first is the one that a text gets.
        const json_t *id = json_object_getn(ids, name->chars, name->bytes);
        (void)snprintf(filler, sizeof filler, "[PAD%" PRIu64 "]", i);
        const bool own = id && (uint64_t)json_integer_value(id) == i;
        json_array_append_new(pieces, own ? json_pack("[s%, f]", name->chars, name->bytes, score)
                                          : json_pack("[s, f]", filler, score));
    }
    *out = json_pack("{s:s, s:o, s:b, s:O}", "type", "Unigram", "unk_id",
                     unknown < 0 ? json_null() : json_integer((json_int_t)unknown), "byte_fallback",
                     bytes > 0, "vocab", pieces);
done:
    json_decref(pieces);
    return result;
}
