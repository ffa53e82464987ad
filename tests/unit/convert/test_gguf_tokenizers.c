// The tokenizers of GGUF files: the keys are those of llama.cpp's converter, and a file that is read back gives the same ids.
#include "data/tokenizer/tokenizer.h"
#include "gguf_golden.h"

#include <jansson.h>

static const char *one_tokenizer(const char *name)
{
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    char folder[256];
    (void)snprintf(folder, sizeof folder, GOLDEN "gguf/%s", name);
    // The name of the folder becomes general.name.
    const char *file = in_scratch(name);
    const convert_options o = {.from = folder, .out = file, .type = "f32"};
    if (convert_to_gguf(&o, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
    compare(name, file, TOKENIZER);
    return file;
}

static void a_tokenizer_has_the_keys_of_the_converter(void **state)
{
    (void)state;
    one_tokenizer("vocab");
}

static size_t encode(const char *folder, const char *text_of, int32_t out[256])
{
    char path[300];
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count;
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(tokenizer_load(path, &t, NULL), OK);
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    assert_int_equal(
        tokenizer_encode_with_special_tokens(w, text_of, strlen(text_of), &ids, &count, NULL), OK);
    assert_true(count < 256);
    memcpy(out, ids, count * sizeof *ids);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
    return count;
}

// A file of the folder comes back with the same ids for texts, and can be written again.
static void check_unigram(const char *folder, const char *file)
{
    static const char *const texts[] = {"",
                                        "the words",
                                        " two  spaces ",
                                        "a <pad> in it</s>",
                                        "\tx<tool>  y",
                                        "don't 1234",
                                        "\xc3\xa9\xef\xac\x81",
                                        "\xe4\xbd\xa0 \xf0\x9f\x99\x82"};
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    const char *made = in_scratch("unigram-back");
    const convert_options in = {.from = file, .out = made, .overwrite = true};
    if (convert_from_gguf(&in, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t want[256], have[256];
        const size_t n = encode(folder, texts[i], want);
        if (encode(made, texts[i], have) != n || memcmp(want, have, n * sizeof *want) != 0)
            fail_msg("other ids for \"%s\"", texts[i]);
    }
    const convert_options again = {
        .from = made, .out = in_scratch("again.gguf"), .type = "f32", .overwrite = true};
    if (convert_to_gguf(&again, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
}

static void a_unigram_tokenizer_has_the_keys_of_the_converter_and_comes_back(void **state)
{
    (void)state;
    check_unigram(GOLDEN "gguf/unigram", one_tokenizer("unigram"));
}

static void copy_with(const char *name, json_t *(*change)(json_t *))
{
    char from[300], to[300];
    (void)snprintf(from, sizeof from, GOLDEN "gguf/unigram/%s", name);
    (void)snprintf(to, sizeof to, "%s/user/%s", scratch, name);
    if (change) {
        json_t *root = change(json_load_file(from, 0, NULL));
        assert_int_equal(json_dump_file(root, to, 0), 0);
        json_decref(root);
        return;
    }
    char *bytes = NULL;
    size_t count;
    assert_int_equal(file_read(from, &bytes, &count, NULL), OK);
    FILE *f = fopen(to, "wb");
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    fclose(f);
    free(bytes);
}

static json_t *add_tool(json_t *root)
{
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 400, "content",
                                    "<tool>", "single_word", 0, "lstrip", 0, "rstrip", 0,
                                    "normalized", 0, "special", 0));
    return root;
}

static json_t *add_lowercase(json_t *root)
{
    json_object_set_new(root, "normalizer", json_pack("{s:s}", "type", "Lowercase"));
    return root;
}

static void a_unigram_tokenizer_keeps_the_tokens_of_its_user(void **state)
{
    (void)state;
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    char folder[128], file[128];
    (void)snprintf(folder, sizeof folder, "%s/user", scratch);
    (void)snprintf(file, sizeof file, "%s/user.gguf", scratch);
    assert_int_equal(file_make_directories(folder, NULL), OK);
    copy_with("config.json", NULL);
    copy_with("model.safetensors", NULL);
    copy_with("tokenizer_config.json", NULL);
    copy_with("tokenizer.json", add_tool);
    const convert_options o = {.from = folder, .out = file, .overwrite = true};
    if (convert_to_gguf(&o, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
    check_unigram(folder, file);
    // A step that llama.cpp does not know is refused by name.
    copy_with("tokenizer.json", add_lowercase);
    assert_int_equal(convert_to_gguf(&o, &r, &e), E_USAGE);
    assert_non_null(strstr(e.text, "normalizer: found Lowercase"));
    convert_result_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_has_the_keys_of_the_converter),
        cmocka_unit_test(a_unigram_tokenizer_has_the_keys_of_the_converter_and_comes_back),
        cmocka_unit_test(a_unigram_tokenizer_keeps_the_tokens_of_its_user),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
