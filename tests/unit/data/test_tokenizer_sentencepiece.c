// tokenizer.model: ids and decoded texts equal those of transformers' conversion, control tokens stand around a text where the
// settings say so, and broken models are named.
#include "tokenizer_golden.h"

#include "base/file.h"
#include "data/tokenizer/sentencepiece/tokenizer_sentencepiece.h"

static void ids_and_texts_equal_those_of_transformers(void **state)
{
    (void)state;
    json_t *models = golden_json("sentencepiece.json");
    size_t checked = 0;
    for (size_t m = 0; m < json_array_size(models); m++) {
        const json_t *model = json_array_get(models, m), *cases = json_object_get(model, "cases");
        const char *name = json_string_value(json_object_get(model, "name"));
        char file[64];
        snprintf(file, sizeof file, "%s.model", name);
        tokenizer *t = golden_tokenizer(file);
        tokenizer_workspace *w = NULL;
        assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
        for (size_t i = 0; i < json_array_size(cases); i++, checked++) {
            check_case(w, name, json_array_get(cases, i));
            check_decoded(t, name, json_array_get(cases, i));
        }
        tokenizer_workspace_close(w);
        tokenizer_close(t);
    }
    assert_true(checked > 150);
    json_decref(models);
}

// A model that is saved is a tokenizer.json, which reads as the same tokenizer.
static void a_saved_model_is_a_tokenizer_json(void **state)
{
    tokenizer *t = golden_tokenizer("unigram.model"), *again = NULL;
    const char *path = in_folder(state, "tokenizer.json");
    assert_int_equal(tokenizer_save(t, path, NULL), OK);
    assert_int_equal(tokenizer_load(path, &again, NULL), OK);
    assert_true(tokenizer_hash(t) == tokenizer_hash(again));
    tokenizer_close(t);
    tokenizer_close(again);
}

static void settings_put_control_tokens_around_a_text(void **state)
{
    char *model = NULL, *path = NULL;
    size_t bytes, count;
    const int32_t *ids;
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    assert_int_equal(file_read_small(GOLDEN_FOLDER "bpe.model", 1 << 20, &model, &bytes, NULL), OK);
    assert_int_equal(file_replace(in_folder(state, "tokenizer.model"), model, bytes, NULL), OK);
    put_text(in_folder(state, "tokenizer_config.json"),
             "{\"add_bos_token\": true, \"add_eos_token\": true, \"eos_token\": \"</s>\"}");
    assert_int_equal(tokenizer_folder_file(in_folder(state, ""), &path, NULL), OK);
    assert_int_equal(tokenizer_load(path, &t, NULL), OK);
    assert_int_equal(tokenizer_end_of_text(t), 2);
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    assert_int_equal(tokenizer_encode_with_special_tokens(w, "", 0, &ids, &count, NULL), OK);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
    free(model);
    free(path);
}

static void broken_models_are_named(void **state)
{
    (void)state;
    static const tokenizer_sentencepiece_options none = {.adds_begin = false};
    static const struct {
        const char *bytes, *says;
        size_t count;
    } bad[] = {{"", "no model of SentencePiece", 0},
               {"\x0a\x7f", "no model of SentencePiece", 2},
               {"\x0f", "no model of SentencePiece", 1},
               {"\x08\x01", "no model of SentencePiece", 2},
               {"\x0a\x03\x0a\x01\xff", "piece 0 is not UTF-8", 5},
               {"\x0a\x03\x0a\x01"
                "a\x12\x02\x18\x04",
                "trainer_spec.model_type is 4; valid are 1", 9},
               {"\x0a\x03\x0a\x01"
                "a\x12\x03\xc0\x02\x07",
                "trainer_spec.unk_id must be the id of a piece", 10}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *json = NULL;
        err e = {0};
        assert_int_equal(
            tokenizer_sentencepiece_convert(bad[i].bytes, bad[i].count, &none, &json, &e), E_USAGE);
        assert_says(&e, bad[i].says);
        assert_null(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_texts_equal_those_of_transformers),
        SCRATCH_TEST(a_saved_model_is_a_tokenizer_json),
        SCRATCH_TEST(settings_put_control_tokens_around_a_text),
        cmocka_unit_test(broken_models_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
