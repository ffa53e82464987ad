// The vector kernels other than attention equal the reference over odd and usual shapes, types and
// levels. They have the same bits for every number of threads.
#include "vec_check.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type, other; // other: the second type of a conversion or a low-precision copy
    int variant;       // activation, rule, or flags
} shape;

static const int64_t sizes[][2] = {{1, 1},  {3, 7},   {17, 8},   {3, 33},
                                   {1, 64}, {17, 96}, {41, 768}, {130, 257}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static const dtype types[] = {F32, BF16, F16};
enum { TYPES = sizeof types / sizeof *types };

// Checks every size and type, with variants 0 … variants-1.
static void check_all(describe_fn describe, int variants)
{
    for (int i = 0; i < SIZES; i++) {
        for (int v = 0; v < TYPES * variants; v++) {
            shape s = {sizes[i][0], sizes[i][1], types[v % TYPES], F32, v / TYPES};
            char text[96];
            snprintf(text, sizeof text, "[%ld, %ld] %s variant %d", (long)s.rows, (long)s.cols,
                     dtype_name(s.type), s.variant);
            check_kernel(describe, &s, text);
        }
    }
}

static kernel_call describe_bias_grad(space *s, const void *args)
{
    const shape *h = args;
    return (kernel_call){.kind = K_BIAS_GRAD,
                         .u.bias_grad = {.rows = h->rows,
                                         .cols = h->cols,
                                         .type = h->type,
                                         .dy = space_random(s, h->rows * h->cols, h->type, 1, NULL),
                                         .db = space_random(s, h->cols, F32, 1, "db"),
                                         .accumulate = h->variant}};
}

// Positions 1, 2, 5 and 6 of sequences of 8 tokens.
static const kernel_tokens two_chunks = {
    .seq = 4, .full_seq = 8, .chunk = 2, .start = {1, 5}, .first_row = 3};

static kernel_tokens with_documents(space *s, int64_t rows)
{
    kernel_tokens t = two_chunks;
    t.documents = space_documents(s, &t, rows, 3);
    return t;
}

static kernel_call describe_embedding(space *s, const void *args)
{
    const shape *h = args;
    return (kernel_call){
        .kind = K_EMBEDDING,
        .u.embedding = {.rows = h->rows,
                        .row_tokens = h->variant == 2 ? with_documents(s, h->rows) : two_chunks,
                        .cols = h->cols,
                        .type = h->type,
                        .ids = space_ids(s, h->rows, 13),
                        .scale = 1.5f,
                        .tokens = space_random(s, 13 * h->cols, h->type, 1, NULL),
                        .positions =
                            h->variant ? space_random(s, 7 * h->cols, h->type, 1, NULL) : NULL,
                        .y = space_random(s, h->rows * h->cols, h->type, 1, "y")}};
}

static kernel_call describe_embedding_grad(space *s, const void *args)
{
    const shape *h = args;
    int v = h->variant;
    return (kernel_call){
        .kind = K_EMBEDDING_GRAD,
        .u.embedding_grad = {
            .rows = h->rows,
            .row_tokens = v == 4 ? with_documents(s, h->rows) : two_chunks,
            .cols = h->cols,
            .vocab = 13,
            .max_seq = 7,
            .scale = 1.5f,
            .ids = space_ids(s, h->rows, 13),
            .type = h->type,
            .dy = space_random(s, h->rows * h->cols, h->type, 1, NULL),
            .d_tokens = v == 2 ? NULL : space_random(s, 13 * h->cols, F32, 1, "d_tokens"),
            .d_positions = v == 1 ? NULL : space_random(s, 7 * h->cols, F32, 1, "d_positions"),
            .accumulate_tokens = v & 1,
            .accumulate_positions = v & 2}};
}

static kernel_call describe_norm(space *s, const void *args)
{
    const shape *h = args;
    bool rms = h->variant == 2 || h->variant == 3;
    return (kernel_call){
        .kind = K_NORM,
        .u.norm = {.rows = h->rows,
                   .cols = h->cols,
                   .eps = 1e-5f,
                   .is_rms = rms,
                   .unit_offset = h->variant == 3 || h->variant == 5,
                   .type = h->type,
                   .x = space_random(s, h->rows * h->cols, h->type, 3, NULL),
                   .gain = h->variant == 4 ? NULL : space_random(s, h->cols, h->type, 1, NULL),
                   .bias = h->variant == 0 || h->variant == 5
                               ? space_random(s, h->cols, h->type, 1, NULL)
                               : NULL,
                   .y = space_random(s, h->rows * h->cols, h->type, 1, "y"),
                   .mean = rms ? NULL : space_random(s, h->rows, F32, 1, "mean"),
                   .rstd = space_random(s, h->rows, F32, 1, "rstd")}};
}

static kernel_call describe_norm_grad(space *s, const void *args)
{
    const shape *h = args;
    bool rms = h->variant & 1, in_place = h->variant & 2;
    int64_t count = h->rows * h->cols;
    const void *x = space_random(s, count, h->type, 1, NULL);
    void *dx = space_random(s, count, h->type, 1, "dx");
    return (kernel_call){
        .kind = K_NORM_GRAD,
        .u.norm_grad = {.rows = h->rows,
                        .cols = h->cols,
                        .is_rms = rms,
                        .unit_offset = h->variant & 4,
                        .type = h->type,
                        .x = x,
                        .dy = in_place ? dx : space_random(s, count, h->type, 1, NULL),
                        .dx = dx,
                        .gain = h->variant & 8 ? NULL : space_random(s, h->cols, h->type, 1, NULL),
                        .mean = rms ? NULL : space_random(s, h->rows, F32, 0.1f, NULL),
                        .rstd = space_random(s, h->rows, F32, 1, NULL),
                        .dgain = space_random(s, h->cols, F32, 1, "dgain"),
                        .dbias = rms ? NULL : space_random(s, h->cols, F32, 1, "dbias"),
                        .accumulate_dx = !in_place,
                        .accumulate_dgain = in_place,
                        .accumulate_dbias = !in_place}};
}

// `variant` is rot / 2. Bits of `cols`: pairs are neighbours, packed documents.
static kernel_call describe_rope(space *s, const void *args)
{
    const shape *h = args;
    int64_t rot = 2 * h->variant, dim = rot + h->variant % 3, stride = 3 * dim + 1;
    return (kernel_call){
        .kind = K_ROPE,
        .u.rope = {.rows = h->rows,
                   .row_tokens = h->cols & 2 ? with_documents(s, h->rows) : two_chunks,
                   .heads = 3,
                   .head_dim = dim,
                   .rot = rot,
                   .stride = stride,
                   .interleaved = h->cols & 1,
                   .inverse = h->variant % 2,
                   .type = h->type,
                   .x = space_random(s, h->rows * stride, h->type, 1, "x"),
                   .table = space_random(s, 7 * rot, F32, 1, NULL)}};
}

static kernel_call describe_activation(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    return (kernel_call){.kind = K_ACTIVATION,
                         .u.activation = {.count = count,
                                          .act = (kernel_activation)h->variant,
                                          .type = h->type,
                                          .x = space_random(s, count, h->type, 4, NULL),
                                          .y = space_random(s, count, h->type, 1, "y")}};
}

static kernel_call describe_activation_grad(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    void *dx = space_random(s, count, h->type, 1, "dx");
    return (kernel_call){.kind = K_ACTIVATION_GRAD,
                         .u.activation = {.count = count,
                                          .act = (kernel_activation)h->variant,
                                          .type = h->type,
                                          .x = space_random(s, count, h->type, 4, NULL),
                                          .dy = dx,
                                          .y = dx}};
}

static kernel_call describe_glu(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    return (kernel_call){.kind = K_GLU,
                         .u.glu = {.rows = h->rows,
                                   .cols = h->cols,
                                   .type = h->type,
                                   .act = (kernel_activation)h->variant,
                                   .x = space_random(s, 2 * count, h->type, 2, NULL),
                                   .y = space_random(s, count, h->type, 1, "y")}};
}

static kernel_call describe_glu_grad(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    void *x = space_random(s, 2 * count, h->type, 2, "dx");
    return (kernel_call){.kind = K_GLU_GRAD,
                         .u.glu = {.rows = h->rows,
                                   .cols = h->cols,
                                   .type = h->type,
                                   .act = (kernel_activation)h->variant,
                                   .x = x,
                                   .y = x,
                                   .dy = space_random(s, count, h->type, 1, NULL)}};
}

static kernel_call describe_add(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    void *y = space_random(s, count, h->type, 1, "y");
    return (kernel_call){
        .kind = K_ADD,
        .u.add = {.count = count,
                  .a = y,
                  .y = y,
                  .alpha = 0.5f,
                  .beta = -2,
                  .b = h->variant ? space_random(s, count, h->type, 1, NULL) : NULL,
                  .type = h->type}};
}

static kernel_call describe_dropout(space *s, const void *args)
{
    static const kernel_step later = {.step = 9, .first_row = 1000};
    const shape *h = args;
    const int64_t count = h->rows * h->cols;
    const bool adds = h->variant & 4, fp32 = h->variant & 8;
    const dtype residual = kernel_residual_type(h->type, fp32);
    return (kernel_call){
        .kind = K_DROPOUT,
        .u.dropout = {.rows = h->rows,
                      .cols = h->cols,
                      .row_tokens = h->variant & 1 ? two_chunks : kernel_tokens_from(h->rows, 0),
                      .p = 0.3f,
                      .type = h->type,
                      .draw = {.step = h->variant & 2 ? &later : NULL,
                               .seed = 1,
                               .row0 = 0xfffffffdu / (uint64_t)h->cols + (uint64_t)h->variant},
                      .residual_fp32 = fp32,
                      .x = space_random(s, count, adds ? h->type : residual, 1, NULL),
                      .residual = adds ? space_random(s, count, residual, 1, NULL) : NULL,
                      .y = space_random(s, count, adds ? residual : h->type, 1, "y")}};
}

static kernel_call describe_copy_rows(space *s, const void *args)
{
    const shape *h = args;
    const int64_t logical = 2 * h->rows + 16, stride = h->cols + 3;
    return (kernel_call){
        .kind = K_COPY_ROWS,
        .u.copy_rows = {.rows = h->rows,
                        .cols = h->cols,
                        .src_stride = stride,
                        .dst_stride = stride + 1,
                        .src_rows = h->variant ? kernel_tokens_from(h->rows, 0) : two_chunks,
                        .dst_rows = h->variant ? two_chunks : kernel_tokens_from(h->rows, 0),
                        .type = h->type,
                        .src = space_random(s, logical * stride, h->type, 1, NULL),
                        .dst = space_random(s, logical * (stride + 1), h->type, 1, "dst")}};
}

static kernel_call describe_cross_entropy(space *s, const void *args)
{
    const shape *h = args;
    int32_t *labels = space_ids(s, h->rows, (int32_t)h->cols);
    if (h->rows > 2) labels[1] = -100;
    return (kernel_call){
        .kind = K_CROSS_ENTROPY,
        .u.cross_entropy = {.rows = h->rows,
                            .cols = h->cols,
                            .labels = labels,
                            .type = h->type,
                            .logits = space_random(s, h->rows * h->cols, h->type, 5, "logits"),
                            .loss_sum = space_random(s, 1, F64, 1, "loss_sum"),
                            .count = space_random(s, 1, F64, 1, "count"),
                            .ignore = -100,
                            .scale = h->variant % 3 == 2 ? -0.5f : 1,
                            .softcap = h->variant < 3 ? 0 : 4,
                            .gradient = h->variant % 3 > 0}};
}

static kernel_call describe_square_error(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    void *x = space_random(s, count, h->type, 1, "dx");
    int64_t *filled = space_array_of(s, 1, F64, NULL); // 8 bytes, as an I64
    *filled = 7 + h->rows / 2;
    return (kernel_call){.kind = K_SQUARE_ERROR,
                         .u.square_error = {.rows = h->rows,
                                            .cols = h->cols,
                                            .first = h->variant > 1 ? 7 : 0,
                                            .filled = h->variant > 1 ? filled : NULL,
                                            .x = x,
                                            .dx = h->variant % 2 ? x : NULL,
                                            .target = space_random(s, count, F32, 1, NULL),
                                            .loss_sum = space_random(s, 1, F64, 1, "loss_sum"),
                                            .total = space_random(s, 1, F64, 1, "total"),
                                            .type = h->type}};
}

static kernel_call describe_sum_squares(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    return (kernel_call){.kind = K_SUM_SQUARES,
                         .u.sum_squares = {.count = count,
                                           .type = h->type,
                                           .x = space_random(s, count, h->type, 1, NULL),
                                           .sum = space_random(s, 1, F64, 1, "sum")}};
}

// `variant` is rule + 4 * first, or rule + 8 where the step has no update. `other` is the type of the
// low-precision copy, or F64 for none.
static kernel_call describe_update(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    kernel_update_rule rule = (kernel_update_rule)(h->variant % 4);
    static const kernel_step step[] = {{.result = {.scale = 0.5, .applies = true}},
                                       {.result = {.scale = NAN}}};
    static const kernel_step_group group[] = {
        {.lr = 0.01f, .beta1 = 0.9f, .c1 = 0.271f, .c2 = 0.142f, .average_rest = 0.125f},
        {.lr = 0.01f, .beta1 = 0.9f, .c1 = 0.271f, .c2 = 0.142f, .first = true}};
    bool first = h->variant / 4 == 1, plain = first && rule == UPDATE_SGD && h->other == F64;
    float *v = space_random(s, count, F32, 1, "v");
    for (int64_t i = 0; i < count; i++) v[i] *= v[i];
    return (kernel_call){
        .kind = K_UPDATE,
        .u.update = {.count = count,
                     .w = space_random(s, count, F32, 1, "w"),
                     .v = v,
                     .m = plain ? NULL : space_random(s, count, F32, 1, "m"),
                     .g = space_random(s, count, F32, 1, NULL),
                     .average = first ? NULL : space_random(s, count, F32, 1, "average"),
                     .rule = rule,
                     .low = h->other == F64 ? NULL : space_random(s, count, h->other, 1, "low"),
                     .low_type = h->other,
                     .beta2 = 0.95f,
                     .eps = 1e-8f,
                     .weight_decay = 0.1f,
                     .step = &step[h->variant / 8],
                     .group = &group[first]}};
}

static kernel_call describe_convert(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    return (kernel_call){.kind = K_CONVERT,
                         .u.convert = {.count = count,
                                       .src_type = h->type,
                                       .dst_type = h->other,
                                       .src = space_random(s, count, h->type, 20, NULL),
                                       .dst = space_random(s, count, h->other, 1, "dst")}};
}

static kernel_call describe_fill(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    return (kernel_call){
        .kind = K_FILL,
        .u.fill = {.dst = space_random(s, count, F32, 1, "dst"), .bytes = 4 * count - h->variant}};
}

static kernel_call describe_digest(space *s, const void *args)
{
    const shape *h = args;
    int64_t count = h->rows * h->cols;
    uint64_t *digest = space_array_of(s, 1, I64, "digest");
    *digest = 42;
    return (kernel_call){.kind = K_DIGEST,
                         .u.digest = {.x = space_random(s, count, BF16, 1, NULL),
                                      .bytes = 2 * count,
                                      .digest = digest,
                                      .index0 = 0xfffffff0u + (uint64_t)h->variant}};
}

#define CASE(name, describe, variants)                                                             \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_all(describe, variants);                                                             \
    }
CASE(bias_grad_equals_the_reference, describe_bias_grad, 2)
CASE(embedding_equals_the_reference, describe_embedding, 3)
CASE(embedding_grad_equals_the_reference, describe_embedding_grad, 5)
CASE(norm_equals_the_reference, describe_norm, 6)
CASE(norm_grad_equals_the_reference, describe_norm_grad, 12)
CASE(activation_equals_the_reference, describe_activation, ACTIVATIONS)
CASE(activation_grad_equals_the_reference, describe_activation_grad, ACTIVATIONS)
CASE(glu_equals_the_reference, describe_glu, ACTIVATIONS)
CASE(glu_grad_equals_the_reference, describe_glu_grad, ACTIVATIONS)
CASE(add_equals_the_reference, describe_add, 2)
CASE(dropout_keeps_what_the_reference_keeps, describe_dropout, 16)
CASE(copy_rows_equals_the_reference, describe_copy_rows, 2)
CASE(cross_entropy_equals_the_reference, describe_cross_entropy, 6)
CASE(square_error_equals_the_reference, describe_square_error, 4)
CASE(sum_squares_equals_the_reference, describe_sum_squares, 1)
CASE(fill_zeroes_exactly_its_bytes, describe_fill, 3)
CASE(digest_equals_the_reference, describe_digest, 2)

static void rope_equals_the_reference(void **state)
{
    (void)state;
    for (int half = 1; half < 70; half += half < 20 ? 1 : 13) {
        for (int v = 0; v < 4 * TYPES; v++) {
            shape s = {40, v / TYPES, types[v % TYPES], F32, half};
            check_kernel(describe_rope, &s, dtype_name(s.type));
        }
    }
}

static void update_equals_the_reference_for_every_rule_and_copy(void **state)
{
    (void)state;
    const dtype copies[] = {F64, F32, BF16, F16};
    for (int i = 0; i < SIZES; i++) {
        for (int v = 0; v < 12 * 4; v++) {
            shape s = {sizes[i][0], sizes[i][1], F32, copies[v / 12], v % 12};
            char text[64];
            snprintf(text, sizeof text, "rule %d case %d copy %s", v % 4, v % 12 / 4,
                     dtype_name(s.other));
            check_kernel(describe_update, &s, text);
        }
    }
}

static void conversions_equal_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        for (int v = 0; v < TYPES * TYPES; v++) {
            shape s = {sizes[i][0], sizes[i][1], types[v / TYPES], types[v % TYPES], 0};
            check_kernel(describe_convert, &s, dtype_name(s.other));
        }
    }
}

static void long_arrays_equal_the_reference(void **state)
{
    (void)state;
    shape s = {3, 50257, F32, F32, 1};
    check_kernel(describe_cross_entropy, &s, "long");
    check_kernel(describe_sum_squares, &s, "long");
    check_kernel(describe_square_error, &s, "long");
    check_kernel(describe_digest, &s, "long");
    check_kernel(describe_fill, &s, "long");
    s = (shape){700, 40, F32, F32, 0};
    check_kernel(describe_norm_grad, &s, "many rows");
    check_kernel(describe_bias_grad, &s, "many rows");
    s = (shape){2, 20000, F32, F32, 0};
    check_kernel(describe_norm_grad, &s, "wide rows");
}

// A NaN anywhere must reach the sums that the trainer checks.
static void a_nan_is_not_lost(void **state)
{
    (void)state;
    const cpu_context *x = &vec_one;
    cpu_kernels table;
    cpu_kernels_fill(&table, x->level);
    float values[40];
    for (int i = 0; i < 40; i++) {
        double sum = 0, count = 0;
        memset(values, 0, sizeof values);
        values[i] = NAN;
        table.run[K_SUM_SQUARES](
            x, &(kernel_sum_squares_args){.count = 40, .x = values, .sum = &sum, .type = F32});
        assert_true(isnan(sum));
        sum = 0;
        const int32_t label = 3;
        table.run[K_CROSS_ENTROPY](x, &(kernel_cross_entropy_args){.rows = 1,
                                                                   .cols = 40,
                                                                   .scale = 1,
                                                                   .logits = values,
                                                                   .labels = &label,
                                                                   .loss_sum = &sum,
                                                                   .count = &count});
        assert_true(isnan(sum));
        float y[40];
        for (kernel_activation act = 0; act < ACTIVATIONS; act++) {
            table.run[K_ACTIVATION](x, &(kernel_activation_args){40, values, NULL, y, act, F32});
            assert_true(isnan(y[i]));
        }
    }
}

static void decayed_moments_become_zero(void **state)
{
    (void)state;
    cpu_kernels table;
    cpu_kernels_fill(&table, vec_one.level);
    if (vec_one.level == CPU_GENERIC) skip();
    float w[33], m[33], v[33], g[33] = {0};
    for (int i = 0; i < 33; i++) w[i] = 1, m[i] = v[i] = 1e-40f;
    const kernel_step_group group = {.lr = 1, .beta1 = 0.9f, .c1 = 1, .c2 = 1};
    const kernel_update_args args = {
        .count = 33, .w = w, .m = m, .v = v, .g = g, .beta2 = 0.99f, .eps = 1e-8f, .group = &group};
    table.run[K_UPDATE](&vec_one, &args);
    for (int i = 0; i < 33; i++) assert_true(w[i] == 1 && m[i] == 0 && v[i] == 0);
    volatile float small = 1e-40f; // the arithmetic of the caller is unchanged
    assert_true(small * 0.5f > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias_grad_equals_the_reference),
        cmocka_unit_test(embedding_equals_the_reference),
        cmocka_unit_test(embedding_grad_equals_the_reference),
        cmocka_unit_test(norm_equals_the_reference),
        cmocka_unit_test(norm_grad_equals_the_reference),
        cmocka_unit_test(rope_equals_the_reference),
        cmocka_unit_test(activation_equals_the_reference),
        cmocka_unit_test(activation_grad_equals_the_reference),
        cmocka_unit_test(glu_equals_the_reference),
        cmocka_unit_test(glu_grad_equals_the_reference),
        cmocka_unit_test(add_equals_the_reference),
        cmocka_unit_test(dropout_keeps_what_the_reference_keeps),
        cmocka_unit_test(copy_rows_equals_the_reference),
        cmocka_unit_test(cross_entropy_equals_the_reference),
        cmocka_unit_test(square_error_equals_the_reference),
        cmocka_unit_test(sum_squares_equals_the_reference),
        cmocka_unit_test(update_equals_the_reference_for_every_rule_and_copy),
        cmocka_unit_test(conversions_equal_the_reference),
        cmocka_unit_test(fill_zeroes_exactly_its_bytes),
        cmocka_unit_test(digest_equals_the_reference),
        cmocka_unit_test(long_arrays_equal_the_reference),
        cmocka_unit_test(a_nan_is_not_lost),
        cmocka_unit_test(decayed_moments_become_zero),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}
