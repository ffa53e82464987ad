// Unigram, each normalizer and pre-tokenizer, ByteLevel before other steps, and literal text: ids, decoded texts and the ends
// of tokens equal those of HuggingFace's tokenizers. make_tokenizer_golden.py makes them.
#include "tokenizer_golden.h"

static tokenizer *variant_tokenizer(const json_t *base, const json_t *variant)
{
    json_t *root = json_deep_copy(base);
    json_object_update(root, json_object_get(variant, "set"));
    json_object_update(json_object_get(root, "model"), json_object_get(variant, "model"));
    tokenizer *t = tokenizer_of_json(root);
    json_decref(root);
    return t;
}

// HuggingFace gives all bytes of a character the end of the character.
static size_t character_end(const char *s, size_t bytes, size_t end)
{
    while (end > 0 && end < bytes && ((uint8_t)s[end] & 0xC0) == 0x80) end++;
    return end;
}

static void check_literal(tokenizer_workspace *w, const char *name, const json_t *one)
{
    const json_t *input = json_array_get(one, 0), *plain = json_array_get(one, 4);
    const char *s = json_string_value(input);
    const size_t bytes = json_string_length(input);
    const tokenizer_range all = {0, bytes};
    const int32_t *ids;
    const uint32_t *ends;
    size_t count;
    assert_int_equal(tokenizer_encode_literal(w, s, bytes, &all, 1, &ids, &ends, &count, NULL), OK);
    bool same = count == json_array_size(plain);
    for (size_t i = 0; same && i < count; i++)
        same = ids[i] == json_integer_value(json_array_get(plain, i));
    if (!same) fail_msg("%s: other ids for the literal \"%s\"", name, s);
}

// Compares the ends where no normalizer changed the text, because there HuggingFace's are not always those of the characters
// that a token came from. A space that the text lacks ends there with the character behind it.
static void check_ends(tokenizer_workspace *w, const char *name, const json_t *one, int32_t mark)
{
    const json_t *input = json_array_get(one, 0), *want_ends = json_array_get(one, 3);
    const char *s = json_string_value(input);
    const size_t bytes = json_string_length(input);
    const int32_t *ids;
    const uint32_t *ends;
    size_t count;
    assert_int_equal(tokenizer_encode_literal(w, s, bytes, NULL, 0, &ids, &ends, &count, NULL), OK);
    for (size_t i = 0; i < count; i++) {
        const size_t want = (size_t)json_integer_value(json_array_get(want_ends, i));
        if (ids[i] != mark && character_end(s, bytes, ends[i]) != want)
            fail_msg("%s: token %zu of \"%s\" ends at %u, not %zu", name, i, s, ends[i], want);
    }
}

static void ids_texts_and_ends_equal_those_of_huggingface(void **state)
{
    (void)state;
    json_t *bases[2] = {golden_json("llama3.json"), golden_json("pieces.json")};
    json_t *variants = golden_json("unigram.json");
    size_t checked = 0;
    for (size_t v = 0; v < json_array_size(variants); v++) {
        const json_t *variant = json_array_get(variants, v),
                     *cases = json_object_get(variant, "cases");
        const char *name = json_string_value(json_object_get(variant, "name"));
        tokenizer *t =
            variant_tokenizer(bases[json_integer_value(json_object_get(variant, "base"))], variant);
        tokenizer_workspace *w = NULL;
        assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
        for (size_t i = 0; i < json_array_size(cases); i++, checked++) {
            check_case(w, name, json_array_get(cases, i));
            check_decoded(t, name, json_array_get(cases, i));
            check_literal(w, name, json_array_get(cases, i));
            if (json_is_null(json_object_get(json_object_get(variant, "set"), "normalizer")) &&
                !t->byte_fallback)
                check_ends(w, name, json_array_get(cases, i), tokenizer_id(t, "\xe2\x96\x81"));
        }
        tokenizer_workspace_close(w);
        tokenizer_close(t);
    }
    assert_true(checked > 1300);
    json_decref(variants);
    for (int i = 0; i < 2; i++) json_decref(bases[i]);
}

typedef struct bad_piece {
    const char *model, *says;
} bad_piece;

static void broken_models_are_named(void **state)
{
    (void)state;
    static const bad_piece bad[] = {
        {"\"vocab\": {}", "model.vocab must be a list of [\"piece\", score]"},
        {"\"vocab\": [[\"a\", \"b\"]]", "model.vocab[0] must be [\"piece\", score]"},
        {"\"vocab\": [[\"a\", 0], [\"a\", 1]]", "model.vocab[1]: \"a\" is also piece 0"},
        {"\"vocab\": [[\"a\", 0]], \"unk_id\": 1", "model.unk_id must be null or a whole number"},
        {"\"vocab\": [[\"a\", 0]], \"byte_fallback\": 1",
         "model.byte_fallback must be true or false"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        text json = {0};
        tokenizer *t = NULL;
        err e = {0};
        text_addf(&json,
                  "{\"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"Unigram\", %s}}",
                  bad[i].model);
        assert_int_equal(tokenizer_parse(json.chars, json.bytes, &t, &e), E_USAGE);
        assert_says(&e, bad[i].says);
        text_clear(&json);
    }
}

static void a_character_without_piece_needs_an_unknown_id(void **state)
{
    (void)state;
    static const char json[] =
        "{\"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"Unigram\", "
        "\"vocab\": [[\"a\", -1], [\"ab\", -1.5]]}}";
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count;
    err e = {0};
    if (tokenizer_parse(json, strlen(json), &t, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(tokenizer_workspace_open(t, &w, &e), OK);
    assert_int_equal(tokenizer_encode(w, "aab", 3, &ids, &count, &e), OK);
    assert_int_equal(count, 2);
    assert_int_equal(ids[1], 1);
    assert_int_equal(tokenizer_encode(w, "abb", 3, &ids, &count, &e), E_USAGE);
    assert_says(&e, "the character \"b\", which is not in model.vocab, and model.unk_id is null");
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

// Two models whose scores differ have other ids, so that their hashes differ.
static void scores_are_in_the_hash(void **state)
{
    (void)state;
    json_t *root = golden_json("pieces.json");
    json_object_set_new(root, "decoder", json_loads("{\"type\":\"Fuse\"}", 0, NULL));
    tokenizer *t = tokenizer_of_json(root);
    json_t *piece = json_array_get(json_object_get(json_object_get(root, "model"), "vocab"), 9);
    json_array_set_new(piece, 1, json_real(-77.5));
    tokenizer *other = tokenizer_of_json(root);
    assert_true(tokenizer_hash(t) != tokenizer_hash(other));
    tokenizer_close(t);
    tokenizer_close(other);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_texts_and_ends_equal_those_of_huggingface),
        cmocka_unit_test(broken_models_are_named),
        cmocka_unit_test(a_character_without_piece_needs_an_unknown_id),
        cmocka_unit_test(scores_are_in_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
