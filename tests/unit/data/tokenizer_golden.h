// tokenizer_golden.h -- what the tokenizer tests share: the golden files of tests/golden/tokenizer.
#ifndef TRIREME_TESTS_DATA_TOKENIZER_GOLDEN_H
#define TRIREME_TESTS_DATA_TOKENIZER_GOLDEN_H

#include "scratch.h"

#include "data/tokenizer/tokenizer_private.h"

#define GOLDEN_FOLDER TESTS_DIR "/golden/tokenizer/"

static inline json_t *golden_json(const char *name)
{
    char path[512];
    json_error_t broken;
    snprintf(path, sizeof path, GOLDEN_FOLDER "%s", name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &broken);
    if (!root) fail_msg("%s: %s", path, broken.text);
    return root;
}

static inline tokenizer *golden_tokenizer(const char *name)
{
    char path[512];
    err e = {0};
    tokenizer *t = NULL;
    snprintf(path, sizeof path, GOLDEN_FOLDER "%s", name);
    if (tokenizer_load(path, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

static inline tokenizer *tokenizer_of_json(const json_t *root)
{
    err e = {0};
    tokenizer *t = NULL;
    char *json = json_dumps(root, 0);
    if (tokenizer_parse(json, strlen(json), &t, &e) != OK) fail_msg("%s", e.text);
    free(json);
    return t;
}

// Makes a variant as apply() of tests/golden/make_tokenizer_golden.py does.
static inline json_t *variant_of(const json_t *base, const json_t *variant)
{
    json_t *root = json_deep_copy(base), *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab"), *kept = json_array();
    const json_t *merges = json_object_get(model, "merges"),
                 *drop = json_object_get(variant, "drop");
    size_t most = (size_t)json_integer_value(json_object_get(variant, "merges"));
    json_object_update(root, json_object_get(variant, "set"));
    json_object_update(model, json_object_get(variant, "model"));
    for (size_t i = 0; i < json_array_size(drop); i++)
        json_object_del(vocab, json_string_value(json_array_get(drop, i)));
    for (size_t i = 0; i < json_array_size(merges) && i < most; i++) {
        json_t *merge = json_array_get(merges, i);
        if (json_object_get(vocab, json_string_value(json_array_get(merge, 0))) &&
            json_object_get(vocab, json_string_value(json_array_get(merge, 1))))
            json_array_append(kept, merge);
    }
    json_object_set_new(model, "merges", kept);
    return root;
}

// Traced, a text has the same ids, whose ends do not fall.
static inline void check_traced(tokenizer_workspace *w, const char *name, const json_t *input,
                                const json_t *expected)
{
    const int32_t *ids;
    const uint32_t *ends;
    size_t count;
    err e = {0};
    if (tokenizer_encode_literal(w, json_string_value(input), json_string_length(input), NULL, 0,
                                 &ids, &ends, &count, &e) != OK)
        fail_msg("%s: %s", name, e.text);
    bool same = count == json_array_size(expected);
    for (size_t i = 0; same && i < count; i++)
        same = ids[i] == json_integer_value(json_array_get(expected, i)) &&
               ends[i] <= json_string_length(input) && (i == 0 || ends[i - 1] <= ends[i]);
    if (!same) fail_msg("%s: other ids or ends for \"%s\"", name, json_string_value(input));
}

static inline void check_case(tokenizer_workspace *w, const char *name, const json_t *pair)
{
    const json_t *input = json_array_get(pair, 0), *expected = json_array_get(pair, 1);
    const int32_t *ids;
    size_t count;
    err e = {0};
    if (tokenizer_encode(w, json_string_value(input), json_string_length(input), &ids, &count,
                         &e) != OK)
        fail_msg("%s: %s", name, e.text);
    bool same = count == json_array_size(expected);
    for (size_t i = 0; same && i < count; i++)
        same = ids[i] == json_integer_value(json_array_get(expected, i));
    if (!same) fail_msg("%s: other ids for \"%s\"", name, json_string_value(input));
    check_traced(w, name, input, expected);
}

// HuggingFace replaces bytes that are no UTF-8 by U+FFFD; Trireme gives the bytes.
static inline bool is_replaced(const char *s)
{
    return strstr(s, "\xef\xbf\xbd") != NULL;
}

static inline void check_decoded(const tokenizer *t, const char *name, const json_t *cases)
{
    const char *text_of = json_string_value(json_array_get(cases, 0));
    const json_t *ids = json_array_get(cases, 1), *want = json_array_get(cases, 2);
    int32_t *list = malloc((json_array_size(ids) + 1) * sizeof *list);
    text out = {0};
    for (size_t i = 0; i < json_array_size(ids); i++)
        list[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    tokenizer_decode(t, list, json_array_size(ids), false, &out);
    if (!is_replaced(json_string_value(want)) &&
        (out.bytes != json_string_length(want) ||
         (out.bytes && memcmp(out.chars, json_string_value(want), out.bytes) != 0)))
        fail_msg("%s: \"%s\" is decoded to \"%s\", not \"%s\"", name, text_of, out.chars,
                 json_string_value(want));
    text_clear(&out);
    free(list);
}

#endif
