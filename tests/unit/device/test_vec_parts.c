// The vector kernels equal the reference in the cases that parallel training uses: shards of the
// vocabulary or of the heads, an fp32 residual with 16-bit weights, and orthogonal columns.
#include "vec_check.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type;
    int variant;
} shape;

static const kernel_step scales_by_3 = {.step = 2, .first_row = 40, .loss_scale = 3};

static const int64_t sizes[][2] = {{1, 1}, {3, 7}, {17, 8}, {3, 33}, {41, 768}, {130, 257}};

static void check_all(describe_fn describe, dtype first, int variants)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (dtype type = first; type <= F16; type++) {
            for (int v = 0; v < variants; v++) {
                shape s = {sizes[i][0], sizes[i][1], type, v};
                char text[96];
                snprintf(text, sizeof text, "[%ld, %ld] %s variant %d", (long)s.rows, (long)s.cols,
                         dtype_name(type), v);
                check_kernel(describe, &s, text);
            }
        }
    }
}

// Labels of a vocabulary whose shard has `cols` columns from `first` on. One row is ignored.
static int32_t *labels_around(space *s, int64_t rows, int64_t first, int64_t cols)
{
    int32_t *labels = space_ids(s, rows, (int32_t)(first + 2 * cols));
    if (rows > 2) labels[1] = -100;
    return labels;
}

static kernel_call describe_stats(space *s, const void *args)
{
    const shape *h = args;
    int64_t first = h->variant % 2 * h->cols;
    return (kernel_call){
        .kind = K_CROSS_ENTROPY_STATS,
        .u.cross_entropy_stats = {.rows = h->rows,
                                  .cols = h->cols,
                                  .first = first,
                                  .logits = space_random(s, h->rows * h->cols, h->type, 5, NULL),
                                  .labels = labels_around(s, h->rows, first, h->cols),
                                  .stats = space_random(s, 3 * h->rows, F32, 1, "stats"),
                                  .ignore = -100,
                                  .scale = h->variant % 2 ? -0.5f : 1,
                                  .softcap = h->variant < 2 ? 0 : 3,
                                  .type = h->type}};
}

// Shard 0 has the statistics of the columns. Shard 1 stands for columns of another rank.
static kernel_call describe_entropy(space *s, const void *args)
{
    const shape *h = args;
    kernel_call call = describe_stats(s, args);
    const kernel_cross_entropy_stats_args *own = &call.u.cross_entropy_stats;
    float *stats = space_array_of(s, 6 * h->rows, F32, NULL);
    cpu_kernels reference;
    ref_kernels_fill(&reference);
    reference.run[K_CROSS_ENTROPY_STATS](&vec_one, own);
    memcpy(stats, own->stats, sizeof(float) * 3 * (size_t)h->rows);
    for (int64_t r = 0; r < h->rows; r++) {
        float *other = stats + 3 * (h->rows + r);
        other[0] = 2, other[1] = 3, other[2] = own->stats[3 * r + 2] == 0 ? 1.5f : 0;
    }
    return (kernel_call){
        .kind = K_CROSS_ENTROPY,
        .u.cross_entropy = {.rows = h->rows,
                            .cols = h->cols,
                            .first = own->first,
                            .logits = space_random(s, h->rows * h->cols, h->type, 5, "logits"),
                            .labels = own->labels,
                            .stats = stats,
                            .shards = 2,
                            .loss_sum = space_random(s, 1, F64, 1, "loss_sum"),
                            .count = h->variant ? NULL : space_random(s, 1, F64, 1, "count"),
                            .ignore = -100,
                            .scale = own->scale,
                            .step = h->variant ? &scales_by_3 : NULL,
                            .gradient = true,
                            .type = h->type}};
}

static kernel_call describe_square_error(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    return (kernel_call){.kind = K_SQUARE_ERROR,
                         .u.square_error = {.rows = h->rows,
                                            .cols = h->cols,
                                            .x = space_random(s, count, h->type, 1, NULL),
                                            .dx = space_random(s, count, h->type, 1, "dx"),
                                            .target = space_random(s, count, F32, 1, NULL),
                                            .step = &scales_by_3,
                                            .type = h->type}};
}

// Rows 4 … 10 of a table of 13. Bits of `variant`: positions, residual_fp32.
static kernel_call describe_embedding(space *s, const void *args)
{
    const shape *h = args;
    bool fp32 = h->variant & 2;
    return (kernel_call){
        .kind = K_EMBEDDING,
        .u.embedding = {
            .rows = h->rows,
            .row_tokens = kernel_tokens_from(5, 2),
            .cols = h->cols,
            .first = 4,
            .vocab = 7,
            .type = h->type,
            .residual_fp32 = fp32,
            .ids = space_ids(s, h->rows, 13),
            .scale = 1.5f,
            .tokens = space_random(s, 7 * h->cols, h->type, 1, NULL),
            .positions = h->variant & 1 ? space_random(s, 7 * h->cols, h->type, 1, NULL) : NULL,
            .y = space_random(s, h->rows * h->cols, kernel_residual_type(h->type, fp32), 1, "y")}};
}

static kernel_call describe_embedding_grad(space *s, const void *args)
{
    const shape *h = args;
    bool fp32 = h->variant & 1;
    return (kernel_call){
        .kind = K_EMBEDDING_GRAD,
        .u.embedding_grad = {
            .rows = h->rows,
            .row_tokens = kernel_tokens_from(5, 0),
            .cols = h->cols,
            .first = 4,
            .vocab = 7,
            .max_seq = 7,
            .scale = 1.5f,
            .ids = space_ids(s, h->rows, 13),
            .type = h->type,
            .residual_fp32 = fp32,
            .dy = space_random(s, h->rows * h->cols, kernel_residual_type(h->type, fp32), 1, NULL),
            .d_tokens = space_random(s, 7 * h->cols, F32, 1, "d_tokens"),
            .d_positions = space_random(s, 7 * h->cols, F32, 1, "d_positions"),
            .accumulate_tokens = h->variant & 2}};
}

static kernel_call describe_residual_norm(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    bool rms = h->variant == 2;
    return (kernel_call){
        .kind = K_NORM,
        .u.norm = {.rows = h->rows,
                   .cols = h->cols,
                   .eps = 1e-5f,
                   .is_rms = rms,
                   .type = h->type,
                   .residual_fp32 = true,
                   .x = space_random(s, count, F32, 3, NULL),
                   .gain = space_random(s, h->cols, h->type, 1, NULL),
                   .bias = h->variant == 0 ? space_random(s, h->cols, h->type, 1, NULL) : NULL,
                   .y = space_random(s, count, h->type, 1, "y"),
                   .mean = rms ? NULL : space_random(s, h->rows, F32, 1, "mean"),
                   .rstd = space_random(s, h->rows, F32, 1, "rstd")}};
}

static kernel_call describe_residual_norm_grad(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    bool rms = h->variant;
    return (kernel_call){
        .kind = K_NORM_GRAD,
        .u.norm_grad = {.rows = h->rows,
                        .cols = h->cols,
                        .is_rms = rms,
                        .type = h->type,
                        .residual_fp32 = true,
                        .x = space_random(s, count, F32, 1, NULL),
                        .dy = space_random(s, count, h->type, 1, NULL),
                        .dx = space_random(s, count, F32, 1, "dx"),
                        .gain = space_random(s, h->cols, h->type, 1, NULL),
                        .mean = rms ? NULL : space_random(s, h->rows, F32, 0.1f, NULL),
                        .rstd = space_random(s, h->rows, F32, 1, NULL),
                        .dgain = space_random(s, h->cols, F32, 1, "dgain"),
                        .dbias = rms ? NULL : space_random(s, h->cols, F32, 1, "dbias"),
                        .accumulate_dx = true}};
}

static kernel_call describe_residual_add(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    void *y = space_random(s, count, F32, 1, "y");
    return (kernel_call){.kind = K_ADD,
                         .u.add = {.count = count,
                                   .a = y,
                                   .y = y,
                                   .alpha = 0.5f,
                                   .beta = -2,
                                   .b = space_random(s, count, h->type, 1, NULL),
                                   .type = h->type,
                                   .residual_fp32 = true}};
}

// Heads 2 … 4 of 7. `variant` is the number of tokens.
static kernel_call describe_attention(space *s, const void *args)
{
    const shape *h = args;
    int64_t tokens = h->rows, count = 2 * tokens * 3 * 8;
    return (kernel_call){.kind = K_ATTENTION,
                         .u.attention = {.batch = 2,
                                         .queries = kernel_tokens_from(tokens, 0),
                                         .tk = tokens,
                                         .heads = 3,
                                         .kv_heads = 3,
                                         .head_dim = 8,
                                         .q_stride = 24,
                                         .k_stride = 24,
                                         .v_stride = 24,
                                         .o_stride = 24,
                                         .k_batch = tokens * 24,
                                         .v_batch = tokens * 24,
                                         .q = space_random(s, count, h->type, 1, NULL),
                                         .k = space_random(s, count, h->type, 1, NULL),
                                         .v = space_random(s, count, h->type, 1, NULL),
                                         .o = space_random(s, count, h->type, 1, "o"),
                                         .lse = space_random(s, 2 * tokens * 3, F32, 1, "lse"),
                                         .scale = 0.35f,
                                         .dropout.p = 0.3f,
                                         .dropout.draw = {.step = &scales_by_3, .seed = 3},
                                         .dropout.stride = (uint64_t)tokens,
                                         .dropout.head0 = 2,
                                         .dropout.all_heads = 7,
                                         .causal = true,
                                         .type = h->type}};
}

#define CASE(name, describe, first_type, variants)                                                 \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_all(describe, first_type, variants);                                                 \
    }
CASE(statistics_of_a_shard_equal_the_reference, describe_stats, F32, 4)
CASE(cross_entropy_from_statistics_equals_the_reference, describe_entropy, F32, 4)
CASE(scaled_square_error_equals_the_reference, describe_square_error, F32, 1)
CASE(embedding_of_a_shard_equals_the_reference, describe_embedding, F32, 4)
CASE(embedding_grad_of_a_shard_equals_the_reference, describe_embedding_grad, F32, 4)
CASE(norm_of_an_fp32_residual_equals_the_reference, describe_residual_norm, BF16, 3)
CASE(norm_grad_of_an_fp32_residual_equals_the_reference, describe_residual_norm_grad, BF16, 2)
CASE(add_to_an_fp32_residual_equals_the_reference, describe_residual_add, BF16, 1)
CASE(dropout_of_some_heads_equals_the_reference, describe_attention, F32, 1)

// ---- orthogonal columns

static kernel_call describe_orthogonalize(space *s, const void *args)
{
    const shape *h = args;
    return (kernel_call){.kind = K_ORTHOGONALIZE,
                         .u.orthogonalize = {.rows = h->rows,
                                             .cols = h->cols,
                                             .x = space_random(s, h->rows * h->cols, F32, 3, "x"),
                                             .eps = 1e-8f}};
}

static void orthogonal_columns_equal_the_reference(void **state)
{
    (void)state;
    const shape cases[] = {{1, 1, F32, 0},   {9, 3, F32, 0},     {64, 8, F32, 0},
                           {700, 1, F32, 0}, {70000, 2, F32, 0}, {9003, 17, F32, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "[%ld, %ld]", (long)cases[i].rows, (long)cases[i].cols);
        check_kernel(describe_orthogonalize, &cases[i], text);
    }
}

static double column_product(const float *a, const float *b, int64_t rows, int64_t n, int64_t i,
                             int64_t j)
{
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) sum += (double)a[r * n + i] * b[r * n + j];
    return sum;
}

// Q'Q = 1, and A = Q (Q'A): the columns are orthonormal and keep their span.
static void columns_become_orthonormal_and_keep_their_span(void **state)
{
    (void)state;
    enum { R = 500, N = 6 };
    for (cpu_level level = CPU_GENERIC; level <= vec_two.level; level++) {
        cpu_kernels table;
        cpu_kernels_fill(&table, level);
        float *a = harness_random(R * N, 1), *q = harness_random(R * N, 1);
        for (int r = 0; r < R; r++) q[r * N + 3] = a[r * N + 3] += 50 * a[r * N]; // nearly column 0
        table.run[K_ORTHOGONALIZE](&vec_two, &(kernel_orthogonalize_args){R, N, q, 1e-8f});
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                assert_true(fabs(column_product(q, q, R, N, i, j) - (i == j)) < 1e-5);
        for (int j = 0; j < N; j++) {
            double along[N], size = sqrt(column_product(a, a, R, N, j, j));
            for (int i = 0; i < N; i++) along[i] = column_product(q, a, R, N, i, j);
            for (int i = j + 1; i < N; i++) assert_true(fabs(along[i]) < 1e-5 * size);
            for (int r = 0; r < R; r++) {
                double sum = 0;
                for (int i = 0; i < N; i++) sum += q[r * N + i] * along[i];
                assert_true(fabs(sum - a[r * N + j]) < 1e-5 * size);
            }
        }
        free(a), free(q);
    }
}

static void a_column_of_zeros_stays_zero(void **state)
{
    (void)state;
    for (cpu_level level = CPU_GENERIC; level <= vec_two.level; level++) {
        cpu_kernels table;
        cpu_kernels_fill(&table, level);
        float x[6] = {3, 0, 0, 0, 4, 0}; // columns (3, 0, 4) and zeros
        table.run[K_ORTHOGONALIZE](&vec_two, &(kernel_orthogonalize_args){3, 2, x, 1e-8f});
        assert_true(fabsf(x[0] - 0.6f) < 1e-6f && fabsf(x[4] - 0.8f) < 1e-6f && x[2] == 0);
        assert_true(x[1] == 0 && x[3] == 0 && x[5] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_of_a_shard_equal_the_reference),
        cmocka_unit_test(cross_entropy_from_statistics_equals_the_reference),
        cmocka_unit_test(scaled_square_error_equals_the_reference),
        cmocka_unit_test(embedding_of_a_shard_equals_the_reference),
        cmocka_unit_test(embedding_grad_of_a_shard_equals_the_reference),
        cmocka_unit_test(norm_of_an_fp32_residual_equals_the_reference),
        cmocka_unit_test(norm_grad_of_an_fp32_residual_equals_the_reference),
        cmocka_unit_test(add_to_an_fp32_residual_equals_the_reference),
        cmocka_unit_test(dropout_of_some_heads_equals_the_reference),
        cmocka_unit_test(orthogonal_columns_equal_the_reference),
        cmocka_unit_test(columns_become_orthonormal_and_keep_their_span),
        cmocka_unit_test(a_column_of_zeros_stays_zero),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}
