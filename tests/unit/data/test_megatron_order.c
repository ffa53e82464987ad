// The order of Megatron-LM: all samples' tokens against tests/golden/megatron_order.txt, which make_megatron_order.py
// computes with numpy.
#include "unit/data/scratch.h"

#include "data/dataset.h"
#include "data/sampler.h"
#include "data/tokens.h"

enum { VOCAB = 400000, SHARDS = 3 };

// Shard s of the golden cases: documents of (37 i + 11 s) mod 29 tokens, and ids from 100000 s on.
static const char *shard_make(void **state, int s, int documents)
{
    err e = {0};
    tokens_writer *w = NULL;
    char name[16];
    int32_t ids[32], next = 100000 * s;
    snprintf(name, sizeof name, "shard%d", s);
    const char *prefix = in_folder(state, name);
    assert_int_equal(tokens_writer_open(prefix, VOCAB, &w, &e), OK);
    for (int i = 0; i < documents; i++) {
        const int count = (37 * i + 11 * s) % 29;
        for (int k = 0; k < count; k++) ids[k] = next++;
        assert_int_equal(tokens_writer_document(w, ids, (size_t)count, &e), OK);
    }
    assert_int_equal(tokens_writer_finish(w, &e), OK);
    return prefix;
}

static uint64_t fnv_add(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++) h = (h ^ (v >> (8 * i) & 255)) * UINT64_C(0x100000001b3);
    return h;
}

// Takes a number from a line.
static double take(const char **s)
{
    char *end;
    const double value = strtod(*s, &end);
    assert_true(end > *s);
    *s = end;
    return value;
}

static void check_case(void **state, const char *line)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source source[SHARDS] = {{.path = NULL}};
    const int64_t length = (int64_t)take(&line);
    const uint64_t seed = (uint64_t)take(&line), samples = (uint64_t)take(&line);
    const int shards = (int)take(&line);
    assert_in_range(shards, 1, SHARDS);
    for (int s = 0; s < shards; s++) {
        source[s].path = shard_make(state, s, (int)take(&line));
        source[s].from = take(&line);
        source[s].to = take(&line);
        source[s].weight = take(&line);
    }
    assert_int_equal(dataset_open(source, (size_t)shards, length, VOCAB, 0, 0, &d, &e), OK);
    assert_int_equal(dataset_order_as_megatron(d, seed, samples, &e), OK);
    assert_int_equal(d->samples, (uint64_t)take(&line));
    char *rest;
    const uint64_t want = strtoull(line, &rest, 16);
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint64_t k = 0; k < d->samples; k++) {
        int32_t in[64], out[64];
        assert_int_equal(d->read(d, k, in, out, &e), OK);
        for (int64_t i = 0; i < length; i++) h = fnv_add(h, (uint64_t)in[i]);
        h = fnv_add(h, (uint64_t)out[length - 1]);
        assert_memory_equal(in + 1, out, (size_t)(length - 1) * sizeof *in);
        if (k < 6) assert_int_equal(in[0], (int32_t)strtol(rest, &rest, 10));
    }
    assert_true(h == want);
    dataset_close(d);
}

static void all_samples_are_those_of_gpt_dataset(void **state)
{
    FILE *f = fopen(TESTS_DIR "/golden/megatron_order.txt", "r");
    char line[1024];
    int cases = 0;
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); cases++) check_case(state, line);
    fclose(f);
    assert_true(cases > 80);
}

// The sampler deals the samples out in turn, whatever the number of ranks.
static void the_order_does_not_depend_on_ranks(void **state)
{
    (void)state;
    err e = {0};
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int rank = 0; rank < ranks; rank++) {
            sampler *s = NULL;
            assert_int_equal(sampler_open(ORDER_MEGATRON, 100, 7, rank, ranks, &s, &e), OK);
            for (uint64_t i = 0; i < 8 / (uint64_t)ranks; i++)
                assert_int_equal(sampler_step_sample(s, 2, 8, i),
                                 16 + (uint64_t)rank * 8 / (uint64_t)ranks + i);
            sampler_close(s);
        }
}

static void what_has_no_such_order_is_refused(void **state)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source mock = {.path = "mock", .weight = 1};
    assert_int_equal(dataset_open(&mock, 1, 8, VOCAB, 0, 100, &d, &e), OK);
    assert_int_equal(dataset_order_as_megatron(d, 1, 10, &e), E_USAGE);
    assert_says(&e, "data.order: found megatron; it needs token shards");
    dataset_close(d);
    mock.to = 0.5;
    assert_int_equal(dataset_open(&mock, 1, 8, VOCAB, 0, 100, &d, &e), E_USAGE);
    assert_says(&e, "data: documents of mock: only token shards have documents");
    dataset_source shard = {.path = shard_make(state, 0, 40), .weight = 1};
    assert_int_equal(dataset_open(&shard, 1, 8, VOCAB, 0, 0, &d, &e), OK);
    assert_int_equal(dataset_order_as_megatron(d, (uint64_t)1 << 32, 10, &e), E_USAGE);
    assert_says(&e,
                "train.seed: found 4294967296; valid with data.order megatron: 0 to 4294967295");
    assert_int_equal(dataset_order_as_megatron(d, 1, UINT32_MAX, &e), E_USAGE);
    assert_says(&e, "data.order: megatron: found a run of 4294967295 samples");
    dataset_close(d);
    shard.from = 0.1, shard.to = 0.11;
    assert_int_equal(dataset_open(&shard, 1, 8, VOCAB, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "found 0 tokens in the documents, one sample of seq_len 8 needs 9");
}

// Without an order, the samples of some documents are those of the file.
static void a_share_of_the_documents_is_read_in_their_order(void **state)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source part = {.path = shard_make(state, 0, 40), .weight = 1, .from = 0.5, .to = 0.9};
    int32_t in[8], out[8], first = 0, end = 0;
    for (int i = 0; i < 36; i++) {
        end += 37 * i % 29;
        if (i < 20) first = end;
    }
    assert_int_equal(dataset_open(&part, 1, 8, VOCAB, 0, 0, &d, &e), OK);
    assert_int_equal(d->samples, (end - first - 1) / 8);
    for (uint64_t k = 0; k < d->samples; k++) {
        assert_int_equal(d->read(d, k, in, out, &e), OK);
        for (int i = 0; i < 8; i++) assert_int_equal(in[i], first + (int32_t)k * 8 + i);
        assert_int_equal(out[7], first + (int32_t)k * 8 + 8);
    }
    dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(all_samples_are_those_of_gpt_dataset),
        cmocka_unit_test(the_order_does_not_depend_on_ranks),
        SCRATCH_TEST(what_has_no_such_order_is_refused),
        SCRATCH_TEST(a_share_of_the_documents_is_read_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
