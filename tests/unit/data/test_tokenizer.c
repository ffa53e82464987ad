// Encoding and decoding: the ids equal those of HuggingFace's tokenizers.
#include "tokenizer_golden.h"

static void ids_equal_those_of_huggingface(void **state)
{
    (void)state;
    json_t *bases[2] = {golden_json("gpt2.json"), golden_json("llama3.json")};
    json_t *variants = golden_json("cases.json");
    size_t checked = 0;
    for (size_t v = 0; v < json_array_size(variants); v++) {
        const json_t *variant = json_array_get(variants, v),
                     *cases = json_object_get(variant, "cases");
        json_t *root =
            variant_of(bases[json_integer_value(json_object_get(variant, "base"))], variant);
        tokenizer *t = tokenizer_of_json(root);
        tokenizer_workspace *w = NULL;
        assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
        // In the second pass the words come from the cache.
        for (size_t i = 0; i < 2 * json_array_size(cases); i++, checked++)
            check_case(w, json_string_value(json_object_get(variant, "name")),
                       json_array_get(cases, i % json_array_size(cases)));
        tokenizer_workspace_close(w);
        tokenizer_close(t);
        json_decref(root);
    }
    assert_true(checked > 900);
    json_decref(variants);
    json_decref(bases[0]);
    json_decref(bases[1]);
}

static void decoding_gives_back_every_byte(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer("llama3.json");
    tokenizer_workspace *w = NULL;
    json_t *variants = golden_json("cases.json");
    const json_t *cases = json_object_get(json_array_get(variants, 1), "cases");
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *input = json_array_get(json_array_get(cases, i), 0);
        const int32_t *ids;
        size_t count;
        text back = {0};
        assert_int_equal(tokenizer_encode(w, json_string_value(input), json_string_length(input),
                                          &ids, &count, NULL),
                         OK);
        tokenizer_decode(t, ids, count, false, &back);
        assert_int_equal(back.bytes, json_string_length(input));
        if (back.bytes) assert_memory_equal(back.chars, json_string_value(input), back.bytes);
        text_clear(&back);
    }
    json_decref(variants);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

static void special_tokens_have_ids_and_can_be_skipped(void **state)
{
    (void)state;
    static const char line[] = "one<|endoftext|> two";
    tokenizer *t = golden_tokenizer("gpt2.json");
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count, specials = 0;
    text all = {0}, plain = {0};
    assert_int_equal(tokenizer_vocab(t), 1258);
    assert_int_equal(tokenizer_id(t, "<|endoftext|>"), 0);
    assert_int_equal(tokenizer_id(t, "<|pad|>"), 1);
    assert_int_equal(tokenizer_id(t, "nothing of the kind"), -1);
    assert_true(tokenizer_id(t, "\xC4\xA0th") > 258); // U+0120 spells a space
    assert_int_equal(tokenizer_end_of_text(t), 0);
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    assert_int_equal(tokenizer_encode(w, line, strlen(line), &ids, &count, NULL), OK);
    for (size_t i = 0; i < count; i++) specials += ids[i] == 0;
    assert_int_equal(specials, 1);
    tokenizer_decode(t, ids, count, false, &all);
    tokenizer_decode(t, ids, count, true, &plain);
    assert_string_equal(all.chars, line);
    assert_string_equal(plain.chars, "one two");
    text_clear(&all);
    text_clear(&plain);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

static void ids_outside_the_vocabulary_decode_to_nothing(void **state)
{
    (void)state;
    static const int32_t ids[] = {-1, 1258, INT32_MAX, INT32_MIN};
    tokenizer *t = golden_tokenizer("gpt2.json");
    text out = {0};
    tokenizer_decode(t, ids, 4, false, &out);
    assert_int_equal(out.bytes, 0);
    text_clear(&out);
    tokenizer_close(t);
}

static void invalid_utf8_is_refused_with_its_offset(void **state)
{
    (void)state;
    static const char *const bad[] = {"abc\xFF", "abc\xC0\xAF", "abc\xED\xA0\x80",
                                      "abc\xF4\x90\x80\x80", "abc\xE2\x82"};
    tokenizer *t = golden_tokenizer("gpt2.json");
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count;
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        assert_int_equal(tokenizer_encode(w, bad[i], strlen(bad[i]), &ids, &count, &e), E_USAGE);
        assert_says(&e, "not valid UTF-8 at byte 3");
    }
    assert_int_equal(tokenizer_encode(w, "abc", 3, &ids, &count, NULL), OK); // it still works
    assert_int_equal(tokenizer_encode(w, "", 0, &ids, &count, NULL), OK);
    assert_int_equal(count, 0);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

// A word that repeats one letter is the worst case of merging.
static void a_word_of_a_megabyte_is_encoded(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    tokenizer *t = golden_tokenizer("gpt2.json");
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count;
    text back = {0};
    char *word = malloc(BYTES);
    assert_non_null(word);
    memset(word, 'a', BYTES);
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    assert_int_equal(tokenizer_encode(w, word, BYTES, &ids, &count, NULL), OK);
    tokenizer_decode(t, ids, count, false, &back);
    assert_int_equal(back.bytes, BYTES);
    assert_memory_equal(back.chars, word, BYTES);
    text_clear(&back);
    free(word);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

// There are more different words than the cache holds, so it is emptied; the ids stay the same.
static void a_full_cache_changes_no_id(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer("gpt2.json");
    tokenizer_workspace *used = NULL, *fresh = NULL;
    text many = {0};
    const int32_t *ids, *again;
    size_t count, count_again;
    for (int i = 0; i < 70000; i++)
        text_addf(&many, " %c%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i / 676 % 26,
                  'a' + i / 17576 % 26);
    assert_int_equal(tokenizer_workspace_open(t, &used, NULL), OK);
    assert_int_equal(tokenizer_encode(used, many.chars, many.bytes, &ids, &count, NULL), OK);
    for (size_t from = 0; from < 5000; from += 500) {
        assert_int_equal(tokenizer_workspace_open(t, &fresh, NULL), OK);
        assert_int_equal(tokenizer_encode(used, many.chars + from, 500, &ids, &count, NULL), OK);
        assert_int_equal(
            tokenizer_encode(fresh, many.chars + from, 500, &again, &count_again, NULL), OK);
        assert_int_equal(count, count_again);
        assert_memory_equal(ids, again, count * sizeof *ids);
        tokenizer_workspace_close(fresh);
    }
    text_clear(&many);
    tokenizer_workspace_close(used);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_those_of_huggingface),
        cmocka_unit_test(decoding_gives_back_every_byte),
        cmocka_unit_test(special_tokens_have_ids_and_can_be_skipped),
        cmocka_unit_test(ids_outside_the_vocabulary_decode_to_nothing),
        cmocka_unit_test(invalid_utf8_is_refused_with_its_offset),
        cmocka_unit_test(a_word_of_a_megabyte_is_encoded),
        cmocka_unit_test(a_full_cache_changes_no_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
