// vocab_unigram.c -- Unigram tokenizers of GGUF files, of the kind "t5": each piece has a score, and a text becomes the row of
// pieces with the best sum. The keys of the steps of a tokenizer.json. Export calls it. Facts of llama.cpp's converter for T5, and of its tokenizer.
#include "convert/vocab.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_charsmap.h"

#include <stdlib.h>
#include <string.h>

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

static bool is_added(const json_t *added, const char *content)
{
    size_t i;
    const json_t *x;
    json_array_foreach(added, i, x)
    {
        const char *of = json_string_value(json_object_get(x, "content"));
        if (of && content && strcmp(of, content) == 0) return true;
    }
    return false;
}

// Returns whether a step cuts out added tokens alone, as llama.cpp does: its pattern is their names with "|" between.
static bool cuts_added(const json_t *step, const json_t *added)
{
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    const char *c = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    text word = {0};
    bool all = vocab_is_type(step, "Split") && c && behavior && strcmp(behavior, "Isolated") == 0;
    for (; all; c++) {
        if (*c && *c != '|') {
            if (*c == '\\' && c[1]) c++;
            text_add_bytes(&word, c, 1);
            continue;
        }
        all = is_added(added, word.chars);
        word.bytes = 0;
        if (!*c) break;
    }
    text_clear(&word);
    return all;
}

// Adds what a step does. Returns false for one that a file cannot say.
static bool add_step(unigram_steps *s, const json_t *step, const json_t *added)
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
    return vocab_is_type(step, "Strip") || cuts_added(step, added) ||
           is_replacement(step, "String", " ") ||
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
        if (!add_step(s, one, json_object_get(root, "added_tokens")))
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
