// The dataset of rows: documents, starts, labels, padding and weights; truncation; shards with labels; mixtures.
#include "unit/data/samples_golden.h"

#include "data/prepare.h"
#include "device/kernels.h"

enum { LENGTH = 32 };

typedef struct rows_rig {
    tokenizer *t;
    samples_options o;
    samples_counts n;
    dataset *d;
    err e;
} rows_rig;

static void rig_open(rows_rig *r)
{
    *r = (rows_rig){.t = sft_tokenizer()};
    r->o = (samples_options){.tokenizer = r->t, .seq_len = LENGTH, .vocab = tokenizer_vocab(r->t)};
}

static void rig_close(rows_rig *r)
{
    dataset_close(r->d);
    tokenizer_close(r->t);
}

static status rows_open(rows_rig *r, const dataset_source *sources, size_t count)
{
    dataset_close(r->d);
    r->d = NULL;
    return samples_open(sources, count, &r->o, &r->n, &r->d, &r->e);
}

static void open_one(rows_rig *r, const char *path)
{
    const dataset_source source = {.path = path, .weight = 1};
    if (rows_open(r, &source, 1) != OK) fail_msg("%s", r->e.text);
}

typedef struct row {
    int32_t in[2 * LENGTH], out[LENGTH];
    float weight[LENGTH]; // behind the labels
} row;

static void row_get(const rows_rig *r, uint64_t k, row *out)
{
    err e = {0};
    assert_int_equal(r->d->read(r->d, k, out->in, out->out, &e), OK);
    assert_int_equal(dataset_check_starts(out->in + LENGTH, LENGTH, &e), OK);
}

// Writes `count` completions of one word; number k has k % 7 + 1 words of prompt, and weight k % 3 + 1 where weighted.
static const char *file_make(void **state, const char *name, int count, bool weighted)
{
    const char *path = in_folder(state, name);
    text lines = {0};
    for (int k = 0; k < count; k++) {
        text_addf(&lines, "{\"prompt\":\"%d", k);
        for (int i = 0; i < k % 7; i++) text_add(&lines, " oars");
        text_add(&lines, ":\",\"completion\":\" pull as one\"");
        if (weighted) text_addf(&lines, ",\"weight\":%d", k % 3 + 1);
        text_add(&lines, "}\n\n");
    }
    put_text(path, lines.chars);
    text_clear(&lines);
    return path;
}

// Checks the documents of a row against the lines of the file, and marks them.
static void check_row(const rows_rig *r, const row *x, const json_t *lines, int *seen)
{
    int64_t first = 0;
    while (first < LENGTH) {
        int64_t end = first + 1, labels = 0;
        while (end < LENGTH && x->in[LENGTH + end] == first) end++;
        for (int64_t i = first; i < end; i++) {
            if (x->out[i] == IGNORED_LABEL) continue;
            assert_true(i + 1 < end);
            assert_int_equal(x->out[i], x->in[i + 1]);
            labels++;
        }
        if (labels == 0) { // padding
            assert_int_equal(end, LENGTH);
            for (int64_t i = first; i < end; i++) assert_int_equal(x->in[i], 0);
            return;
        }
        size_t k = 0;
        for (; k < json_array_size(lines); k++) {
            const json_t *ids = json_array_get(lines, k);
            bool same = (int64_t)json_array_size(ids) == end - first;
            for (int64_t i = 0; same && i < end - first; i++)
                same = item(ids, (size_t)i) == x->in[first + i];
            if (same) break;
        }
        assert_true(k < json_array_size(lines));
        seen[k]++;
        first = end;
    }
    (void)r;
}

static status keep_line(void *arg, const samples_place *at, const samples_line *line, err *e)
{
    json_t *ids = json_array();
    (void)at, (void)e;
    for (size_t i = 0; i < line->count; i++)
        json_array_append_new(ids, json_integer(line->token[i] & ~SAMPLE_TRAINED));
    json_array_append_new(arg, ids);
    return OK;
}

static void every_line_stands_once_in_the_rows(void **state)
{
    rows_rig r;
    rig_open(&r);
    const char *path = file_make(state, "a.jsonl", 3000, false);
    json_t *lines = json_array();
    assert_int_equal(samples_read(path, FORMAT_AUTO, &r.o, keep_line, lines, &r.e), OK);
    assert_int_equal(json_array_size(lines), 3000);
    for (int packing = 0; packing < SAMPLES_PACKINGS; packing++) {
        int seen[3000] = {0};
        uint64_t total = 0, labels = 0;
        row x;
        r.o.packing = (samples_packing)packing;
        r.o.threads = 1 + packing;
        open_one(&r, path);
        assert_int_equal(r.d->shape.inputs, 2 * LENGTH);
        assert_true(r.d->shape.documents);
        assert_int_equal(r.d->shape.extras, 0);
        for (uint64_t k = 0; k < r.d->samples; k++) {
            row_get(&r, k, &x);
            check_row(&r, &x, lines, seen);
            for (int i = 0; i < LENGTH; i++) labels += x.out[i] != IGNORED_LABEL;
        }
        for (int k = 0; k < 3000; k++) {
            assert_int_equal(seen[k], 1);
            total += json_array_size(json_array_get(lines, (size_t)k));
        }
        assert_int_equal(r.n.samples, 3000);
        assert_int_equal(r.n.rows, r.d->samples);
        assert_int_equal(r.n.tokens, total);
        assert_true(r.d->memory >= total * sizeof(int32_t) &&
                    r.d->memory < 4 * total * sizeof(int32_t));
        assert_int_equal(r.n.labels, labels);
    }
    assert_int_equal(r.d->samples, 3000); // none: a row each
    json_decref(lines);
    rig_close(&r);
}

static void weights_of_lines_stand_behind_the_labels(void **state)
{
    rows_rig r;
    row x;
    rig_open(&r);
    r.o.packing = PACKING_NONE;
    open_one(&r, file_make(state, "a.jsonl", 9, true));
    assert_int_equal(r.d->shape.extras, 1);
    for (uint64_t k = 0; k < 9; k++) {
        row_get(&r, k, &x);
        for (int i = 0; i < LENGTH; i++)
            assert_true(x.weight[i] == (x.in[LENGTH + i] == 0 ? (float)(k % 3 + 1) : 1));
    }
    rig_close(&r);
}

static void weights_of_sources_repeat_and_thin(void **state)
{
    rows_rig r;
    rig_open(&r);
    dataset_source sources[] = {{.path = file_make(state, "a.jsonl", 10, false), .weight = 2.5},
                                {.path = file_make(state, "b.jsonl", 8, false), .weight = 0.25}};
    assert_int_equal(rows_open(&r, sources, 2), OK);
    assert_int_equal(r.n.samples, 27);
    assert_int_equal(r.n.lines, 18);
    sources[0].weight = -1;
    assert_int_equal(rows_open(&r, sources, 2), E_USAGE);
    assert_says(&r.e, "weight of");
    rig_close(&r);
}

// A text of 3 + 40 words and the end, and a short one.
static const char *long_make(void **state)
{
    text t = {0};
    text_add(&t, "{\"text\":\"pull as one");
    for (int i = 0; i < 40; i++) text_add(&t, " oars");
    text_add(&t, "\"}\n{\"text\":\"pull as one\"}\n");
    const char *path = in_folder(state, "long.jsonl");
    put_text(path, t.chars);
    text_clear(&t);
    return path;
}

static void longer_lines_are_what_the_job_says(void **state)
{
    rows_rig r;
    row x;
    const int rows[] = {0, 1, 2, 2, 2}; // of packing next_fit, by samples_truncate
    rig_open(&r);
    r.o.packing = PACKING_NEXT_FIT;
    const dataset_source source = {.path = long_make(state), .weight = 1};
    for (int word = 0; word < SAMPLES_TRUNCATES; word++) {
        r.o.truncate = (samples_truncate)word;
        const status s = rows_open(&r, &source, 1);
        if (word == TRUNCATE_ERROR) {
            assert_int_equal(s, E_USAGE);
            assert_says(&r.e, "long.jsonl:1: the sample has");
            assert_says(&r.e, "data.seq_len is 32");
            continue;
        }
        assert_int_equal(s, OK);
        assert_int_equal(r.n.too_long, 1);
        assert_int_equal(r.d->samples, rows[word]);
        row_get(&r, 0, &x);
        const int32_t first = x.in[0], last = x.out[LENGTH - 2];
        if (word == TRUNCATE_KEEP_END) assert_int_equal(last, tokenizer_end_of_text(r.t));
        if (word == TRUNCATE_KEEP_START) assert_int_not_equal(last, tokenizer_end_of_text(r.t));
        if (word == TRUNCATE_KEEP_START || word == TRUNCATE_SPLIT)
            assert_int_equal(first, tokenizer_id(r.t, "pull"));
        assert_true((r.n.labels_lost > 0) == true);
    }
    rig_close(&r);
}

static void a_part_without_labels_is_left_out(void **state)
{
    rows_rig r;
    text t = {0};
    rig_open(&r);
    text_add(&t, "{\"prompt\":\"");
    for (int i = 0; i < 40; i++) text_add(&t, " oars");
    text_add(&t, "\",\"completion\":\" pull\"}\n{\"prompt\":\"a\",\"completion\":\" b\"}\n");
    const char *path = in_folder(state, "p.jsonl");
    put_text(path, t.chars);
    text_clear(&t);
    r.o.truncate = TRUNCATE_KEEP_START;
    open_one(&r, path);
    assert_int_equal(r.n.unlabelled, 1);
    assert_int_equal(r.n.samples, 1);
    r.o.truncate = TRUNCATE_SPLIT;
    open_one(&r, path);
    assert_int_equal(r.n.unlabelled, 1);
    assert_int_equal(r.n.samples, 2);
    rig_close(&r);
}

static void preferences_are_pairs_in_one_row(void **state)
{
    rows_rig r;
    row x;
    rig_open(&r);
    r.o.pairs = true;
    put_text(in_folder(state, "p.jsonl"),
             "{\"prompt\":\"one\",\"chosen\":\" pull\",\"rejected\":\" oars as\"}\n"
             "{\"prompt\":\"two\",\"chosen\":\" as one\",\"rejected\":\" as\"}\n");
    open_one(&r, in_folder(state, "p.jsonl"));
    assert_int_equal(r.n.samples, 2);
    assert_int_equal(r.d->samples, 1);
    row_get(&r, 0, &x);
    int documents = 0, labelled = 0;
    for (int i = 0; i < LENGTH; i++) {
        documents += x.in[LENGTH + i] == i;
        labelled += x.out[i] != IGNORED_LABEL;
    }
    assert_int_equal(documents, 5); // two pairs and padding
    assert_int_equal(labelled, r.n.labels);
    r.o.truncate = TRUNCATE_SPLIT;
    const dataset_source source = {.path = in_folder(state, "p.jsonl"), .weight = 1};
    assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
    assert_says(&r.e, "data.truncate: found split");
    rig_close(&r);
}

static void completions_with_labels_take_a_place_of_a_pair(void **state)
{
    rows_rig r;
    row x;
    rig_open(&r);
    r.o.pairs = true;
    r.o.packing = PACKING_NONE;
    put_text(in_folder(state, "k.jsonl"),
             "{\"prompt\":\"one\",\"completion\":\" pull\",\"label\":true}\n"
             "{\"prompt\":\"two\",\"completion\":\" as one\",\"label\":false}\n");
    open_one(&r, in_folder(state, "k.jsonl"));
    assert_int_equal(r.d->samples, 2);
    assert_int_equal(r.n.most_documents, 2);
    for (uint64_t k = 0; k < 2; k++) {
        int labels[2] = {0}, document = 0;
        row_get(&r, k, &x);
        for (int i = 0; i < LENGTH; i++) {
            if (i > 0 && x.in[LENGTH + i] == i) document++;
            if (x.out[i] != IGNORED_LABEL) labels[document]++;
        }
        assert_true(labels[k] > 0 && labels[1 - k] == 0);
    }
    rig_close(&r);
}

static void prepare(void **state, const char *input, const char *name, rows_rig *r)
{
    prepare_result result;
    const prepare_options o = {.inputs = &input,
                               .input_count = 1,
                               .output_prefix = in_folder(state, name),
                               .tokenizer = SFT_FOLDER "tokenizer.json",
                               .sft = true};
    if (prepare_run(&o, &result, &r->e) != OK) fail_msg("%s", r->e.text);
    assert_true(result.labels > 0 && result.labels < result.tokens);
}

static void prepared_shards_give_the_same_rows(void **state)
{
    rows_rig r, s;
    rig_open(&r);
    rig_open(&s);
    s.o.tokenizer = NULL;
    for (int weighted = 0; weighted < 2; weighted++) {
        const char *path = file_make(state, "a.jsonl", 200, weighted);
        prepare(state, path, "shard", &r);
        open_one(&r, path);
        open_one(&s, in_folder(state, "shard"));
        assert_int_equal(r.d->samples, s.d->samples);
        assert_int_equal(r.d->shape.extras, s.d->shape.extras);
        for (uint64_t k = 0; k < r.d->samples; k++) {
            row a = {.weight = {0}}, b = {.weight = {0}};
            row_get(&r, k, &a);
            row_get(&s, k, &b);
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
    rig_close(&r);
    rig_close(&s);
}

static void broken_labels_are_refused(void **state)
{
    rows_rig r;
    rig_open(&r);
    prepare(state, file_make(state, "a.jsonl", 20, false), "shard", &r);
    const dataset_source source = {.path = in_folder(state, "shard"), .weight = 1};
    const char *path = in_folder(state, "shard.labels");
    char *bytes;
    size_t count;
    assert_int_equal(file_read(path, &bytes, &count, &r.e), OK);
    put_file(path, bytes, count - 1);
    assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
    assert_says(&r.e, "shard.labels: has");
    bytes[16]++;
    put_file(path, bytes, count);
    assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
    assert_says(&r.e, "belongs to a shard of");
    put_text(path, "labels");
    assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
    free(bytes);
    rig_close(&r);
}

static void token_shards_stand_behind_the_samples(void **state)
{
    rows_rig r;
    row x;
    tokens_writer *w = NULL;
    int32_t ids[101];
    rig_open(&r);
    for (int i = 0; i < 101; i++) ids[i] = i % 50;
    assert_int_equal(tokens_writer_open(in_folder(state, "plain"), 360, &w, &r.e), OK);
    assert_int_equal(tokens_writer_document(w, ids, 101, &r.e), OK);
    assert_int_equal(tokens_writer_finish(w, &r.e), OK);
    const dataset_source sources[] = {{.path = file_make(state, "a.jsonl", 5, false), .weight = 1},
                                      {.path = in_folder(state, "plain"), .weight = 2}};
    assert_int_equal(rows_open(&r, sources, 2), OK);
    const uint64_t packed = r.d->samples - 6; // (101 - 1) / 32 rows, twice
    for (uint64_t k = 0; k < 6; k++) {
        row_get(&r, packed + k, &x);
        for (int i = 0; i < LENGTH; i++) {
            assert_int_equal(x.in[i], ((int)(k % 3) * LENGTH + i) % 50);
            assert_int_equal(x.out[i], ((int)(k % 3) * LENGTH + i + 1) % 50);
            assert_int_equal(x.in[LENGTH + i], 0);
        }
    }
    rig_close(&r);
}

static void broken_files_name_the_line(void **state)
{
    const struct {
        const char *lines, *says;
    } cases[] = {
        {"{\"text\":\"a\"}\n\n{\"text\":\"\"}\n", "a.jsonl:3: no token of the line"},
        {"{\"text\":\"a\"}\n{\"prompt\":\"a\",\"completion\":\"b\"}\n",
         "a.jsonl:2: the line is prompt_completion, and lines before it are text"},
        {"{\"text\":\"a\"}\n{\n", "a.jsonl:2: broken JSON"},
        {"", "no sample is left of 0 lines"},
    };
    rows_rig r;
    rig_open(&r);
    const dataset_source source = {.path = in_folder(state, "a.jsonl"), .weight = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text(source.path, cases[i].lines);
        assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
        assert_says(&r.e, cases[i].says);
    }
    put_text(source.path, "{\"text\":\"a\"}\n");
    r.o.vocab = 3;
    assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
    assert_says(&r.e, "a.jsonl:1: token 0 has the id");
    r.o.tokenizer = NULL;
    assert_int_equal(rows_open(&r, &source, 1), E_USAGE);
    assert_says(&r.e, "JSONL needs a tokenizer");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(every_line_stands_once_in_the_rows),
        SCRATCH_TEST(weights_of_lines_stand_behind_the_labels),
        SCRATCH_TEST(weights_of_sources_repeat_and_thin),
        SCRATCH_TEST(longer_lines_are_what_the_job_says),
        SCRATCH_TEST(a_part_without_labels_is_left_out),
        SCRATCH_TEST(preferences_are_pairs_in_one_row),
        SCRATCH_TEST(completions_with_labels_take_a_place_of_a_pair),
        SCRATCH_TEST(prepared_shards_give_the_same_rows),
        SCRATCH_TEST(broken_labels_are_refused),
        SCRATCH_TEST(token_shards_stand_behind_the_samples),
        SCRATCH_TEST(broken_files_name_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
