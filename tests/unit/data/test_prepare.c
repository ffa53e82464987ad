// Preparation from text to shards: the shards decode to the input for any number of threads and any
// form of the input, and a failure leaves the folder unchanged.
#include "unit/data/scratch.h"

#include "data/prepare.h"
#include "data/sidecar.h"
#include "data/tokens.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

typedef struct run {
    prepare_options o;
    prepare_result r;
    err e;
    const char *input[4], *key[4];
} run;

static run run_make(void **state, const char *input)
{
    run r = {.o = {.output_prefix = in_folder(state, "p"), .train_bpe = 300}};
    r.input[0] = input;
    r.o.input_count = 1;
    return r;
}

static status run_it(run *r)
{
    r->o.inputs = r->input;
    r->o.json_keys = r->key;
    return prepare_run(&r->o, &r->r, &r->e);
}

static void run_ok(run *r)
{
    if (run_it(r) != OK) fail_msg("%s", r->e.text);
}

// Checks that the run is refused with this message and leaves the number of files unchanged.
static void run_refused(void **state, run *r, const char *says)
{
    int before = files_in(*state);
    assert_int_equal(run_it(r), E_USAGE);
    assert_says(&r->e, says);
    assert_int_equal(files_in(*state), before);
}

static void put_gzip(const char *path, const char *s)
{
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, s, (unsigned)strlen(s)), (int)strlen(s));
    assert_int_equal(gzclose(f), Z_OK);
}

// Decodes document d of a shard. The caller frees the text.
static char *decoded(void **state, const char *prefix, const char *tokenizer_file, uint64_t d)
{
    err e = {0};
    tokens *t = NULL;
    tokenizer *words = NULL;
    text out = {0};
    uint64_t first, length;
    if (tokens_open(in_folder(state, prefix), &t, &e) != OK) fail_msg("%s", e.text);
    if (tokenizer_load(in_folder(state, tokenizer_file), &words, &e) != OK) fail_msg("%s", e.text);
    assert_true(d < tokens_documents(t));
    tokens_document(t, d, &first, &length);
    int32_t *ids = calloc(length + 1, sizeof *ids);
    tokens_read(t, first, length, ids);
    tokenizer_decode(words, ids, length, false, &out);
    free(ids);
    tokenizer_close(words);
    tokens_close(t);
    return out.chars;
}

static void assert_document(void **state, const char *prefix, uint64_t d, const char *want)
{
    char *got = decoded(state, prefix, "p.tokenizer.json", d);
    assert_string_equal(got, want);
    free(got);
}

static void assert_same_file(void **state, const char *a, const char *b)
{
    err e = {0};
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    assert_int_equal(file_read(in_folder(state, a), &x, &n, &e), OK);
    assert_int_equal(file_read(in_folder(state, b), &y, &m, &e), OK);
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s and %s differ", a, b);
    free(x);
    free(y);
}

static const char lines[] =
    "{\"text\": \"The first document.\", \"id\": 12345678901234567890, \"x\": [NaN, -1e999]}\n"
    "\n"
    "{\"id\": 2, \"text\": \"\"}\r\n"
    "{\"text\": \"second\\n\\u00e9\\ud83d\\ude00 line\"}\n"
    "{\"text\": \"third, without a newline after it\"}";

static void jsonl_comes_back_in_order(void **state)
{
    put_text(in_folder(state, "in.jsonl"), lines);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    r.o.append_eod = true;
    run_ok(&r);
    assert_int_equal(r.r.documents, 3);
    assert_int_equal(r.r.empty_documents, 1);
    assert_int_equal(r.r.valid_documents, 0);
    assert_int_equal(r.r.bytes, 19 + 18 + 33);
    assert_document(state, "p", 0, "The first document.<|endoftext|>");
    assert_document(state, "p", 1, "second\n\u00e9\U0001F600 line<|endoftext|>");
    assert_document(state, "p", 2, "third, without a newline after it<|endoftext|>");
    assert_int_equal(files_in(*state), 5); // in.jsonl, p.bin, p.idx, p.json, p.tokenizer.json

    err e = {0};
    sidecar s = {0};
    bool found = false;
    assert_int_equal(sidecar_read(in_folder(state, "p"), &s, &found, &e), OK);
    assert_true(found && s.append_eod);
    assert_int_equal(s.tokens, r.r.tokens);
    assert_int_equal(s.documents, 3);
    assert_int_equal(s.text_bytes, 70);
    assert_int_equal(s.vocab, r.r.vocab);
    assert_string_equal(s.tokenizer, in_folder(state, "p.tokenizer.json"));
    sidecar_clear(&s);
}

static void a_loaded_tokenizer_gives_the_same_shard_as_when_it_was_trained(void **state)
{
    put_text(in_folder(state, "in.jsonl"), lines);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    run_ok(&r);
    run again = run_make(state, in_folder(state, "in.jsonl"));
    again.o.train_bpe = 0;
    again.o.tokenizer = in_folder(state, "p.tokenizer.json");
    again.o.output_prefix = in_folder(state, "q");
    run_ok(&again);
    assert_same_file(state, "p.bin", "q.bin");
    assert_same_file(state, "p.idx", "q.idx");
    assert_same_file(state, "p.tokenizer.json", "q.tokenizer.json");
}

static void gzip_and_plain_files_give_the_same_shard(void **state)
{
    const char *s = "One file is one document.\n\nBlank lines and all.\n";
    err e = {0};
    put_gzip(in_folder(state, "in.jsonl.gz"), lines);
    put_text(in_folder(state, "in.jsonl"), lines);
    put_gzip(in_folder(state, "in.txt.gz"), s);
    put_text(in_folder(state, "in.txt"), s);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    r.input[1] = in_folder(state, "in.txt");
    r.o.input_count = 2;
    run_ok(&r);
    assert_document(state, "p", 3, s);
    run packed = run_make(state, in_folder(state, "in.jsonl.gz"));
    packed.input[1] = in_folder(state, "in.txt.gz");
    packed.o.input_count = 2;
    packed.o.output_prefix = in_folder(state, "q");
    run_ok(&packed);
    assert_same_file(state, "p.bin", "q.bin");
    assert_same_file(state, "p.tokenizer.json", "q.tokenizer.json");

    put_text(in_folder(state, "bad.gz"), "not gzip at all");
    run bad = run_make(state, in_folder(state, "bad.gz"));
    run_refused(state, &bad, "bad.gz: is not gzip data");
    char *packed_bytes = NULL;
    size_t bytes = 0;
    assert_int_equal(file_read(in_folder(state, "in.txt.gz"), &packed_bytes, &bytes, &e), OK);
    put_file(in_folder(state, "bad.gz"), packed_bytes, bytes - 9);
    bad = run_make(state, in_folder(state, "bad.gz"));
    run_refused(state, &bad, "bad.gz: broken gzip data");
    packed_bytes[bytes - 7] ^= 1; // of the checksum
    put_file(in_folder(state, "bad.gz"), packed_bytes, bytes);
    bad = run_make(state, in_folder(state, "bad.gz"));
    run_refused(state, &bad, "bad.gz: broken gzip data");
    free(packed_bytes);
}

static void files_of_a_folder_come_in_byte_order(void **state)
{
    err e = {0};
    assert_int_equal(file_make_directories(in_folder(state, "d/b/c"), &e), OK);
    assert_int_equal(file_make_directories(in_folder(state, "empty"), &e), OK);
    put_text(in_folder(state, "d/b/c/x"), "three");
    put_text(in_folder(state, "d/b/a.txt"), "two");
    put_text(in_folder(state, "d/Z"), "one");
    put_text(in_folder(state, "d/c"), "four");
    assert_int_equal(symlink("Z", in_folder(state, "d/link")), 0);
    run r = run_make(state, in_folder(state, "d"));
    run_ok(&r);
    assert_int_equal(r.r.documents, 4);
    assert_document(state, "p", 0, "one");
    assert_document(state, "p", 1, "two");
    assert_document(state, "p", 2, "three");
    assert_document(state, "p", 3, "four");
    run none = run_make(state, in_folder(state, "empty"));
    run_refused(state, &none, "empty: no regular file in this folder");
}

// Documents are longer than a chunk of the file, and separators cross the ends of chunks.
static void text_is_split_at_the_separator(void **state)
{
    enum { CHUNK = 1 << 18 };
    const size_t sizes[] = {CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5, 3};
    text all = {0};
    uint64_t bytes = 0;
    for (int i = 0; i < 5; i++) {
        for (size_t k = 0; k < sizes[i]; k++) text_add(&all, k % 7 ? "-" : " ");
        text_add(&all, "-==-");
        bytes += sizes[i];
    }
    put_file(in_folder(state, "in"), all.chars, all.bytes);
    run r = run_make(state, in_folder(state, "in"));
    r.o.document_separator = "-==-";
    run_ok(&r);
    assert_int_equal(r.r.documents, 5);
    assert_int_equal(r.r.empty_documents, 0);
    assert_int_equal(r.r.bytes, bytes);
    for (uint64_t d = 0; d < 5; d++) {
        char *got = decoded(state, "p", "p.tokenizer.json", d);
        assert_int_equal(strlen(got), sizes[d]);
        free(got);
    }
    put_text(in_folder(state, "in"), "##a####b");
    run empty = run_make(state, in_folder(state, "in"));
    empty.o.document_separator = "##";
    run_ok(&empty);
    assert_int_equal(empty.r.documents, 2);
    assert_int_equal(empty.r.empty_documents, 2);
    assert_document(state, "p", 1, "b");
    text_clear(&all);
}

static void many_documents_make(void **state, const char *name, int count)
{
    text all = {0};
    for (int i = 0; i < count; i++)
        text_addf(&all, "{\"text\": \"document %d says %d%s\"}\n", i, i * i, i % 3 ? "" : " again");
    put_file(in_folder(state, name), all.chars, all.bytes);
    text_clear(&all);
}

static void the_bytes_do_not_depend_on_the_number_of_threads(void **state)
{
    many_documents_make(state, "in.jsonl", 20000); // more than two rounds
    const int workers[] = {1, 2, 5};
    const char *const prefixes[] = {"p", "q", "s"};
    for (int i = 0; i < 3; i++) {
        run r = run_make(state, in_folder(state, "in.jsonl"));
        r.o.workers = workers[i];
        r.o.output_prefix = in_folder(state, prefixes[i]);
        r.o.valid_fraction = 0.1;
        r.o.append_eod = true;
        run_ok(&r);
        assert_int_equal(r.r.documents + r.r.valid_documents, 20000);
        assert_in_range(r.r.valid_documents, 1800, 2200);
    }
    const char *const others[] = {"q", "s"}, *const ends[] = {".bin", ".idx", "_valid.bin",
                                                              "_valid.idx", ".tokenizer.json"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 5; k++) {
            char a[32], b[32];
            snprintf(a, sizeof a, "p%s", ends[k]);
            snprintf(b, sizeof b, "%s%s", others[i], ends[k]);
            assert_same_file(state, a, b);
        }
}

static void validation_documents_depend_on_number_and_seed(void **state)
{
    enum { COUNT = 200 };
    many_documents_make(state, "in.jsonl", COUNT);
    bool chosen[2][COUNT] = {0};
    for (int seed = 0; seed < 2; seed++) {
        run r = run_make(state, in_folder(state, "in.jsonl"));
        r.o.valid_fraction = 0.25;
        r.o.seed = (uint64_t)seed;
        run_ok(&r);
        assert_int_equal(r.r.documents + r.r.valid_documents, COUNT);
        bool seen[COUNT] = {0};
        for (uint64_t d = 0; d < COUNT; d++) {
            bool valid = d >= r.r.documents;
            char *got = decoded(state, valid ? "p_valid" : "p", "p.tokenizer.json",
                                valid ? d - r.r.documents : d);
            int number = -1;
            assert_int_equal(sscanf(got, "document %d", &number), 1);
            assert_false(seen[number]);
            seen[number] = true;
            chosen[seed][number] = valid;
            free(got);
        }
    }
    assert_memory_not_equal(chosen[0], chosen[1], COUNT);
}

static void the_tokenizer_learns_nothing_from_validation_documents(void **state)
{
    many_documents_make(state, "a.jsonl", 100);
    run r = run_make(state, in_folder(state, "a.jsonl"));
    r.o.valid_fraction = 0.3;
    run_ok(&r);
    char *first = decoded(state, "p_valid", "p.tokenizer.json", 0);
    int number = -1;
    assert_int_equal(sscanf(first, "document %d", &number), 1);
    free(first);
    text all = {0};
    for (int i = 0; i < 100; i++)
        if (i == number)
            text_add(&all,
                     "{\"text\": \"zzzz zzzz zzzz zzzz zzzz zzzz zzzz zzzz zzzz zzzz zzzz\"}\n");
        else
            text_addf(&all, "{\"text\": \"document %d says %d%s\"}\n", i, i * i,
                      i % 3 ? "" : " again");
    put_file(in_folder(state, "b.jsonl"), all.chars, all.bytes);
    text_clear(&all);
    run other = run_make(state, in_folder(state, "b.jsonl"));
    other.o.valid_fraction = 0.3;
    other.o.output_prefix = in_folder(state, "q");
    run_ok(&other);
    assert_same_file(state, "p.tokenizer.json", "q.tokenizer.json");
    assert_same_file(state, "p.bin", "q.bin");
    assert_true(other.r.valid_bytes != r.r.valid_bytes);
}

static void no_validation_document_means_no_validation_shard(void **state)
{
    many_documents_make(state, "in.jsonl", 50);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    r.o.valid_fraction = 0.5;
    run_ok(&r);
    assert_true(file_exists(in_folder(state, "p_valid.idx")));
    put_text(in_folder(state, "one.jsonl"), "{\"text\": \"alone\"}");
    run one = run_make(state, in_folder(state, "one.jsonl"));
    one.o.valid_fraction = 1e-6;
    run_ok(&one);
    assert_int_equal(one.r.valid_documents, 0);
    assert_false(file_exists(in_folder(state, "p_valid.idx"))); // the earlier run's is gone
    assert_false(file_exists(in_folder(state, "p_valid.bin")));
    run all = run_make(state, in_folder(state, "one.jsonl"));
    all.o.valid_fraction = 0.9999999;
    run_refused(state, &all, "no text to train a tokenizer on");
    all = run_make(state, in_folder(state, "one.jsonl"));
    all.o.valid_fraction = 0.9999999;
    all.o.train_bpe = 0;
    all.o.tokenizer = in_folder(state, "p.tokenizer.json");
    run_refused(state, &all, "--valid-fraction 1 sends all 1 documents to validation");
}

static void several_keys_give_a_shard_each(void **state)
{
    put_text(in_folder(state, "in.jsonl"), "{\"title\": \"T1\", \"body\": \"B1\"}\n"
                                           "{\"title\": \"\", \"body\": \"B2\"}\n"
                                           "{\"title\": \"T3\", \"body\": \"B3\"}\n");
    run r = run_make(state, in_folder(state, "in.jsonl"));
    r.key[0] = "title", r.key[1] = "body";
    r.o.json_key_count = 2;
    run_ok(&r);
    assert_int_equal(r.r.documents, 5);
    assert_int_equal(r.r.empty_documents, 1);
    assert_document(state, "p_title_document", 1, "T3");
    assert_document(state, "p_body_document", 1, "B2");

    run megatron = run_make(state, in_folder(state, "in.jsonl"));
    megatron.key[0] = "body";
    megatron.o.json_key_count = 1;
    megatron.o.megatron_names = true;
    megatron.o.output_prefix = in_folder(state, "m");
    run_ok(&megatron);
    assert_true(file_exists(in_folder(state, "m_body_document.bin")));
    assert_false(file_exists(in_folder(state, "m.bin")));

    run twice = run_make(state, in_folder(state, "in.jsonl"));
    twice.key[0] = twice.key[1] = "body";
    twice.o.json_key_count = 2;
    run_refused(state, &twice, "--json-keys: found body twice");
    put_text(in_folder(state, "plain"), "text");
    twice = run_make(state, in_folder(state, "plain"));
    twice.key[0] = "a", twice.key[1] = "b";
    twice.o.json_key_count = 2;
    run_refused(state, &twice, "plain: is plain text, which has no keys");
}

static void bad_input_is_named_by_file_and_position(void **state)
{
    static const struct {
        const char *name, *content, *says;
    } cases[] = {
        {"a.txt", "fine \xff no", "a.txt: byte 5: found 0xff, which is not UTF-8 there"},
        {"b.txt", "cut \xe2\x82", "b.txt: byte 4: found 0xe2"},
        {"c.txt", "", "c.txt: no text"},
        {"d.jsonl", "", "d.jsonl: no text"},
        {"e.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}\n", "e.jsonl: no text"},
        {"f.jsonl", "{\"text\": \"a\"}\n{\"text\": \n", "f.jsonl:2: broken JSON"},
        {"g.jsonl", "{\"text\": \"a\"}\n\n[1]\n", "g.jsonl:3: found JSON that is not an object"},
        {"h.jsonl", "{\"text\": \"a\"} {}\n", "h.jsonl:1: broken JSON"},
        {"i.jsonl", "{\"txt\": \"a\"}\n", "i.jsonl:1: key \"text\" is missing, valid is a string"},
        {"j.jsonl", "{\"text\": 5}\n", "j.jsonl:1: key \"text\" is not a string"},
        {"k.jsonl", "{\"text\": \"\xff\"}\n", "k.jsonl:1: broken JSON"},
        {"l.json", "[\n{\"text\": \"a\"}]\n", "l.json:1: broken JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text(in_folder(state, cases[i].name), cases[i].content);
        run r = run_make(state, in_folder(state, cases[i].name));
        run_refused(state, &r, cases[i].says);
    }
    run missing = run_make(state, in_folder(state, "nowhere.txt"));
    run_refused(state, &missing, "nowhere.txt: No such file");
}

// The encoding threads refuse the same records. The error names the first one in document order for
// any number of threads, and the files of an earlier run stay.
static void bad_input_is_found_by_any_number_of_threads(void **state)
{
    many_documents_make(state, "in.jsonl", 100);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    run_ok(&r);
    text all = {0};
    for (int i = 1; i <= 12000; i++)
        text_add(&all, i == 9000   ? "{\"text\": 1}\n"
                       : i == 9100 ? "{\n"
                                   : "{\"text\": \"fine\"}\n");
    put_file(in_folder(state, "bad.jsonl"), all.chars, all.bytes);
    text_clear(&all);
    for (int workers = 1; workers <= 4; workers++) {
        run bad = run_make(state, in_folder(state, "bad.jsonl"));
        bad.o.train_bpe = 0;
        bad.o.tokenizer = in_folder(state, "p.tokenizer.json");
        bad.o.workers = workers;
        run_refused(state, &bad, "bad.jsonl:9000: key \"text\" is not a string");
    }
    assert_document(state, "p", 7, "document 7 says 49");
}

static void impossible_options_are_refused(void **state)
{
    put_text(in_folder(state, "p.json"), "{\"text\": \"a\"}\n");
    const char *in = in_folder(state, "p.json");
    run r = run_make(state, in);
    run_refused(state, &r, "p.json: is an input and would be replaced by an output");
    r = run_make(state, in);
    r.o.output_prefix = *state;
    run_refused(state, &r, "is a folder, valid is a name in it");
    r = run_make(state, in);
    r.o.output_prefix = in_folder(state, "p.json/x");
    run_refused(state, &r, "p.json is not a folder");
    r = run_make(state, in);
    r.o.output_prefix = in_folder(state, "q");
    r.o.train_bpe = 256;
    run_refused(state, &r, "--train-bpe: found 256, valid is 257 or more");
    r.o.train_bpe = 0;
    run_refused(state, &r, "found no tokenizer");
    r.o.train_bpe = 300;
    r.o.tokenizer = "t.json";
    run_refused(state, &r, "found both");
    r.o.tokenizer = NULL;
    r.o.save_tokenizer = in_folder(state, "no/where.json");
    run_refused(state, &r, "no does not exist");
    r.o.save_tokenizer = NULL;
    const double fractions[] = {-0.1, 1, 0.0 / 0.0};
    for (int i = 0; i < 3; i++) {
        r.o.valid_fraction = fractions[i];
        run_refused(state, &r, "--valid-fraction: found");
    }
    r.o.valid_fraction = 0;
    r.o.workers = -1;
    run_refused(state, &r, "--workers: found -1");
    r.o.workers = 0;
    r.o.document_separator = "";
    run_refused(state, &r, "--document-separator");
    r.o.document_separator = NULL;
    r.o.input_count = 0;
    run_refused(state, &r, "--input: missing");
}

static bool always(void *arg)
{
    return ++*(int *)arg > 1;
}

static void an_interrupted_run_leaves_no_files_and_no_folders(void **state)
{
    many_documents_make(state, "in.jsonl", 20000);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    int asked = 0;
    r.o.output_prefix = in_folder(state, "new/deep/p");
    r.o.stopped = always;
    r.o.log_arg = &asked;
    assert_int_equal(run_it(&r), E_INTERRUPTED);
    assert_int_equal(asked, 2);
    assert_int_equal(files_in(*state), 1);
    asked = -100;
    run_ok(&r);
    assert_int_equal(files_in(in_folder(state, "new/deep")), 4);
}

// A limit of the file size replaces a full disk. The run is in a child process, because the limit
// cannot be raised again.
static void a_full_disk_leaves_the_old_files(void **state)
{
    many_documents_make(state, "in.jsonl", 4000);
    run r = run_make(state, in_folder(state, "in.jsonl"));
    r.o.valid_fraction = 0.5;
    run_ok(&r);
    int before = files_in(*state);
    uint64_t documents = r.r.documents;
    const rlim_t limits[] = {100, 5000, 20000};
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limits[i], limits[i]});
            run full = run_make(state, in_folder(state, "in.jsonl"));
            full.o.valid_fraction = 0.4;
            full.o.workers = 1;
            _exit(run_it(&full) == E_IO && strstr(full.e.text, strerror(EFBIG)) ? 0 : 1);
        }
        int how = 0;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
        assert_int_equal(files_in(*state), before);
    }
    err e = {0};
    tokens *t = NULL;
    assert_int_equal(tokens_open(in_folder(state, "p"), &t, &e), OK);
    assert_int_equal(tokens_documents(t), documents);
    tokens_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(jsonl_comes_back_in_order),
        SCRATCH_TEST(a_loaded_tokenizer_gives_the_same_shard_as_when_it_was_trained),
        SCRATCH_TEST(gzip_and_plain_files_give_the_same_shard),
        SCRATCH_TEST(files_of_a_folder_come_in_byte_order),
        SCRATCH_TEST(text_is_split_at_the_separator),
        SCRATCH_TEST(the_bytes_do_not_depend_on_the_number_of_threads),
        SCRATCH_TEST(validation_documents_depend_on_number_and_seed),
        SCRATCH_TEST(the_tokenizer_learns_nothing_from_validation_documents),
        SCRATCH_TEST(no_validation_document_means_no_validation_shard),
        SCRATCH_TEST(several_keys_give_a_shard_each),
        SCRATCH_TEST(bad_input_is_named_by_file_and_position),
        SCRATCH_TEST(bad_input_is_found_by_any_number_of_threads),
        SCRATCH_TEST(impossible_options_are_refused),
        SCRATCH_TEST(an_interrupted_run_leaves_no_files_and_no_folders),
        SCRATCH_TEST(a_full_disk_leaves_the_old_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
