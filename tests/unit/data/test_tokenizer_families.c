// The tokenizers of model families: ids and decoded texts equal those of HuggingFace's tokenizers, with normalizers, BPE of
// characters, byte fallback, Metaspace, and the patterns of published files. make_tokenizer_golden.py makes them.
#include "tokenizer_golden.h"

static void ids_and_texts_equal_those_of_huggingface(void **state)
{
    (void)state;
    json_t *bases[3] = {golden_json("gpt2.json"), golden_json("llama3.json"),
                        golden_json("characters.json")};
    json_t *variants = golden_json("families.json");
    size_t checked = 0;
    for (size_t v = 0; v < json_array_size(variants); v++) {
        const json_t *variant = json_array_get(variants, v),
                     *cases = json_object_get(variant, "cases");
        const char *name = json_string_value(json_object_get(variant, "name"));
        json_t *root =
            variant_of(bases[json_integer_value(json_object_get(variant, "base"))], variant);
        tokenizer *t = tokenizer_of_json(root);
        tokenizer_workspace *w = NULL;
        assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
        for (size_t i = 0; i < json_array_size(cases); i++, checked++) {
            check_case(w, name, json_array_get(cases, i));
            check_decoded(t, name, json_array_get(cases, i));
        }
        tokenizer_workspace_close(w);
        tokenizer_close(t);
        json_decref(root);
    }
    assert_true(checked > 1500);
    json_decref(variants);
    for (int i = 0; i < 3; i++) json_decref(bases[i]);
}

// Two tokenizers that differ in one of these have other ids for the same text, so that their hashes differ.
static void normalizer_and_fallback_are_in_the_hash(void **state)
{
    (void)state;
    static const char *const set[] = {
        "{}", "{\"normalizer\":{\"type\":\"NFC\"}}",
        "{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"x\"}}",
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
        "\"prepend_scheme\":\"first\",\"split\":false}}",
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
        "\"prepend_scheme\":\"never\",\"split\":false}}"};
    enum { SETS = sizeof set / sizeof *set };
    uint64_t hash[SETS];
    for (int i = 0; i < SETS; i++) {
        json_t *root = golden_json("characters.json"), *more = json_loads(set[i], 0, NULL);
        json_object_set_new(root, "decoder", json_loads("{\"type\":\"Fuse\"}", 0, NULL));
        json_object_set_new(root, "pre_tokenizer", json_null());
        json_object_update(root, more);
        tokenizer *t = tokenizer_of_json(root);
        hash[i] = tokenizer_hash(t);
        for (int k = 0; k < i; k++) assert_true(hash[k] != hash[i]);
        tokenizer_close(t);
        json_decref(more);
        json_decref(root);
    }
}

// A token of a generated text keeps its space; only a text's beginning loses one.
static void a_token_that_follows_others_keeps_its_space(void **state)
{
    (void)state;
    json_t *root = golden_json("characters.json");
    json_object_set_new(root, "pre_tokenizer", json_null());
    json_object_set_new(root, "decoder",
                        json_loads("{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
                                   "\"prepend_scheme\":\"always\"}",
                                   0, NULL));
    tokenizer *t = tokenizer_of_json(root);
    const int32_t id = tokenizer_id(t, "\xe2\x96\x81\xe2\x96\x81"
                                       "a");
    text first = {0}, next = {0};
    assert_true(id > 0);
    tokenizer_decode(t, &id, 1, false, &first);
    tokenizer_decode_next(t, id, false, &next);
    assert_string_equal(first.chars, "a");
    assert_string_equal(next.chars, "  a");
    text_clear(&first);
    text_clear(&next);
    tokenizer_close(t);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_texts_equal_those_of_huggingface),
        cmocka_unit_test(normalizer_and_fallback_are_in_the_hash),
        cmocka_unit_test(a_token_that_follows_others_keeps_its_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
