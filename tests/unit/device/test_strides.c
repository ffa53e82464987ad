// test_strides.c -- kernels on logits whose rows lie apart have the bits of those on dense logits, at every
// level of this machine. What lies between the rows is NaN; it is neither read nor written.
#include "unit/device/harness.h"

static cpu_context context;
static cpu_kernels kernels;

static const int64_t sizes[][3] = {
    {1, 1, 16}, {3, 7, 8}, {17, 33, 48}, {41, 768, 800}, {5, 2500, 2560}};
static const dtype types[] = {F32, BF16, F16};

static int open_context(void **state)
{
    (void)state;
    context = harness_open(2);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    cpu_context_close(&context);
    return 0;
}

// The same random rows, dense and apart.
typedef struct matrices {
    int64_t rows, cols, stride;
    dtype type;
    char *dense, *apart;
    int32_t *labels;
} matrices;

static size_t row_bytes(const matrices *m, int64_t count)
{
    return dtype_bytes(m->type) * (size_t)count;
}

static matrices open_matrices(const int64_t size[3], dtype type)
{
    matrices m = {.rows = size[0], .cols = size[1], .stride = size[2], .type = type};
    float *x = harness_random(m.rows * m.cols, 3);
    m.dense = malloc(row_bytes(&m, m.rows * m.cols));
    m.apart = malloc(row_bytes(&m, m.rows * m.stride));
    m.labels = malloc(sizeof *m.labels * (size_t)m.rows);
    assert_true(m.dense && m.apart && m.labels);
    dtype_convert(m.dense, type, x, F32, (size_t)(m.rows * m.cols));
    memset(m.apart, 0xff, row_bytes(&m, m.rows * m.stride));
    for (int64_t r = 0; r < m.rows; r++) {
        memcpy(m.apart + row_bytes(&m, r * m.stride), m.dense + row_bytes(&m, r * m.cols),
               row_bytes(&m, m.cols));
        m.labels[r] = r == 1 ? IGNORED_LABEL : (int32_t)(7 * r % m.cols);
    }
    free(x);
    return m;
}

static void check_and_close(matrices *m)
{
    for (int64_t r = 0; r < m->rows; r++) {
        const char *row = m->apart + row_bytes(m, r * m->stride);
        assert_memory_equal(row, m->dense + row_bytes(m, r * m->cols), row_bytes(m, m->cols));
        for (size_t i = row_bytes(m, m->cols); i < row_bytes(m, m->stride); i++)
            assert_int_equal((unsigned char)row[i], 0xff);
    }
    free(m->dense), free(m->apart), free(m->labels);
}

static void check_cross_entropy(const int64_t size[3], dtype type)
{
    matrices m = open_matrices(size, type);
    double loss[2] = {0}, count[2] = {0};
    for (int i = 0; i < 2; i++)
        kernels.run[K_CROSS_ENTROPY](&context,
                                     &(kernel_cross_entropy_args){.rows = m.rows,
                                                                  .cols = m.cols,
                                                                  .stride = i ? m.stride : 0,
                                                                  .logits = i ? m.apart : m.dense,
                                                                  .labels = m.labels,
                                                                  .loss_sum = &loss[i],
                                                                  .count = &count[i],
                                                                  .scale = 1,
                                                                  .ignore = IGNORED_LABEL,
                                                                  .gradient = true,
                                                                  .type = type});
    assert_true(loss[0] == loss[1] && count[0] == count[1] && count[0] > 0);
    check_and_close(&m);
}

static void check_stats(const int64_t size[3], dtype type)
{
    matrices m = open_matrices(size, type);
    float *stats[2] = {harness_zeros(3 * m.rows), harness_zeros(3 * m.rows)};
    for (int i = 0; i < 2; i++)
        kernels.run[K_CROSS_ENTROPY_STATS](
            &context, &(kernel_cross_entropy_stats_args){.rows = m.rows,
                                                         .cols = m.cols,
                                                         .stride = i ? m.stride : 0,
                                                         .logits = i ? m.apart : m.dense,
                                                         .labels = m.labels,
                                                         .stats = stats[i],
                                                         .scale = 1,
                                                         .ignore = IGNORED_LABEL,
                                                         .type = type});
    assert_memory_equal(stats[0], stats[1], sizeof(float) * 3 * (size_t)m.rows);
    free(stats[0]), free(stats[1]);
    check_and_close(&m);
}

static void check_bias_grad(const int64_t size[3], dtype type)
{
    matrices m = open_matrices(size, type);
    float *db[2] = {harness_random(m.cols, 5), harness_random(m.cols, 5)};
    for (int i = 0; i < 2; i++)
        kernels.run[K_BIAS_GRAD](&context, &(kernel_bias_grad_args){.rows = m.rows,
                                                                    .cols = m.cols,
                                                                    .stride = i ? m.stride : 0,
                                                                    .dy = i ? m.apart : m.dense,
                                                                    .db = db[i],
                                                                    .accumulate = true,
                                                                    .type = type});
    assert_memory_equal(db[0], db[1], sizeof(float) * (size_t)m.cols);
    free(db[0]), free(db[1]);
    check_and_close(&m);
}

static void rows_apart_have_the_bits_of_dense_rows(void **state)
{
    (void)state;
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = CPU_GENERIC; level <= features.best; level++) {
        cpu_kernels_fill(&kernels, level);
        for (size_t i = 0; i < 3 * sizeof sizes / sizeof *sizes; i++) {
            check_cross_entropy(sizes[i / 3], types[i % 3]);
            check_stats(sizes[i / 3], types[i % 3]);
            check_bias_grad(sizes[i / 3], types[i % 3]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_apart_have_the_bits_of_dense_rows),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
