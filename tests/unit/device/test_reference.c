// test_reference.c -- compares the reference kernels that test_gradients.c does not cover with
// formulas of its own: update rules, dropout, sums, digest, conversions, and the accumulate flags.
#include "unit/device/harness.h"

static cpu_context context;
static cpu_kernels kernels;

static void run(kernel_kind kind, const void *args)
{
    kernels.run[kind](&context, args);
}

enum { COUNT = 40 };

// ---- update rules: three steps in double ----

typedef struct state_d {
    double w, m, v, average;
} state_d;

static void step_by_hand(const kernel_update_args *p, state_d *s, double g, int t)
{
    g *= p->step->result.scale;
    double lr = p->group->lr, wd = p->weight_decay, b1 = p->group->beta1, b2 = p->beta2;
    if (p->rule == UPDATE_ADAMW || p->rule == UPDATE_ADAM) {
        if (p->rule == UPDATE_ADAM) g += wd * s->w;
        if (p->rule == UPDATE_ADAMW) s->w *= 1 - lr * wd;
        s->m = b1 * s->m + (1 - b1) * g;
        s->v = b2 * s->v + (1 - b2) * g * g;
        double m_hat = s->m / (1 - pow(b1, t)), v_hat = s->v / (1 - pow(b2, t));
        s->w -= lr * m_hat / (sqrt(v_hat) + p->eps);
    } else if (p->rule == UPDATE_SGD) {
        g += wd * s->w;
        s->m = t == 1 ? g : b1 * s->m + g;
        s->w -= lr * s->m;
    } else {
        s->w *= 1 - lr * wd;
        double c = b1 * s->m + (1 - b1) * g;
        s->w -= lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
        s->m = b2 * s->m + (1 - b2) * g;
    }
    s->average = t == 1 ? s->w : 0.75 * s->average + 0.25 * s->w;
}

static void check_rule(kernel_update_rule rule)
{
    float *w = harness_random(COUNT, 1), *m = harness_zeros(COUNT), *v = harness_zeros(COUNT),
          *average = harness_zeros(COUNT);
    uint16_t low[COUNT];
    state_d s[COUNT];
    for (int i = 0; i < COUNT; i++) s[i] = (state_d){.w = w[i]};
    for (int t = 1; t <= 3; t++) {
        float *g = harness_random(COUNT, 10 + (uint64_t)t);
        g[5] = 0;
        const kernel_step step = {.result = {.scale = 0.5, .applies = true}};
        const kernel_step_group group = {.lr = 0.01f,
                                         .beta1 = 0.9f,
                                         .c1 = (float)(1 - pow(0.9, t)),
                                         .c2 = (float)(1 - pow(0.95, t)),
                                         .average_rest = t == 1 ? 1 : 0.25f,
                                         .first = t == 1};
        kernel_update_args p = {.count = COUNT,
                                .w = w,
                                .m = m,
                                .v = v,
                                .g = g,
                                .average = average,
                                .low = low,
                                .low_type = BF16,
                                .rule = rule,
                                .beta2 = 0.95f,
                                .eps = 1e-8f,
                                .weight_decay = 0.1f,
                                .step = &step,
                                .group = &group};
        run(K_UPDATE, &p);
        for (int i = 0; i < COUNT; i++) step_by_hand(&p, &s[i], g[i], t);
        free(g);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_true(fabs(w[i] - s[i].w) <= 2e-6);
        assert_true(fabs(m[i] - s[i].m) <= 2e-6);
        assert_true(fabs(average[i] - s[i].average) <= 2e-6);
        assert_int_equal(low[i], float_to_bf16(w[i]));
    }
    free(w), free(m), free(v), free(average);
}

static void update_rules_are_their_formulas(void **state)
{
    (void)state;
    for (kernel_update_rule rule = 0; rule < UPDATE_RULES; rule++) check_rule(rule);
}

static void sgd_without_momentum_needs_no_state(void **state)
{
    (void)state;
    float w[2] = {1, -2}, g[2] = {0.5f, 4};
    run(K_UPDATE, &(kernel_update_args){.count = 2,
                                        .w = w,
                                        .g = g,
                                        .rule = UPDATE_SGD,
                                        .group = &(kernel_step_group){.lr = 0.1f, .first = true},
                                        .weight_decay = 1});
    assert_true(fabsf(w[0] - 0.85f) < 1e-6f && fabsf(w[1] - -2.2f) < 1e-6f);
}

// ---- dropout ----

static void dropout_keeps_the_right_share_and_depends_on_position_only(void **state)
{
    (void)state;
    enum { MANY = 40000 };
    float *x = malloc(sizeof(float) * MANY), *y = harness_zeros(MANY), *z = harness_zeros(MANY);
    for (int i = 0; i < MANY; i++) x[i] = 1;
    kernel_dropout_args all = {.rows = MANY,
                               .cols = 1,
                               .row_tokens = kernel_tokens_from(MANY, 0),
                               .x = x,
                               .y = y,
                               .p = 0.25f,
                               .draw = {.seed = 3, .node = 1, .row0 = 1000}};
    run(K_DROPOUT, &all);
    int kept = 0;
    for (int i = 0; i < MANY; i++) {
        assert_true(y[i] == 0 || fabsf(y[i] - 1 / 0.75f) < 1e-6f);
        kept += y[i] != 0;
    }
    assert_true(abs(kept - 30000) < 350); // four standard deviations
    kernel_dropout_args part = all;       // the second part alone
    part.x = x + 123, part.y = z + 123, part.draw.row0 += 123, part.rows -= 123;
    run(K_DROPOUT, &part);
    assert_memory_equal(y + 123, z + 123, sizeof(float) * (MANY - 123));
    all.y = z, all.p = 0; // and with p = 0 nothing changes
    run(K_DROPOUT, &all);
    assert_memory_equal(x, z, sizeof(float) * MANY);
    free(x), free(y), free(z);
}

// ---- sums ----

static void sum_of_squares_adds_in_double_and_keeps_nan(void **state)
{
    (void)state;
    float *x = harness_random(COUNT, 1), bad[3] = {1, NAN, 2}, big[2] = {INFINITY, 1};
    double sum = 3, expected = 3;
    for (int i = 0; i < COUNT; i++) expected += (double)x[i] * x[i];
    run(K_SUM_SQUARES, &(kernel_sum_squares_args){.count = COUNT, .x = x, .sum = &sum});
    assert_true(fabs(sum - expected) < 1e-12 * expected);
    uint16_t halves[2] = {float_to_bf16(3), float_to_bf16(-4)};
    sum = 0;
    run(K_SUM_SQUARES,
        &(kernel_sum_squares_args){.count = 2, .x = halves, .sum = &sum, .type = BF16});
    assert_true(sum == 25);
    run(K_SUM_SQUARES, &(kernel_sum_squares_args){.count = 2, .x = big, .sum = &sum});
    assert_true(isinf(sum));
    run(K_SUM_SQUARES, &(kernel_sum_squares_args){.count = 3, .x = bad, .sum = &sum});
    assert_true(isnan(sum));
    free(x);
}

static uint64_t digest(const void *x, int64_t bytes, uint64_t index0)
{
    uint64_t sum = 0;
    run(K_DIGEST, &(kernel_digest_args){.bytes = bytes, .x = x, .index0 = index0, .digest = &sum});
    return sum;
}

static void the_digest_does_not_depend_on_the_division_and_sees_every_bit(void **state)
{
    (void)state;
    float *x = harness_random(COUNT, 1);
    uint64_t all = digest(x, 4 * COUNT, 0);
    assert_true(all == digest(x, 40, 0) + digest(x + 10, 4 * COUNT - 40, 10));
    // splitmix64's finaliser of 1, whose published first output for state 0 is mix64(golden gamma)
    uint32_t golden[2] = {0x7f4a7c15u, 0};
    assert_true(digest(golden, 4, 0x9E3779B9u) == 0xE220A8397B1DCDAFu);
    uint16_t half = 0x7c15;
    uint32_t same = 0x7c15;
    assert_true(digest(&half, 2, 5) == digest(&same, 4, 5));
    uint32_t bits;
    memcpy(&bits, &x[17], 4);
    bits ^= 1;
    memcpy(&x[17], &bits, 4);
    assert_true(all != digest(x, 4 * COUNT, 0));
    free(x);
}

static void swapped_elements_change_the_digest(void **state)
{
    (void)state;
    float ab[2] = {1, 2}, ba[2] = {2, 1};
    assert_true(digest(ab, 8, 0) != digest(ba, 8, 0));
}

// ---- conversions, sums of tensors, zeroing ----

static void conversions_round_to_nearest_even(void **state)
{
    (void)state;
    float x[4] = {1.00390625f, 1.01171875f, -3.5f, 65504}, back[4]; // two ties of bf16
    uint16_t low[4];
    run(K_CONVERT, &(kernel_convert_args){
                       .count = 4, .src = x, .dst = low, .src_type = F32, .dst_type = BF16});
    assert_int_equal(low[0], 0x3f80);
    assert_int_equal(low[1], 0x3f82);
    run(K_CONVERT, &(kernel_convert_args){
                       .count = 4, .src = low, .dst = back, .src_type = BF16, .dst_type = F32});
    assert_true(back[2] == -3.5f);
    run(K_CONVERT,
        &(kernel_convert_args){.count = 4, .src = x, .dst = low, .src_type = F32, .dst_type = F16});
    run(K_CONVERT, &(kernel_convert_args){
                       .count = 4, .src = low, .dst = back, .src_type = F16, .dst_type = F32});
    assert_true(back[2] == -3.5f && back[3] == 65504);
}

static void add_and_fill(void **state)
{
    (void)state;
    float a[2] = {1, 2}, b[2] = {10, 20}, y[2];
    run(K_ADD, &(kernel_add_args){.count = 2, .a = a, .b = b, .y = y, .alpha = 2, .beta = 0.5f});
    assert_true(y[0] == 7 && y[1] == 14);
    run(K_ADD, &(kernel_add_args){.count = 2, .a = y, .y = y, .alpha = -1}); // in place
    assert_true(y[0] == -7 && y[1] == -14);
    run(K_FILL, &(kernel_fill_args){y, 4});
    assert_true(y[0] == 0 && y[1] == -14);
}

// ---- flags ----

static void gradients_are_added_only_with_accumulate(void **state)
{
    (void)state;
    float x[6] = {1, 2, 4, 3, 1, 0}, dy[6] = {1, 1, 2, -1, 0, 1}, gain[3] = {1, 2, 3};
    float rstd[2] = {0.5f, 0.25f}, once[6] = {9, 9, 9, 9, 9, 9}, twice[6] = {0};
    float dgain[3] = {7, 7, 7}, dgain_twice[3] = {0};
    kernel_norm_grad_args p = {.rows = 2,
                               .cols = 3,
                               .dy = dy,
                               .x = x,
                               .gain = gain,
                               .rstd = rstd,
                               .dx = once,
                               .dgain = dgain,
                               .is_rms = true};
    run(K_NORM_GRAD, &p);
    p.dx = twice, p.dgain = dgain_twice, p.accumulate_dx = p.accumulate_dgain = true;
    run(K_NORM_GRAD, &p);
    run(K_NORM_GRAD, &p);
    for (int i = 0; i < 6; i++) assert_true(fabsf(twice[i] - 2 * once[i]) < 1e-6f);
    for (int i = 0; i < 3; i++) assert_true(fabsf(dgain_twice[i] - 2 * dgain[i]) < 1e-6f);
    float db[3] = {5, 5, 5};
    run(K_BIAS_GRAD,
        &(kernel_bias_grad_args){
            .rows = 2, .cols = 3, .dy = dy, .db = db, .type = F32, .accumulate = true});
    assert_true(db[0] == 5 && db[1] == 6 && db[2] == 8);
    run(K_BIAS_GRAD,
        &(kernel_bias_grad_args){.rows = 2, .cols = 3, .dy = dy, .db = db, .type = F32});
    assert_true(db[0] == 0 && db[1] == 1 && db[2] == 3);
}

static void the_embedding_gradient_is_added_to_the_old_one(void **state)
{
    (void)state;
    int32_t ids[2] = {1, 1}, sorted[4];
    context.workspace = sorted;
    float dy[2] = {1, 2}, tokens[2] = {5, 5}, positions[2] = {7, 7};
    kernel_embedding_grad_args p = {.rows = 2,
                                    .row_tokens = kernel_tokens_from(2, 0),
                                    .cols = 1,
                                    .vocab = 2,
                                    .max_seq = 2,
                                    .ids = ids,
                                    .dy = dy,
                                    .d_tokens = tokens,
                                    .d_positions = positions,
                                    .scale = 1,
                                    .accumulate_tokens = true};
    run(K_EMBEDDING_GRAD, &p);
    assert_true(tokens[0] == 5 && tokens[1] == 8 && positions[0] == 1 && positions[1] == 2);
    p.d_tokens = NULL;
    run(K_EMBEDDING_GRAD, &p);
    assert_true(positions[0] == 1 && positions[1] == 2);
}

static void ignored_labels_add_nothing(void **state)
{
    (void)state;
    float logits[6] = {1, 2, 3, 0, 0, 0};
    int32_t labels[2] = {-100, 2};
    double sum = 1, count = 1;
    run(K_CROSS_ENTROPY, &(kernel_cross_entropy_args){.rows = 2,
                                                      .cols = 3,
                                                      .logits = logits,
                                                      .labels = labels,
                                                      .loss_sum = &sum,
                                                      .count = &count,
                                                      .scale = 1,
                                                      .ignore = -100,
                                                      .gradient = true});
    assert_true(fabs(sum - (1 + log(3))) < 1e-12 && count == 2);
    assert_true(logits[0] == 0 && logits[1] == 0 && logits[2] == 0);
    assert_true(fabsf(logits[5] + 2.0f / 3) < 1e-6f);
}

// The last query alone, against the keys of earlier tokens, as in decoding.
static void attention_of_the_last_query_equals_that_among_all(void **state)
{
    (void)state;
    enum { T = 6, D = 4 };
    float *q = harness_random(T * D, 1), *k = harness_random(T * D, 2),
          *v = harness_random(T * D, 3);
    float all[T * D], last[D], lse[T], lse_last[1];
    kernel_attention_args p = {.batch = 1,
                               .queries = kernel_tokens_from(T, 0),
                               .tk = T,
                               .heads = 1,
                               .kv_heads = 1,
                               .head_dim = D,
                               .q_stride = D,
                               .k_stride = D,
                               .v_stride = D,
                               .o_stride = D,
                               .q = q,
                               .k = k,
                               .v = v,
                               .o = all,
                               .lse = lse,
                               .scale = 0.5f,
                               .causal = true};
    run(K_ATTENTION, &p);
    assert_memory_equal(all, v, sizeof(float) * D); // the first query sees one key
    p.queries = kernel_tokens_from(1, T - 1), p.q = q + (T - 1) * D, p.o = last, p.lse = lse_last;
    run(K_ATTENTION, &p);
    assert_memory_equal(last, all + (T - 1) * D, sizeof last);
    assert_true(lse[T - 1] == lse_last[0]);
    free(q), free(k), free(v);
}

// Two documents in a sequence give what two sequences give.
static void documents_of_a_sequence_equal_sequences(void **state)
{
    (void)state;
    enum { T = 6, D = 4, FIRST = 2 };
    static const int32_t STARTS[T] = {0, 0, FIRST, FIRST, FIRST, FIRST};
    float *qkv = harness_random(3 * T * D, 1), *table = harness_random(T * D, 2);
    float *rotated = malloc(sizeof(float) * 3 * T * D);
    float packed[T * D], apart[T * D], lse[T];
    kernel_attention_args p = {.batch = 1,
                               .queries = kernel_tokens_from(T, 0),
                               .tk = T,
                               .heads = 1,
                               .kv_heads = 1,
                               .head_dim = D,
                               .q_stride = 3 * D,
                               .k_stride = 3 * D,
                               .v_stride = 3 * D,
                               .o_stride = D,
                               .q = qkv,
                               .k = qkv + D,
                               .v = qkv + 2 * D,
                               .o = packed,
                               .lse = lse,
                               .scale = 0.5f,
                               .causal = true};
    kernel_rope_args rope = {.rows = T,
                             .row_tokens = p.queries,
                             .heads = 2,
                             .head_dim = D,
                             .rot = D,
                             .stride = 3 * D,
                             .table = table};
    p.queries.documents = rope.row_tokens.documents = STARTS;
    memcpy(rotated, qkv, sizeof(float) * 3 * T * D);
    rope.x = rotated;
    run(K_ROPE, &rope);
    run(K_ATTENTION, &p);
    for (int i = 0; i < 2; i++) {
        const int first = i ? FIRST : 0, count = i ? T - FIRST : FIRST;
        kernel_attention_args a = p;
        kernel_rope_args r = rope;
        a.tk = count, a.queries = r.row_tokens = kernel_tokens_from(count, 0);
        a.q = qkv + first * 3 * D, a.k = qkv + first * 3 * D + D, a.v = qkv + first * 3 * D + 2 * D;
        a.o = apart + first * D;
        run(K_ATTENTION, &a);
        r.rows = count, r.x = qkv + first * 3 * D;
        run(K_ROPE, &r);
    }
    assert_memory_equal(packed, apart, sizeof packed);
    assert_memory_equal(rotated, qkv, sizeof(float) * 3 * T * D);
    free(qkv), free(table), free(rotated);
}

// The values are PyTorch's, in double: cross_entropy(2 * tanh(0.7 * x / 2), [2, 1], reduction='sum') and its gradient.
static void capped_logits_give_the_loss_of_torch(void **state)
{
    (void)state;
    float x[] = {1, -2, 3, 0.5f, 4, 0, -1, 2};
    const float want[] = {0.143996290f, 0.015702786f,  -0.118294540f, 0.113648977f,
                          0.082809796f, -0.634789901f, 0.029511663f,  0.138630130f};
    const int32_t labels[] = {2, 1};
    double loss = 0;
    run(K_CROSS_ENTROPY, &(kernel_cross_entropy_args){.rows = 2,
                                                      .cols = 4,
                                                      .logits = x,
                                                      .labels = labels,
                                                      .loss_sum = &loss,
                                                      .scale = 0.7f,
                                                      .softcap = 2,
                                                      .ignore = -100,
                                                      .gradient = true});
    assert_true(fabs(loss - 2.943819412856951) < 1e-6);
    for (int i = 0; i < 8; i++) assert_true(fabsf(x[i] - want[i]) < 1e-6f);
}

// The values are those of transformers' rotation of Cohere, in double, of the first 4 columns by angles 0.9 and 0.3.
static void neighbours_are_rotated_as_in_transformers(void **state)
{
    (void)state;
    float x[] = {0.5f, -1, 2, 3, 7};
    const float want[] = {1.094131894f, -0.229946513f, 1.024112358f, 3.457049881f, 7};
    const float table[] = {cosf(0.9f), sinf(0.9f), cosf(0.3f), sinf(0.3f)};
    kernel_rope_args p = {.rows = 1,
                          .row_tokens = kernel_tokens_from(1, 0),
                          .heads = 1,
                          .head_dim = 5,
                          .rot = 4,
                          .stride = 5,
                          .x = x,
                          .table = table,
                          .interleaved = true};
    run(K_ROPE, &p);
    for (int i = 0; i < 5; i++) assert_true(fabsf(x[i] - want[i]) < 1e-6f);
}

static int setup(void **state)
{
    (void)state;
    context = harness_open(1);
    ref_kernels_fill(&kernels);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cpu_context_close(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_rules_are_their_formulas),
        cmocka_unit_test(sgd_without_momentum_needs_no_state),
        cmocka_unit_test(dropout_keeps_the_right_share_and_depends_on_position_only),
        cmocka_unit_test(sum_of_squares_adds_in_double_and_keeps_nan),
        cmocka_unit_test(the_digest_does_not_depend_on_the_division_and_sees_every_bit),
        cmocka_unit_test(swapped_elements_change_the_digest),
        cmocka_unit_test(conversions_round_to_nearest_even),
        cmocka_unit_test(add_and_fill),
        cmocka_unit_test(gradients_are_added_only_with_accumulate),
        cmocka_unit_test(the_embedding_gradient_is_added_to_the_old_one),
        cmocka_unit_test(ignored_labels_add_nothing),
        cmocka_unit_test(capped_logits_give_the_loss_of_torch),
        cmocka_unit_test(neighbours_are_rotated_as_in_transformers),
        cmocka_unit_test(attention_of_the_last_query_equals_that_among_all),
        cmocka_unit_test(documents_of_a_sequence_equal_sequences),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
