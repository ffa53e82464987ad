// Datasets: the tokens of a sample, the order of a blend, and the contents of vectors.
#include "unit/data/scratch.h"

#include "data/dataset.h"
#include "data/tokens.h"
#include "store/safetensors.h"

// Writes a shard of `count` ids: base, base + 1, …, in documents of five.
static const char *shard_make(void **state, const char *name, int32_t base, int count)
{
    err e = {0};
    tokens_writer *w = NULL;
    const char *prefix = in_folder(state, name);
    assert_int_equal(tokens_writer_open(prefix, 1000, &w, &e), OK);
    for (int first = 0; first < count; first += 5) {
        int32_t ids[5];
        int n = count - first < 5 ? count - first : 5;
        for (int i = 0; i < n; i++) ids[i] = base + first + i;
        assert_int_equal(tokens_writer_document(w, ids, (size_t)n, &e), OK);
    }
    assert_int_equal(tokens_writer_finish(w, &e), OK);
    return prefix;
}

static void sample_k_is_tokens_kL_to_kL_plus_L(void **state)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source source = {.path = shard_make(state, "p", 100, 23)};
    assert_int_equal(dataset_open(&source, 1, 4, 1000, 0, 0, &d, &e), OK);
    assert_int_equal(d->samples, 5); // (23 - 1) / 4
    assert_int_equal(d->shape.inputs, 4);
    assert_int_equal(d->shape.labels, 4);
    assert_int_equal(d->shape.input_type, I32);
    assert_int_equal(d->shape.label_type, I32);
    assert_int_equal(d->max_id, -1);
    for (int k = 0; k < 5; k++) {
        int32_t in[4], out[4];
        assert_int_equal(d->read(d, (uint64_t)k, in, out, &e), OK);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(in[i], 100 + 4 * k + i);
            assert_int_equal(out[i], 100 + 4 * k + i + 1);
        }
    }
    int32_t in[4], out[4];
    assert_int_equal(d->read(d, 5, in, out, &e), E_INTERNAL);
    dataset_close(d);
    dataset_close(NULL);
}

static void a_shard_too_short_or_beyond_the_vocabulary_is_refused(void **state)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source source = {.path = shard_make(state, "p", 100, 23)};
    assert_int_equal(dataset_open(&source, 1, 22, 1000, 0, 0, &d, &e), OK);
    assert_int_equal(d->samples, 1);
    dataset_close(d);
    assert_int_equal(dataset_open(&source, 1, 23, 1000, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "p.bin: found 23 tokens, one sample of seq_len 23 needs 24");
    assert_int_equal(dataset_open(&source, 1, 4, 110, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "p.bin: token 10 (byte 20): found id 110, valid is 0 to 109");
    assert_int_equal(dataset_open(&source, 1, 0, 1000, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "seq_len: found 0");
    assert_int_equal(dataset_open(&source, 1, -5, 1000, 0, 0, &d, &e), E_USAGE);
    assert_int_equal(dataset_open(&source, 0, 4, 1000, 0, 0, &d, &e), E_USAGE);
    source.path = shard_make(state, "empty", 0, 0);
    assert_int_equal(dataset_open(&source, 1, 4, 1000, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "found 0 tokens");
}

static void a_blend_keeps_every_shard_at_its_share(void **state)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source sources[3] = {
        {.path = shard_make(state, "a", 0, 201), .weight = 5},
        {.path = shard_make(state, "b", 300, 101), .weight = 3},
        {.path = shard_make(state, "c", 600, 241), .weight = 2},
    };
    assert_int_equal(dataset_open(sources, 3, 2, 1000, 0, 0, &d, &e), OK);
    assert_int_equal(d->samples, 100 + 50 + 120);
    const int size[3] = {100, 50, 120};
    int count[3] = {0};
    for (uint64_t k = 0; k < d->samples; k++) {
        int32_t in[2], out[2];
        assert_int_equal(d->read(d, k, in, out, &e), OK);
        int p = in[0] / 300;
        assert_int_equal(in[0], p * 300 + 2 * (count[p] % size[p]));
        assert_int_equal(out[1], in[0] + 2);
        count[p]++;
        for (int i = 0; i < 3; i++) {
            double share = sources[i].weight / 10 * (double)(k + 1);
            assert_true(count[i] > share - 1.01 && count[i] < share + 1.01);
        }
    }
    dataset_close(d);
}

// The blend has more samples than one block. Three of four samples come from a shard of two samples,
// which begins again and again.
static void a_blend_of_many_blocks_reads_the_right_samples(void **state)
{
    enum { COUNT = 5001 };
    err e = {0};
    dataset *d = NULL;
    tokens_writer *w = NULL;
    int32_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) ids[i] = i % 397;
    assert_int_equal(tokens_writer_open(in_folder(state, "long"), 1000, &w, &e), OK);
    assert_int_equal(tokens_writer_document(w, ids, COUNT, &e), OK);
    assert_int_equal(tokens_writer_finish(w, &e), OK);
    dataset_source sources[2] = {{.path = shard_make(state, "short", 500, 3), .weight = 0.75},
                                 {.path = in_folder(state, "long"), .weight = 0.25}};
    assert_int_equal(dataset_open(sources, 2, 1, 1000, 0, 0, &d, &e), OK);
    assert_int_equal(d->samples, COUNT - 1 + 2);
    int count[2] = {0};
    for (uint64_t k = 0; k < d->samples; k++) {
        int32_t in, out;
        assert_int_equal(d->read(d, k, &in, &out, &e), OK);
        if (in >= 500)
            assert_int_equal(in, 500 + count[0]++ % 2);
        else
            assert_int_equal(in, count[1]++ % 397);
    }
    assert_in_range(count[1], COUNT / 4 - 1, COUNT / 4 + 1);
    dataset_close(d);
}

static void impossible_blends_are_refused(void **state)
{
    err e = {0};
    dataset *d = NULL;
    const char *a = shard_make(state, "a", 0, 21);
    const double weights[] = {0, -1, 0.0 / 0.0, 1e308 * 10};
    for (int i = 0; i < 4; i++) {
        dataset_source sources[2] = {{.path = a, .weight = 1}, {.path = a, .weight = weights[i]}};
        assert_int_equal(dataset_open(sources, 2, 2, 1000, 0, 0, &d, &e), E_USAGE);
        assert_says(&e, "data: weight of");
    }
    dataset_source mixed[2] = {{.path = a, .weight = 1}, {.path = "mock", .weight = 1}};
    assert_int_equal(dataset_open(mixed, 2, 2, 1000, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "only token shards can be blended");
    dataset_source missing[2] = {{.path = a, .weight = 1},
                                 {.path = in_folder(state, "zz"), .weight = 1}};
    assert_int_equal(dataset_open(missing, 2, 2, 1000, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "zz.idx");
}

static void mock_depends_only_on_seed_and_sample(void **state)
{
    (void)state;
    err e = {0};
    dataset *a = NULL, *b = NULL;
    dataset_source source = {.path = "mock"};
    assert_int_equal(dataset_open(&source, 1, 64, 50, 3, 10, &a, &e), OK);
    assert_int_equal(dataset_open(&source, 1, 64, 50, 4, 10, &b, &e), OK);
    int32_t in[64], out[64], again[64], other[64], unused[64];
    assert_int_equal(a->samples, 10);
    assert_int_equal(a->read(a, 9, in, out, &e), OK);
    assert_int_equal(a->read(a, 2, other, unused, &e), OK);
    assert_int_equal(a->read(a, 9, again, unused, &e), OK);
    assert_memory_equal(in, again, sizeof in);
    assert_memory_not_equal(in, other, sizeof in);
    assert_int_equal(b->read(b, 9, other, unused, &e), OK);
    assert_memory_not_equal(in, other, sizeof in);
    assert_memory_equal(in + 1, out, 63 * sizeof *in);
    for (int i = 0; i < 64; i++) assert_in_range(in[i], 0, 49);
    assert_int_equal(a->read(a, 10, in, out, &e), E_INTERNAL);
    dataset_close(a);
    dataset_close(b);
    assert_int_equal(dataset_open(&source, 1, 64, 50, 3, 0, &a, &e), E_USAGE);
}

typedef struct tensor_data {
    const void *data[2];
} tensor_data;

static status source_read(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    (void)e;
    memcpy(out, (const char *)((tensor_data *)arg)->data[i] + offset, bytes);
    return OK;
}

static safetensors_tensor tensor(const char *name, dtype type, int64_t a, int64_t b)
{
    safetensors_tensor t = {
        .name = name, .type = type, .known_type = true, .dims = b ? 2 : 1, .dim = {a, b}};
    t.bytes = (uint64_t)(a * (b ? b : 1)) * dtype_bytes(type);
    return t;
}

static const char *vectors_make(void **state, safetensors_tensor x, const void *xs,
                                safetensors_tensor y, const void *ys)
{
    err e = {0};
    const char *path = in_folder(state, "v.safetensors");
    safetensors_tensor t[2] = {x, y};
    tensor_data s = {{xs, ys}};
    if (safetensors_write(path, t, 2, source_read, &s, NULL, &e) != OK) fail_msg("%s", e.text);
    return path;
}

static void vectors_of_every_type_are_read(void **state)
{
    const float values[6] = {1, -2, 0.5f, 4, 0, 8};
    const dtype x_types[] = {F32, F16, BF16, F64}, y_types[] = {I32, I64, U8};
    const int32_t y32[3] = {4, 0, 2};
    const int64_t y64[3] = {4, 0, 2};
    const uint8_t y8[3] = {4, 0, 2};
    const void *ys[] = {y32, y64, y8};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            uint8_t xs[48];
            err e = {0};
            dataset *d = NULL;
            dtype_convert(xs, x_types[i], values, F32, 6);
            dataset_source source = {.path = vectors_make(state, tensor("x", x_types[i], 3, 2), xs,
                                                          tensor("y", y_types[j], 3, 0), ys[j])};
            assert_int_equal(dataset_open(&source, 1, 0, 0, 0, 0, &d, &e), OK);
            assert_int_equal(d->samples, 3);
            assert_int_equal(d->shape.inputs, 2);
            assert_int_equal(d->shape.input_type, F32);
            assert_int_equal(d->shape.labels, 1);
            assert_int_equal(d->shape.label_type, I32);
            assert_int_equal(d->max_id, 4);
            for (int k = 0; k < 3; k++) {
                float in[2];
                int32_t label;
                assert_int_equal(d->read(d, (uint64_t)k, in, &label, &e), OK);
                assert_memory_equal(in, values + 2 * k, sizeof in);
                assert_int_equal(label, y32[k]);
            }
            dataset_close(d);
            assert_int_equal(dataset_open(&source, 1, 0, 4, 0, 0, &d, &e), E_USAGE);
            assert_says(&e, "y: sample 0: found class 4, valid is 0 to 3");
        }
}

static void starts_that_cannot_be_are_named(void **state)
{
    (void)state;
    static const struct {
        int32_t start[4];
        const char *says; // NULL: they can be
    } cases[] = {
        {{0, 0, 0, 0}, NULL},
        {{0, 1, 2, 3}, NULL},
        {{0, 0, 2, 2}, NULL},
        {{1, 1, 1, 1}, "the document of position 0 begins at 1; valid: 0"},
        {{0, 0, 1, 1}, "position 2 begins at 1; valid: 2, or where that of the last position"},
        {{0, 1, 0, 0}, "position 2 begins at 0"},
        {{0, 0, 0, 4}, "position 3 begins at 4"},
        {{0, -1, 2, 2}, "position 1 begins at -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        const status found = dataset_check_starts(cases[i].start, 4, &e);
        assert_int_equal(found, cases[i].says ? E_USAGE : OK);
        if (cases[i].says) assert_says(&e, cases[i].says);
    }
}

static void float_labels_are_regression_targets(void **state)
{
    const float xs[2] = {1, 2}, ys[2] = {0.25f, -7};
    err e = {0};
    dataset *d = NULL;
    float in, target;
    dataset_source source = {
        .path = vectors_make(state, tensor("x", F32, 2, 1), xs, tensor("y", F32, 2, 0), ys)};
    assert_int_equal(dataset_open(&source, 1, 0, 10, 0, 0, &d, &e), OK);
    assert_int_equal(d->shape.label_type, F32);
    assert_int_equal(d->read(d, 1, &in, &target, &e), OK);
    assert_true(in == 2 && target == -7);
    dataset_close(d);
}

static void a_sample_may_have_several_targets(void **state)
{
    const float xs[2] = {1, 2}, ys[6] = {0.25f, -7, 3, 4, 5, 6};
    const dtype types[] = {F32, BF16, F64};
    for (int i = 0; i < 3; i++) {
        err e = {0};
        dataset *d = NULL;
        uint8_t stored[48];
        float in, targets[3];
        dtype_convert(stored, types[i], ys, F32, 6);
        dataset_source source = {.path = vectors_make(state, tensor("x", F32, 2, 1), xs,
                                                      tensor("y", types[i], 2, 3), stored)};
        assert_int_equal(dataset_open(&source, 1, 0, 3, 0, 0, &d, &e), OK);
        assert_int_equal(d->shape.labels, 3);
        assert_int_equal(d->shape.label_type, F32);
        assert_int_equal(d->samples, 2);
        for (uint64_t k = 0; k < 2; k++) {
            assert_int_equal(d->read(d, k, &in, targets, &e), OK);
            assert_memory_equal(targets, ys + 3 * k, sizeof targets);
        }
        dataset_close(d);
    }
}

static void refuse_vectors(void **state, safetensors_tensor x, const void *xs, safetensors_tensor y,
                           const void *ys, const char *says)
{
    err e = {0};
    dataset *d = NULL;
    dataset_source source = {.path = vectors_make(state, x, xs, y, ys)};
    assert_int_equal(dataset_open(&source, 1, 0, 0, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, says);
    assert_null(d);
}

static void wrong_vectors_are_refused_one_by_one(void **state)
{
    const float xs[4] = {1, 2, 3, 4}, not_finite[4] = {1, 2, 3, 1.0f / 0.0f};
    const double too_large[4] = {1, 1e300, 3, 4};
    const int64_t ys[2] = {0, -1}, huge[2] = {(int64_t)1 << 40, 0}, ignored[2] = {-100, 3};
    safetensors_tensor x = tensor("x", F32, 2, 2), y = tensor("y", I64, 2, 0);
    refuse_vectors(state, x, xs, y, ys, "y: sample 1: found class -1");
    refuse_vectors(state, x, xs, y, huge, "y: sample 0: found class 1099511627776");
    refuse_vectors(state, x, not_finite, y, ignored, "x: sample 1, element 1: found inf");
    refuse_vectors(state, tensor("x", F64, 2, 2), too_large, y, ignored, "x: sample 0, element 1");
    refuse_vectors(state, tensor("inputs", F32, 2, 2), xs, y, ys, "no tensor x, valid is x [");
    refuse_vectors(state, x, xs, tensor("labels", I64, 2, 0), ys, "no tensor y");
    refuse_vectors(state, tensor("x", F32, 4, 0), xs, y, ys, "x: found 1 dimensions, valid is 2");
    refuse_vectors(state, x, xs, tensor("y", I64, 2, 1), ys, "y: found 2 dimensions, valid is 1");
    safetensors_tensor empty = tensor("y", F32, 2, 0);
    empty.dims = 2, empty.bytes = 0;
    refuse_vectors(state, x, xs, empty, xs, "y: found no target");
    refuse_vectors(state, tensor("x", I32, 2, 2), xs, y, ys, "x: found dtype int32, valid are F32");
    refuse_vectors(state, x, xs, tensor("y", U16, 2, 0), ys, "y: found dtype uint16");
    refuse_vectors(state, tensor("x", F32, 1, 4), xs, y, ys, "x has 1 samples and y 2");
    refuse_vectors(state, tensor("x", F32, 0, 2), xs, tensor("y", I64, 0, 0), ys,
                   "x: found shape [0");

    err e = {0};
    dataset *d = NULL;
    dataset_source source = {.path = vectors_make(state, x, xs, y, ignored)};
    assert_int_equal(dataset_open(&source, 1, 0, 0, 0, 0, &d, &e), OK);
    assert_int_equal(d->max_id, 3);
    dataset_close(d);
    source.path = in_folder(state, "none.safetensors");
    assert_int_equal(dataset_open(&source, 1, 0, 0, 0, 0, &d, &e), E_USAGE);
    assert_says(&e, "none.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(sample_k_is_tokens_kL_to_kL_plus_L),
        SCRATCH_TEST(a_shard_too_short_or_beyond_the_vocabulary_is_refused),
        SCRATCH_TEST(a_blend_keeps_every_shard_at_its_share),
        SCRATCH_TEST(a_blend_of_many_blocks_reads_the_right_samples),
        SCRATCH_TEST(impossible_blends_are_refused),
        cmocka_unit_test(mock_depends_only_on_seed_and_sample),
        SCRATCH_TEST(vectors_of_every_type_are_read),
        cmocka_unit_test(starts_that_cannot_be_are_named),
        SCRATCH_TEST(float_labels_are_regression_targets),
        SCRATCH_TEST(a_sample_may_have_several_targets),
        SCRATCH_TEST(wrong_vectors_are_refused_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
