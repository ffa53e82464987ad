// Templates that rewrite history: a conversation becomes a sample for each turn that the samples of later turns do not hold
// as it is generated. Ids and labels equal those of transformers; counts, weights, shards and rows follow the samples.
#include "unit/data/samples_golden.h"

#include "data/prepare.h"
#include "device/kernels.h"

#define TURNS_FOLDER  TESTS_DIR "/golden/turns/"
#define CONVERSATIONS TURNS_FOLDER "conversations.jsonl"
enum { LENGTH = 512 };

static const char *const TEMPLATES[] = {"drops", "empties", "finals"};
enum { TEMPLATE_COUNT = sizeof TEMPLATES / sizeof *TEMPLATES };

typedef struct turns_rig {
    tokenizer *t;
    chat_template *chat;
    samples_options o;
    err e;
} turns_rig;

static void rig_open(turns_rig *r, const char *name)
{
    char path[512], *source;
    size_t bytes;
    *r = (turns_rig){.t = sft_tokenizer()};
    snprintf(path, sizeof path, TURNS_FOLDER "%s.jinja", name);
    if (file_read(path, &source, &bytes, &r->e) != OK ||
        chat_template_open_text(r->t, name, source, bytes, &r->chat, &r->e) != OK)
        fail_msg("%s", r->e.text);
    free(source);
    r->o = (samples_options){
        .tokenizer = r->t, .chat = r->chat, .seq_len = LENGTH, .vocab = tokenizer_vocab(r->t)};
}

static void rig_close(turns_rig *r)
{
    chat_template_close(r->chat);
    tokenizer_close(r->t);
}

static json_t *expected_of(const char *name)
{
    json_t *all = sft_json("../turns/expected.json"), *lines = json_object_get(all, name);
    json_incref(lines);
    json_decref(all);
    return lines;
}

static size_t count_samples(const json_t *lines)
{
    size_t i, n = 0;
    json_t *line;
    json_array_foreach((json_t *)lines, i, line) n += json_array_size(line);
    return n;
}

static uint64_t count_labels(const json_t *lines)
{
    size_t i, k, t;
    json_t *line, *sample, *trained;
    uint64_t n = 0;
    json_array_foreach((json_t *)lines, i, line) json_array_foreach(line, k, sample)
        json_array_foreach(json_object_get(sample, "trained"), t, trained) n +=
        (uint64_t)json_integer_value(trained);
    return n;
}

// ---- Ids and labels

static bool is_equal(const samples_line *line, size_t d, const json_t *want)
{
    const json_t *ids = json_object_get(want, "ids"), *trained = json_object_get(want, "trained");
    const size_t first = d > 0 ? line->end[d - 1] : 0, count = line->end[d] - first;
    if (count != json_array_size(ids)) return false;
    for (size_t i = 0; i < count; i++) {
        const int32_t token = line->token[first + i];
        if ((token & ~SAMPLE_TRAINED) != item(ids, i)) return false;
        if (((token & SAMPLE_TRAINED) != 0) != (item(trained, i) != 0)) return false;
    }
    return true;
}

typedef struct comparison {
    const json_t *lines;
    size_t number, different;
} comparison;

static status compare(void *arg, const samples_place *at, const samples_line *line, err *e)
{
    comparison *c = arg;
    const json_t *want = json_array_get(c->lines, c->number++);
    bool same = line->documents == json_array_size(want) && !line->pair;
    (void)at, (void)e;
    for (size_t d = 0; same && d < line->documents; d++)
        same = is_equal(line, d, json_array_get(want, d));
    c->different += !same;
    return OK;
}

static size_t count_different(turns_rig *r, const json_t *lines)
{
    comparison c = {.lines = lines};
    if (samples_read(CONVERSATIONS, FORMAT_AUTO, &r->o, compare, &c, &r->e) != OK)
        fail_msg("%s", r->e.text);
    assert_int_equal(c.number, json_array_size(lines));
    return c.different;
}

static void samples_equal_transformers(void **state)
{
    (void)state;
    for (int k = 0; k < TEMPLATE_COUNT; k++) {
        turns_rig r;
        rig_open(&r, TEMPLATES[k]);
        json_t *lines = expected_of(TEMPLATES[k]);
        assert_true(count_samples(lines) > json_array_size(lines));
        assert_int_equal(count_different(&r, lines), 0);
        json_decref(lines);
        rig_close(&r);
    }
}

// The comparison sees other samples: those of another template, and a label that is missing.
static void other_samples_are_seen(void **state)
{
    (void)state;
    turns_rig r;
    rig_open(&r, "drops");
    json_t *others = expected_of("finals"), *own = expected_of("drops");
    assert_int_equal(count_different(&r, others), json_array_size(others));
    json_t *sample = json_array_get(json_array_get(own, 3), 0);
    json_t *trained = json_object_get(sample, "trained");
    json_array_set_new(trained, json_array_size(trained) - 1, json_integer(0));
    assert_int_equal(count_different(&r, own), 1);
    json_decref(others);
    json_decref(own);
    rig_close(&r);
}

// ---- Rows

static dataset *rows_open(turns_rig *r, const char *path, double weight, samples_counts *n)
{
    dataset *d = NULL;
    const dataset_source source = {.path = path, .weight = weight};
    if (samples_open(&source, 1, &r->o, n, &d, &r->e) != OK) fail_msg("%s", r->e.text);
    return d;
}

static void counts_are_of_samples(void **state)
{
    (void)state;
    for (int k = 0; k < TEMPLATE_COUNT; k++) {
        turns_rig r;
        samples_counts n;
        size_t i, split = 0, parts = 0;
        json_t *line, *lines = expected_of(TEMPLATES[k]);
        json_array_foreach(lines, i, line)
        {
            split += json_array_size(line) > 1;
            parts += json_array_size(line) > 1 ? json_array_size(line) : 0;
        }
        rig_open(&r, TEMPLATES[k]);
        dataset_close(rows_open(&r, CONVERSATIONS, 1, &n));
        assert_int_equal(n.lines, json_array_size(lines));
        assert_int_equal(n.samples, count_samples(lines));
        assert_int_equal(n.labels, count_labels(lines));
        assert_int_equal(n.splits.conversations, split);
        assert_int_equal(n.splits.samples, parts);
        assert_int_equal(n.too_long, 0);
        dataset_close(rows_open(&r, CONVERSATIONS, 3, &n));
        assert_int_equal(n.samples, 3 * count_samples(lines));
        // A line is too long once, however many of its samples are.
        r.o.seq_len = 8;
        r.o.truncate = TRUNCATE_KEEP_END;
        dataset_close(rows_open(&r, CONVERSATIONS, 1, &n));
        assert_int_equal(n.too_long, n.lines);
        json_decref(lines);
        rig_close(&r);
    }
}

static void every_sample_has_the_weight_of_its_line(void **state)
{
    turns_rig r;
    samples_counts n;
    int32_t in[2 * LENGTH], out[2 * LENGTH];
    rig_open(&r, "finals");
    const char *path = in_folder(state, "weighted.jsonl");
    put_text(
        path,
        "{\"weight\":3,\"messages\":["
        "{\"role\":\"user\",\"content\":\"pull\"},{\"role\":\"assistant\",\"content\":\"as\"},"
        "{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"two\"}]}\n");
    r.o.packing = PACKING_NONE;
    dataset *d = rows_open(&r, path, 1, &n);
    assert_int_equal(d->samples, 2);
    for (uint64_t k = 0; k < 2; k++) {
        float weight;
        assert_int_equal(d->read(d, k, in, out, &r.e), OK);
        memcpy(&weight, out + LENGTH, sizeof weight);
        assert_true(weight == 3);
    }
    dataset_close(d);
    rig_close(&r);
}

static void copy(const char *from, const char *to)
{
    char *bytes;
    size_t count;
    err e;
    assert_int_equal(file_read(from, &bytes, &count, &e), OK);
    put_file(to, bytes, count);
    free(bytes);
}

static void shards_hold_the_same_samples(void **state)
{
    turns_rig r;
    samples_counts n, m;
    prepare_result result;
    static const char *const input = CONVERSATIONS;
    int32_t in[2][2 * LENGTH], out[2][LENGTH];
    copy(SFT_FOLDER "tokenizer.json", in_folder(state, "tokenizer.json"));
    copy(TURNS_FOLDER "drops.jinja", in_folder(state, "chat_template.jinja"));
    rig_open(&r, "drops");
    const prepare_options o = {.inputs = &input,
                               .input_count = 1,
                               .output_prefix = in_folder(state, "shard"),
                               .tokenizer = in_folder(state, "tokenizer.json"),
                               .sft = true};
    if (prepare_run(&o, &result, &r.e) != OK) fail_msg("%s", r.e.text);
    dataset *a = rows_open(&r, CONVERSATIONS, 1, &n),
            *b = rows_open(&r, in_folder(state, "shard"), 1, &m);
    assert_int_equal(result.documents, n.samples);
    assert_int_equal(result.labels, n.labels);
    assert_int_equal(result.splits.samples, n.splits.samples);
    assert_int_equal(m.lines, n.samples);
    assert_int_equal(m.splits.samples, 0);
    assert_int_equal(a->samples, b->samples);
    for (uint64_t k = 0; k < a->samples; k++) {
        assert_int_equal(a->read(a, k, in[0], out[0], &r.e), OK);
        assert_int_equal(b->read(b, k, in[1], out[1], &r.e), OK);
        assert_memory_equal(in[0], in[1], sizeof in[0]);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    dataset_close(a);
    dataset_close(b);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_equal_transformers),
        cmocka_unit_test(other_samples_are_seen),
        cmocka_unit_test(counts_are_of_samples),
        SCRATCH_TEST(every_sample_has_the_weight_of_its_line),
        SCRATCH_TEST(shards_hold_the_same_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
