// Preparation: the copy of the tokenizer beside the shards, special tokens, skipped documents and
// filtered files.
#include "unit/data/scratch.h"

#include "data/prepare.h"
#include "data/sidecar.h"
#include "data/tokens.h"

#include <jansson.h>

typedef struct run {
    prepare_options o;
    prepare_result r;
    err e;
    const char *input[1];
} run;

static run run_make(void **state, const char *input)
{
    run r = {.o = {.output_prefix = in_folder(state, "p"), .train_bpe = 300, .input_count = 1}};
    r.input[0] = in_folder(state, input);
    return r;
}

static status run_it(run *r)
{
    r->o.inputs = r->input;
    return prepare_run(&r->o, &r->r, &r->e);
}

static void run_ok(run *r)
{
    if (run_it(r) != OK) fail_msg("%s", r->e.text);
}

static void folder_make(void **state, const char *name)
{
    assert_int_equal(file_make_directories(in_folder(state, name), NULL), OK);
}

// Makes model/, a trained tokenizer. Its post-processor puts <|endoftext|> before a text and "a"
// after it, and its settings name "a" as the end-of-text token.
static void tokenizer_make(void **state)
{
    static const char post[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<|endoftext|>\"}}, {\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": "
        "\"a\"}}], "
        "\"special_tokens\": {\"<|endoftext|>\": {\"ids\": [0]}, \"a\": {\"ids\": [65]}}}";
    put_text(in_folder(state, "train.txt"), "a b c a b c a b");
    run r = run_make(state, "train.txt");
    r.o.output_prefix = in_folder(state, "model/t");
    run_ok(&r);
    json_t *root = json_load_file(in_folder(state, "model/t.tokenizer.json"), 0, NULL);
    assert_non_null(root);
    json_object_set_new(root, "post_processor", json_loads(post, 0, NULL));
    assert_int_equal(json_dump_file(root, in_folder(state, "model/tokenizer.json"), 0), 0);
    json_decref(root);
    put_text(in_folder(state, "model/tokenizer_config.json"),
             "{\"eos_token\": \"a\", \"model_max_length\": 1000000000000000019884624838656}");
}

static int32_t first_id(const char *prefix, uint64_t *length, int32_t *last)
{
    err e = {0};
    tokens *t = NULL;
    uint64_t first;
    int32_t ids[64];
    if (tokens_open(prefix, &t, &e) != OK) fail_msg("%s", e.text);
    tokens_document(t, 0, &first, length);
    assert_in_range(*length, 1, 64);
    tokens_read(t, first, *length, ids);
    *last = ids[*length - 1];
    tokens_close(t);
    return ids[0];
}

static void the_tokenizer_moves_with_the_shards(void **state)
{
    err e = {0};
    sidecar s = {0};
    tokenizer *t = NULL;
    bool found = false;
    char *kept = NULL, *given = NULL;
    tokenizer_make(state);
    folder_make(state, "data");
    run r = run_make(state, "train.txt");
    r.o.train_bpe = 0;
    r.o.append_eod = true;
    r.o.tokenizer = in_folder(state, "model/tokenizer.json");
    r.o.output_prefix = in_folder(state, "data/p");
    run_ok(&r);
    assert_int_equal(files_in(in_folder(state, "data")), 5);
    assert_int_equal(rename(in_folder(state, "data"), in_folder(state, "moved")), 0);
    assert_int_equal(sidecar_read(in_folder(state, "moved/p"), &s, &found, &e), OK);
    assert_string_equal(s.tokenizer, in_folder(state, "moved/p.tokenizer.json"));
    assert_int_equal(tokenizer_load(s.tokenizer, &t, &e), OK);
    assert_true(tokenizer_hash(t) == s.tokenizer_hash);
    assert_int_equal(tokenizer_end_of_text(t), 65); // as the settings beside it say
    assert_int_equal(s.eod, 65);
    assert_int_equal(file_read(in_folder(state, "moved/p.tokenizer_config.json"), &kept, NULL, &e),
                     OK);
    assert_int_equal(file_read(in_folder(state, "model/tokenizer_config.json"), &given, NULL, &e),
                     OK);
    assert_string_equal(kept, given);
    tokenizer_close(t);
    sidecar_clear(&s);
    free(kept);
    free(given);
    // Another tokenizer does not inherit those settings.
    run other = run_make(state, "train.txt");
    other.o.output_prefix = in_folder(state, "moved/p");
    other.o.save_tokenizer = in_folder(state, "saved.json");
    run_ok(&other);
    assert_false(file_exists(in_folder(state, "moved/p.tokenizer_config.json")));
    assert_int_equal(files_in(in_folder(state, "moved")), 4);
    assert_true(file_exists(in_folder(state, "saved.json")));
}

static void special_tokens_are_added_on_request(void **state)
{
    uint64_t plain, special;
    int32_t last;
    tokenizer_make(state);
    put_text(in_folder(state, "in.txt"), "b b");
    for (int add = 0; add < 2; add++) {
        run r = run_make(state, "in.txt");
        r.o.train_bpe = 0;
        r.o.tokenizer = in_folder(state, "model/tokenizer.json");
        r.o.add_special_tokens = add;
        run_ok(&r);
        assert_true(r.r.has_special_tokens);
        int32_t first = first_id(in_folder(state, "p"), add ? &special : &plain, &last);
        assert_true(add == (first == 0 && last == 65));
    }
    assert_int_equal(special, plain + 2);
}

static void invalid_documents_are_skipped_and_counted(void **state)
{
    char *bytes[2] = {NULL, NULL};
    size_t sizes[2];
    folder_make(state, "d");
    put_text(in_folder(state, "d/a.jsonl"),
             "{\"text\": \"one\"}\n{\"text\": \"\xff\"}\n{\"text\": 5}\n"
             "{\n{\"text\": \"two\"}\n");
    put_text(in_folder(state, "d/b.txt"), "fine \xff no");
    put_text(in_folder(state, "d/c.txt"), "three");
    run strict = run_make(state, "d");
    assert_int_equal(run_it(&strict), E_USAGE);
    assert_int_equal(files_in(*state), 1);
    for (int workers = 1; workers <= 2; workers++) {
        run r = run_make(state, "d");
        r.o.skip_invalid = true;
        r.o.workers = workers;
        run_ok(&r);
        assert_int_equal(r.r.documents, 3);
        assert_int_equal(r.r.invalid_records, 4);
        assert_says(&r.r.first_invalid, "d/a.jsonl:2: broken JSON");
        assert_int_equal(
            file_read(in_folder(state, "p.bin"), &bytes[workers - 1], &sizes[workers - 1], NULL),
            OK);
    }
    assert_true(sizes[0] == sizes[1] && memcmp(bytes[0], bytes[1], sizes[0]) == 0);
    free(bytes[0]);
    free(bytes[1]);
}

static void filters_select_the_files_of_a_folder(void **state)
{
    static const struct {
        const char *include, *exclude;
        uint64_t documents;
    } cases[] = {
        {NULL, NULL, 5},        {"*.txt", NULL, 3},      {"a.*", NULL, 2},
        {NULL, "*.md", 3},      {"*.txt", "c.txt", 2},   {NULL, "sub", 3},
        {"sub/*.txt", NULL, 1}, {NULL, "sub/deep/*", 4}, {"[ab].md", "sub", 1},
    };
    static const char *const names[] = {"d/a.txt", "d/a.md", "d/b.txt", "d/sub/c.txt",
                                        "d/sub/deep/d.md"};
    folder_make(state, "d/sub/deep");
    for (int i = 0; i < 5; i++) put_text(in_folder(state, names[i]), names[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = run_make(state, i % 2 ? "d" : "d/");
        r.o.filter = (prepare_filter){.include = &cases[i].include,
                                      .includes = cases[i].include != NULL,
                                      .exclude = &cases[i].exclude,
                                      .excludes = cases[i].exclude != NULL};
        run_ok(&r);
        assert_int_equal(r.r.documents, cases[i].documents);
    }
    const char *none = "*.csv";
    run r = run_make(state, "d");
    r.o.filter = (prepare_filter){.include = &none, .includes = 1};
    assert_int_equal(run_it(&r), E_USAGE);
    assert_says(&r.e, "d: no regular file in this folder passes --include and --exclude");
    r = run_make(state, "d/a.md"); // the filter does not apply to a file that is named
    r.o.filter = (prepare_filter){.include = &none, .includes = 1};
    run_ok(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(the_tokenizer_moves_with_the_shards),
        SCRATCH_TEST(special_tokens_are_added_on_request),
        SCRATCH_TEST(invalid_documents_are_skipped_and_counted),
        SCRATCH_TEST(filters_select_the_files_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
