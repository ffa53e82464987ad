// The post-processor adds the ids that HuggingFace's tokenizers add. The hash of a tokenizer changes
// exactly when the ids of texts change.
#include "tokenizer_golden.h"

static void check_ids(const char *name, const json_t *expected, const int32_t *ids, size_t count)
{
    bool same = count == json_array_size(expected);
    for (size_t i = 0; same && i < count; i++)
        same = ids[i] == json_integer_value(json_array_get(expected, i));
    if (!same) fail_msg("%s: other ids", name);
}

static void special_ids_equal_those_of_huggingface(void **state)
{
    (void)state;
    json_t *root = golden_json("llama3.json"), *all = golden_json("post_processors.json");
    size_t with = 0;
    for (size_t v = 0; v < json_array_size(all); v++) {
        const json_t *one = json_array_get(all, v), *cases = json_object_get(one, "cases");
        const char *name = json_string_value(json_object_get(one, "name"));
        json_object_set(root, "post_processor", json_object_get(one, "post_processor"));
        tokenizer *t = tokenizer_of_json(root);
        tokenizer_workspace *w = NULL;
        assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
        for (size_t i = 0; i < json_array_size(cases); i++) {
            const json_t *c = json_array_get(cases, i), *input = json_array_get(c, 0);
            const char *string = json_string_value(input);
            const int32_t *ids;
            size_t count;
            const size_t bytes = json_string_length(input);
            assert_int_equal(
                tokenizer_encode_with_special_tokens(w, string, bytes, &ids, &count, NULL), OK);
            check_ids(name, json_array_get(c, 1), ids, count);
            assert_int_equal(tokenizer_encode(w, string, bytes, &ids, &count, NULL), OK);
            check_ids(name, json_array_get(c, 2), ids, count);
        }
        with += tokenizer_adds_special_tokens(t);
        tokenizer_workspace_close(w);
        tokenizer_close(t);
    }
    assert_int_equal(with, json_array_size(all) - 2); // all but none and ByteLevel
    json_decref(root);
    json_decref(all);
}

#define TEMPLATE(single)                                                                           \
    "{\"type\": \"TemplateProcessing\", \"single\": " single                                       \
    ", \"special_tokens\": {\"<s>\": {\"ids\": [0]}, \"far\": {\"ids\": [999999]}}}"
#define TEXT_A      "{\"Sequence\": {\"id\": \"A\"}}"
#define TOKEN(name) "{\"SpecialToken\": {\"id\": \"" name "\"}}"

static void unsupported_post_processors_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *post, *says;
    } refused[] = {
        {"{}", "post_processor.type is missing"},
        {"{\"type\": \"Strange\"}", "post_processor.type is Strange; valid are"},
        {TEMPLATE("[" TOKEN("<s>") "]"), "post_processor.single has no Sequence A"},
        {TEMPLATE("null"), "post_processor.single has no Sequence A"},
        {TEMPLATE("[" TEXT_A "," TEXT_A "]"), "post_processor.single[1]: valid are one Sequence A"},
        {TEMPLATE("[{\"Sequence\": {\"id\": \"B\"}}]"), "post_processor.single[0]: valid"},
        {TEMPLATE("[" TEXT_A "," TOKEN("no") "]"),
         "\"no\" is not in post_processor.special_tokens"},
        {TEMPLATE("[" TEXT_A "," TOKEN("far") "]"), "an id must be a whole number below"},
        {"{\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 0]}",
         "post_processor.sep: an id must be"},
        {"{\"type\": \"Sequence\"}", "post_processor.processors must be a list"},
        {"{\"type\": \"Sequence\", \"processors\": [" TEMPLATE(
             "[" TOKEN("<s>") "," TEXT_A "]") "," TEMPLATE("[" TEXT_A "," TOKEN("<s>") "]") "]}",
         "two steps add special tokens"},
    };
    json_t *root = golden_json("gpt2.json");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        err e = {0};
        tokenizer *t = NULL;
        json_object_set_new(root, "post_processor", json_loads(refused[i].post, 0, NULL));
        char *json = json_dumps(root, 0);
        assert_int_equal(tokenizer_parse(json, strlen(json), &t, &e), E_USAGE);
        assert_says(&e, refused[i].says);
        free(json);
    }
    json_decref(root);
}

static uint64_t hash_of(const json_t *root)
{
    tokenizer *t = tokenizer_of_json(root);
    uint64_t hash = tokenizer_hash(t);
    tokenizer_close(t);
    return hash;
}

static void the_hash_ignores_the_formatting_of_the_file(void **state)
{
    (void)state;
    json_t *root = golden_json("gpt2.json"), *model = json_object_get(root, "model");
    uint64_t before = hash_of(root);
    json_t *merges = json_object_get(model, "merges"), *old = json_array();
    json_array_append_new(old, json_string("#version: 0.2"));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        json_array_append_new(old,
                              json_sprintf("%s %s", json_string_value(json_array_get(merge, 0)),
                                           json_string_value(json_array_get(merge, 1))));
    }
    json_object_set_new(model, "merges", old);
    json_t *byte_level = json_object_get(root, "pre_tokenizer");
    json_object_del(byte_level, "use_regex"); // true is the default
    json_object_set_new(byte_level, "trim_offsets", json_false());
    json_object_set_new(root, "padding", json_integer(3));
    json_object_set_new(root, "post_processor",
                        json_loads(TEMPLATE("[" TOKEN("<s>") "," TEXT_A "]"), 0, NULL));
    assert_true(hash_of(root) == before);
    json_decref(root);
}

static void the_hash_changes_when_ids_change(void **state)
{
    (void)state;
    uint64_t seen[8];
    for (int change = 0; change < 8; change++) {
        json_t *root = golden_json("gpt2.json"), *model = json_object_get(root, "model");
        json_t *merges = json_object_get(model, "merges"),
               *byte_level = json_object_get(root, "pre_tokenizer");
        json_t *added = json_array_get(json_object_get(root, "added_tokens"), 1);
        if (change == 1) json_array_remove(merges, json_array_size(merges) - 1);
        if (change == 2) {
            json_t *first = json_incref(json_array_get(merges, 0));
            json_array_remove(merges, 0);
            json_array_insert_new(merges, 1, first);
        }
        if (change == 3) json_object_set_new(byte_level, "add_prefix_space", json_true());
        if (change == 4) json_object_set_new(model, "ignore_merges", json_true());
        if (change == 5) json_object_set_new(added, "lstrip", json_true());
        if (change == 6) json_array_remove(json_object_get(root, "added_tokens"), 1);
        if (change == 7)
            json_object_set_new(json_object_get(model, "vocab"), "a token", json_integer(1300));
        seen[change] = hash_of(root);
        for (int k = 0; k < change; k++) assert_true(seen[k] != seen[change]);
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_ids_equal_those_of_huggingface),
        cmocka_unit_test(unsupported_post_processors_are_named),
        cmocka_unit_test(the_hash_ignores_the_formatting_of_the_file),
        cmocka_unit_test(the_hash_changes_when_ids_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
