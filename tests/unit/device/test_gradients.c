// test_gradients.c -- compares every gradient of the reference with central differences of its
// forward pass.
#include "unit/device/gradient_check.h"

// ---- linear layer: y = x w^T + bias ----

enum { M = 6, N = 10, K = 7 };

typedef struct linear {
    kernel_matmul_args forward;
    const float *weight;
} linear;

static double linear_loss(void *op)
{
    linear *l = op;
    run(K_MATMUL, &l->forward);
    return weighted(l->forward.c, l->weight, M * N);
}

static void linear_gradients(void **state)
{
    (void)state;
    float *x = harness_random(M * K, 1), *w = harness_random(N * K, 2), *b = harness_random(N, 3);
    float *y = harness_zeros(M * N), *dy = harness_random(M * N, 4);
    float *dx = harness_zeros(M * K), *dw = harness_zeros(N * K), *db = harness_zeros(N);
    linear l = {{.m = M,
                 .n = N,
                 .k = K,
                 .a = x,
                 .b = w,
                 .c = y,
                 .bias = b,
                 .lda = K,
                 .ldb = K,
                 .ldc = N,
                 .trans_b = true},
                dy};
    run(K_MATMUL,
        &(kernel_matmul_args){
            .m = M, .n = K, .k = N, .a = dy, .b = w, .c = dx, .lda = N, .ldb = K, .ldc = K});
    run(K_MATMUL, &(kernel_matmul_args){.m = N,
                                        .n = K,
                                        .k = M,
                                        .a = dy,
                                        .b = x,
                                        .c = dw,
                                        .lda = N,
                                        .ldb = K,
                                        .ldc = K,
                                        .trans_a = true,
                                        .accumulate = true});
    run(K_BIAS_GRAD, &(kernel_bias_grad_args){.rows = M, .cols = N, .dy = dy, .db = db});
    assert_gradient(&(claim){linear_loss, &l, x, dx, M * K});
    assert_gradient(&(claim){linear_loss, &l, w, dw, N * K});
    assert_gradient(&(claim){linear_loss, &l, b, db, N});
    free(x), free(w), free(b), free(y), free(dy), free(dx), free(dw), free(db);
}

// ---- a linear layer that ends with its activation, before another layer of equal width ----

static void joined_gradients(void **state)
{
    (void)state;
    float *x = harness_random(M * K, 1), *w = harness_random(N * K, 2), *b = harness_random(N, 3);
    float *y = harness_zeros(M * N), *z = harness_zeros(M * N), *dz = harness_zeros(M * N);
    float *g = harness_random(M * K, 4), *v = harness_random(K * N, 5), *dy = harness_zeros(M * N);
    float *dx = harness_zeros(M * K), *db = harness_zeros(N);
    const kernel_matmul_args forward = {.m = M,
                                        .n = N,
                                        .k = K,
                                        .a = x,
                                        .b = w,
                                        .c = y,
                                        .bias = b,
                                        .aux = z,
                                        .lda = K,
                                        .ldb = K,
                                        .ldc = N,
                                        .epilogue = EPILOGUE_ACTIVATION,
                                        .act = ACT_GELU_TANH,
                                        .trans_b = true};
    kernel_matmul_args back = {
        .m = M, .n = N, .k = K, .a = g, .b = v, .c = dy, .lda = K, .ldb = N, .ldc = N};
    run(K_MATMUL, &back); // the gradient of y
    linear l = {forward, dy};
    linear_loss(&l); // z
    back.c = dz, back.aux = z, back.epilogue = EPILOGUE_ACTIVATION_GRAD, back.act = ACT_GELU_TANH;
    run(K_MATMUL, &back);
    run(K_MATMUL,
        &(kernel_matmul_args){
            .m = M, .n = K, .k = N, .a = dz, .b = w, .c = dx, .lda = N, .ldb = K, .ldc = K});
    run(K_BIAS_GRAD, &(kernel_bias_grad_args){.rows = M, .cols = N, .dy = dz, .db = db});
    assert_gradient(&(claim){linear_loss, &l, x, dx, M * K});
    assert_gradient(&(claim){linear_loss, &l, b, db, N});
    free(x), free(w), free(b), free(y), free(z), free(dz), free(g), free(v), free(dy);
    free(dx), free(db);
}

// ---- embedding ----

enum { ROWS = 10, SEQ = 5, COLS = 6, VOCAB = 7, MAX_SEQ = 8 };

typedef struct embed {
    kernel_embedding_args forward;
    const float *weight;
} embed;

static double embed_loss(void *op)
{
    embed *l = op;
    run(K_EMBEDDING, &l->forward);
    return weighted(l->forward.y, l->weight, ROWS * COLS);
}

static void embedding_gradients(void **state)
{
    (void)state;
    static const int32_t ids[ROWS] = {3, 0, 3, 6, 1, 1, 1, 5, 0, 3};
    int32_t sorted[2 * ROWS];
    context.workspace = sorted;
    float *tokens = harness_random(VOCAB * COLS, 1), *positions = harness_random(MAX_SEQ * COLS, 2);
    float *y = harness_zeros(ROWS * COLS), *dy = harness_random(ROWS * COLS, 3);
    float *dt = harness_random(VOCAB * COLS, 4), *dp = harness_random(MAX_SEQ * COLS, 5);
    embed l = {{.rows = ROWS,
                .row_tokens = kernel_tokens_from(SEQ, 0),
                .cols = COLS,
                .ids = ids,
                .tokens = tokens,
                .positions = positions,
                .y = y,
                .scale = 1.5f},
               dy};
    run(K_EMBEDDING_GRAD, &(kernel_embedding_grad_args){.rows = ROWS,
                                                        .row_tokens = kernel_tokens_from(SEQ, 0),
                                                        .cols = COLS,
                                                        .vocab = VOCAB,
                                                        .max_seq = MAX_SEQ,
                                                        .ids = ids,
                                                        .dy = dy,
                                                        .d_tokens = dt,
                                                        .d_positions = dp,
                                                        .scale = 1.5f});
    assert_gradient(&(claim){embed_loss, &l, tokens, dt, VOCAB * COLS});
    assert_gradient(&(claim){embed_loss, &l, positions, dp, MAX_SEQ * COLS});
    free(tokens), free(positions), free(y), free(dy), free(dt), free(dp);
}

// ---- norms ----

enum { NORM_COLS = 12 };

typedef struct norm {
    kernel_norm_args forward;
    const float *weight;
} norm;

static double norm_loss(void *op)
{
    norm *l = op;
    run(K_NORM, &l->forward);
    return weighted(l->forward.y, l->weight, ROWS * NORM_COLS);
}

static void check_norm(bool is_rms, bool unit_offset)
{
    enum { COUNT = ROWS * NORM_COLS };
    float *x = harness_random(COUNT, 1), *gain = harness_random(NORM_COLS, 2);
    float *bias = harness_random(NORM_COLS, 3), *y = harness_zeros(COUNT);
    float *dy = harness_random(COUNT, 4), *dx = harness_zeros(COUNT);
    float *dgain = harness_zeros(NORM_COLS), *dbias = harness_zeros(NORM_COLS);
    float mean[ROWS], rstd[ROWS];
    norm l = {{.rows = ROWS,
               .cols = NORM_COLS,
               .x = x,
               .gain = gain,
               .bias = is_rms ? NULL : bias,
               .y = y,
               .mean = is_rms ? NULL : mean,
               .rstd = rstd,
               .eps = 1e-5f,
               .is_rms = is_rms,
               .unit_offset = unit_offset},
              dy};
    norm_loss(&l);
    memcpy(dx, dy, sizeof(float) * COUNT); // in place: dx is dy
    run(K_NORM_GRAD, &(kernel_norm_grad_args){.rows = ROWS,
                                              .cols = NORM_COLS,
                                              .dy = dx,
                                              .x = x,
                                              .gain = gain,
                                              .mean = is_rms ? NULL : mean,
                                              .rstd = rstd,
                                              .dx = dx,
                                              .dgain = dgain,
                                              .dbias = is_rms ? NULL : dbias,
                                              .is_rms = is_rms,
                                              .unit_offset = unit_offset});
    assert_gradient(&(claim){norm_loss, &l, x, dx, COUNT});
    assert_gradient(&(claim){norm_loss, &l, gain, dgain, NORM_COLS});
    if (!is_rms) assert_gradient(&(claim){norm_loss, &l, bias, dbias, NORM_COLS});
    free(x), free(gain), free(bias), free(y), free(dy), free(dx), free(dgain), free(dbias);
}

static void norm_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) check_norm(i & 1, i & 2);
}

// ---- rotary positions: in place, so the loss works on a copy ----

enum { HEADS = 3, HEAD_DIM = 8, ROT = 6, STRIDE = 30, ROPE_COUNT = ROWS * STRIDE };

typedef struct rotary {
    kernel_rope_args forward;
    const float *x, *weight;
} rotary;

static double rotary_loss(void *op)
{
    rotary *l = op;
    memcpy(l->forward.x, l->x, sizeof(float) * ROPE_COUNT);
    run(K_ROPE, &l->forward);
    return weighted(l->forward.x, l->weight, ROPE_COUNT);
}

static void check_rope(bool interleaved)
{
    float *x = harness_random(ROPE_COUNT, 1), *copy = harness_zeros(ROPE_COUNT);
    float *dy = harness_random(ROPE_COUNT, 2), *dx = harness_random(ROPE_COUNT, 2);
    float table[(SEQ + 2) * ROT];
    for (int i = 0; i < (SEQ + 2) * ROT / 2; i++) {
        table[2 * i] = cosf(0.3f * (float)i);
        table[2 * i + 1] = sinf(0.3f * (float)i);
    }
    kernel_rope_args forward = {.rows = ROWS,
                                .row_tokens = kernel_tokens_from(SEQ, 2),
                                .heads = HEADS,
                                .head_dim = HEAD_DIM,
                                .rot = ROT,
                                .stride = STRIDE,
                                .x = copy,
                                .interleaved = interleaved,
                                .table = table};
    rotary l = {forward, x, dy};
    forward.x = dx;
    forward.inverse = true;
    run(K_ROPE, &forward);
    assert_gradient(&(claim){rotary_loss, &l, x, dx, ROPE_COUNT});
    free(x), free(copy), free(dy), free(dx);
}

static void rope_gradient_is_the_inverse_rotation(void **state)
{
    (void)state;
    check_rope(false);
    check_rope(true);
}

// ---- attention ----

enum { BATCH = 2, T = 7, WIDE = 48, ATT = BATCH * T * WIDE };

typedef struct attend {
    kernel_attention_args forward;
    const float *weight;
} attend;

static double attend_loss(void *op)
{
    attend *l = op;
    run(K_ATTENTION, &l->forward);
    return weighted(l->forward.o, l->weight, BATCH * T * 4 * 6);
}

// With documents, there are two in each sequence.
static void check_attention(int64_t kv_heads, bool causal, float dropout,
                            kernel_attention_form form, bool has_sinks, bool documents)
{
    static const int32_t STARTS[BATCH * T] = {0, 0, 0, 3, 3, 3, 3, 0, 1, 1, 1, 1, 1, 1};
    enum { H = 4, D = 6 };
    float *sinks = harness_random(H, 5), d_sinks[H] = {3, 3, 3, 3};
    float *q = harness_random(ATT, 1), *k = harness_random(ATT, 2), *v = harness_random(ATT, 3);
    float *o = harness_zeros(ATT), *d_o = harness_random(ATT, 4);
    float *dq = harness_zeros(ATT), *dk = harness_zeros(ATT), *dv = harness_zeros(ATT);
    float lse[BATCH * H * T], delta[BATCH * H * T];
    attend l = {{.batch = BATCH,
                 .queries = kernel_tokens_from(T, 0),
                 .tk = T,
                 .heads = H,
                 .kv_heads = kv_heads,
                 .head_dim = D,
                 .q_stride = WIDE,
                 .k_stride = WIDE,
                 .v_stride = WIDE - 8,
                 .o_stride = H * D,
                 .k_batch = T * WIDE,
                 .v_batch = T * (WIDE - 8),
                 .q = q,
                 .k = k,
                 .v = v,
                 .o = o,
                 .lse = lse,
                 .sinks = has_sinks ? sinks : NULL,
                 .scale = 0.4f,
                 .form = form,
                 .dropout.p = dropout,
                 .dropout.draw = {.seed = 5, .node = 2, .row0 = 11},
                 .dropout.stride = 16,
                 .causal = causal},
                d_o};
    if (documents) l.forward.queries.documents = STARTS;
    attend_loss(&l);
    kernel_attention_grad_args g = {
        .fwd = l.forward, .d_o = d_o, .dq = dq, .dk = dk, .dv = dv, .delta = delta};
    if (has_sinks) g.d_sinks = d_sinks;
    run(K_ATTENTION_GRAD, &g);
    assert_gradient(&(claim){attend_loss, &l, q, dq, ATT});
    assert_gradient(&(claim){attend_loss, &l, k, dk, ATT});
    assert_gradient(&(claim){attend_loss, &l, v, dv, ATT});
    if (has_sinks) assert_gradient(&(claim){attend_loss, &l, sinks, d_sinks, H});
    free(sinks);
    free(q), free(k), free(v), free(o), free(d_o), free(dq), free(dk), free(dv);
}

static void attention_gradients(void **state)
{
    (void)state;
    check_attention(4, true, 0, (kernel_attention_form){0}, false, false);
    check_attention(4, false, 0, (kernel_attention_form){.softcap = 0.7f}, false, false);
    check_attention(2, true, 0, (kernel_attention_form){.window = 3}, false, false);
    check_attention(1, true, 0.3f, (kernel_attention_form){4, 1.5f}, true, false);
    check_attention(2, true, 0, (kernel_attention_form){0}, false, true);
    check_attention(1, true, 0.3f, (kernel_attention_form){3, 1.5f}, true, true);
}

// ---- activations ----

enum { COUNT = 60 };

typedef struct activate {
    kernel_activation_args plain;
    kernel_glu_args gated;
    const float *weight;
} activate;

static double activate_loss(void *op)
{
    activate *l = op;
    run(K_ACTIVATION, &l->plain);
    return weighted(l->plain.y, l->weight, COUNT);
}

static double glu_loss(void *op)
{
    activate *l = op;
    run(K_GLU, &l->gated);
    return weighted(l->gated.y, l->weight, COUNT / 2);
}

// ReLU has no derivative at 0, so x keeps a distance from 0 of more than the step.
static void avoid_zero(float *x)
{
    for (int i = 0; i < COUNT; i++) x[i] += x[i] < 0 ? -0.3f : 0.3f;
}

static void activation_gradients(void **state)
{
    (void)state;
    for (kernel_activation act = 0; act < ACTIVATIONS; act++) {
        float *x = harness_random(COUNT, 1), *y = harness_zeros(COUNT);
        float *dy = harness_random(COUNT, 2), *dx = harness_zeros(COUNT);
        if (act == ACT_RELU || act == ACT_RELU2) avoid_zero(x);
        activate l = {.plain = {.count = COUNT, .x = x, .y = y, .act = act}, .weight = dy};
        run(K_ACTIVATION_GRAD,
            &(kernel_activation_args){.count = COUNT, .x = x, .dy = dy, .y = dx, .act = act});
        assert_gradient(&(claim){activate_loss, &l, x, dx, COUNT});
        free(x), free(y), free(dy), free(dx);
    }
}

static void glu_gradients(void **state)
{
    (void)state;
    for (kernel_activation act = 0; act < ACTIVATIONS; act++) {
        float *x = harness_random(COUNT, 1), *y = harness_zeros(COUNT);
        float *dy = harness_random(COUNT, 2), *dx = harness_zeros(COUNT);
        if (act == ACT_RELU || act == ACT_RELU2) avoid_zero(x);
        kernel_glu_args forward = {.rows = 3, .cols = 10, .x = x, .y = y, .act = act};
        activate l = {.gated = forward, .weight = dy};
        memcpy(dx, x, sizeof(float) * COUNT); // in place: dx is x
        run(K_GLU_GRAD,
            &(kernel_glu_args){.rows = 3, .cols = 10, .x = dx, .dy = dy, .y = dx, .act = act});
        assert_gradient(&(claim){glu_loss, &l, x, dx, COUNT});
        free(x), free(y), free(dy), free(dx);
    }
}

// ---- losses: the gradient replaces the logits, so the loss works on a copy ----

typedef struct entropy {
    kernel_cross_entropy_args forward;
    const float *x;
} entropy;

static double entropy_loss(void *op)
{
    entropy *l = op;
    double sum = 0, count = 0;
    kernel_cross_entropy_args call = l->forward;
    memcpy(call.logits, l->x, sizeof(float) * COUNT);
    call.loss_sum = &sum, call.count = &count;
    run(K_CROSS_ENTROPY, &call);
    return sum;
}

static void check_cross_entropy(float softcap)
{
    static const int32_t labels[5] = {0, 11, -100, 4, 4};
    float *x = harness_random(COUNT, 1), *copy = harness_zeros(COUNT),
          *dx = harness_random(COUNT, 1);
    double sum = 0, count = 0;
    kernel_cross_entropy_args call = {.rows = 5,
                                      .cols = 12,
                                      .logits = copy,
                                      .labels = labels,
                                      .loss_sum = &sum,
                                      .count = &count,
                                      .scale = 0.7f,
                                      .softcap = softcap,
                                      .ignore = -100};
    entropy l = {call, x};
    call.logits = dx;
    call.gradient = true;
    run(K_CROSS_ENTROPY, &call);
    assert_true(count == 4);
    assert_gradient(&(claim){entropy_loss, &l, x, dx, COUNT});
    free(x), free(copy), free(dx);
}

static void cross_entropy_gradient(void **state)
{
    (void)state;
    check_cross_entropy(0);
    check_cross_entropy(1.5f);
}

static double square_loss(void *op)
{
    kernel_square_error_args call = *(kernel_square_error_args *)op;
    double sum = 0, total = 0;
    call.dx = NULL, call.loss_sum = &sum, call.total = &total;
    run(K_SQUARE_ERROR, &call);
    return sum;
}

static void square_error_gradient(void **state)
{
    (void)state;
    float *x = harness_random(COUNT, 1), *target = harness_random(COUNT, 2);
    float *dx = harness_zeros(COUNT);
    double sum = 0, total = 0;
    kernel_square_error_args call = {.rows = COUNT / 2,
                                     .cols = 2,
                                     .x = x,
                                     .target = target,
                                     .dx = dx,
                                     .loss_sum = &sum,
                                     .total = &total};
    run(K_SQUARE_ERROR, &call);
    assert_gradient(&(claim){square_loss, &call, x, dx, COUNT});
    free(x), free(target), free(dx);
}

// ---- linear maps that are their own gradient ----

static double dropout_loss(void *op)
{
    kernel_dropout_args *call = op;
    float y[COUNT];
    call->y = y;
    run(K_DROPOUT, call);
    float *weight = harness_random(COUNT, 2);
    double sum = weighted(y, weight, COUNT);
    free(weight);
    return sum;
}

static void dropout_gradient_is_the_same_call(void **state)
{
    (void)state;
    float *x = harness_random(COUNT, 1), *dy = harness_random(COUNT, 2), *dx = harness_zeros(COUNT);
    kernel_dropout_args call = {.rows = COUNT,
                                .cols = 1,
                                .row_tokens = kernel_tokens_from(COUNT, 0),
                                .x = x,
                                .p = 0.4f,
                                .draw = {.seed = 1, .row0 = 9}};
    kernel_dropout_args back = call;
    back.x = dy, back.y = dx;
    run(K_DROPOUT, &back);
    assert_gradient(&(claim){dropout_loss, &call, x, dx, COUNT});
    free(x), free(dy), free(dx);
}

static void a_wrong_gradient_is_found(void **state)
{
    (void)state;
    float *x = harness_random(COUNT, 1), *y = harness_zeros(COUNT), *dy = harness_random(COUNT, 2);
    float *dx = harness_zeros(COUNT);
    activate l = {.plain = {.count = COUNT, .x = x, .y = y, .act = ACT_GELU}, .weight = dy};
    kernel_activation_args back = {.count = COUNT, .x = x, .dy = dy, .y = dx, .act = ACT_GELU_TANH};
    run(K_ACTIVATION_GRAD, &back);
    dx[7] *= 1.02f; // one element of sixty is wrong by two percent
    assert_true(gradient_error(&(claim){activate_loss, &l, x, dx, COUNT}) > 2);
    free(x), free(y), free(dy), free(dx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_gradients),
        cmocka_unit_test(joined_gradients),
        cmocka_unit_test(embedding_gradients),
        cmocka_unit_test(norm_gradients),
        cmocka_unit_test(rope_gradient_is_the_inverse_rotation),
        cmocka_unit_test(attention_gradients),
        cmocka_unit_test(activation_gradients),
        cmocka_unit_test(glu_gradients),
        cmocka_unit_test(cross_entropy_gradient),
        cmocka_unit_test(square_error_gradient),
        cmocka_unit_test(dropout_gradient_is_the_same_call),
        cmocka_unit_test(a_wrong_gradient_is_found),
    };
    return cmocka_run_group_tests(tests, gradient_open, gradient_close);
}
