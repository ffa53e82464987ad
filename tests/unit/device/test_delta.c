// test_delta.c -- the gated delta rule and its gates: values of a small case, the gradients of the reference against
// central differences, and the vector forms, which work by chunks, against the recurrence. A sequence in pieces, which
// hand on their state, gives what the whole gives; documents do not see each other; a rank's rows are those of the whole.
#include "unit/device/gradient_check.h"
#include "vec_check.h"

// ---- The reference

enum { BATCH = 2, SEQ = 9, HEADS = 4, KEYS = 2, DK = 3, DV = 5, COLS = 2 * KEYS * DK + HEADS * DV };
enum { TOKENS = BATCH * SEQ };

typedef struct case_arrays {
    float *x, *gates, *o, *d_o, *dx, *d_gates;
} case_arrays;

// Gates as they are in a model: beta between 0 and 1, g below 0.
static void make_gates(float *gates, int64_t rows, int64_t heads)
{
    for (int64_t i = 0; i < rows * 2 * heads; i++) {
        const float u = gates[i] / 3.4641016f + 0.5f;
        gates[i] = i % (2 * heads) < heads ? u : -0.02f - 1.5f * u * u;
    }
}

static case_arrays make_arrays(void)
{
    case_arrays a = {.x = harness_random(TOKENS * COLS, 1),
                     .gates = harness_random(TOKENS * 2 * HEADS, 2),
                     .o = harness_zeros(TOKENS * HEADS * DV),
                     .d_o = harness_random(TOKENS * HEADS * DV, 3),
                     .dx = harness_random(TOKENS * COLS, 4),
                     .d_gates = harness_random(TOKENS * 2 * HEADS, 5)};
    make_gates(a.gates, TOKENS, HEADS);
    return a;
}

static void free_arrays(case_arrays *a)
{
    free(a->x), free(a->gates), free(a->o), free(a->d_o), free(a->dx), free(a->d_gates);
}

static kernel_delta_rule_args args_of(const case_arrays *a, kernel_tokens rows, bool normalize)
{
    return (kernel_delta_rule_args){.batch = BATCH,
                                    .heads = HEADS,
                                    .key_heads = KEYS,
                                    .key_dim = DK,
                                    .value_dim = DV,
                                    .rows = rows,
                                    .x = a->x,
                                    .gates = a->gates,
                                    .o = a->o,
                                    .scale = 0.7f,
                                    .eps = 1e-3f,
                                    .normalize = normalize};
}

typedef struct ruled {
    kernel_delta_rule_args forward;
    const float *weight;
} ruled;

static double rule_loss(void *op)
{
    ruled *l = op;
    run(K_DELTA_RULE, &l->forward);
    return weighted(l->forward.o, l->weight, BATCH * l->forward.rows.seq * HEADS * DV);
}

static void check_gradients(kernel_tokens rows, bool normalize)
{
    case_arrays a = make_arrays();
    ruled l = {args_of(&a, rows, normalize), a.d_o};
    kernel_delta_rule_grad_args back = {
        .fwd = l.forward, .d_o = a.d_o, .dx = a.dx, .d_gates = a.d_gates};
    run(K_DELTA_RULE_GRAD, &back);
    assert_gradient(&(claim){rule_loss, &l, a.x, a.dx, TOKENS * COLS});
    assert_gradient(&(claim){rule_loss, &l, a.gates, a.d_gates, TOKENS * 2 * HEADS});
    free_arrays(&a);
}

static void gradients(void **state)
{
    (void)state;
    const int32_t starts[TOKENS] = {0, 0, 0, 3, 3, 3, 3, 3, 8, 0, 1, 1, 1, 1, 1, 1, 1, 7};
    kernel_tokens documents = kernel_tokens_from(SEQ, 0);
    documents.documents = starts;
    check_gradients(kernel_tokens_from(SEQ, 0), false);
    check_gradients(kernel_tokens_from(SEQ, 0), true);
    check_gradients(documents, true);
    check_gradients((kernel_tokens){.seq = 4, .full_seq = SEQ, .chunk = 2, .start = {1, 6}}, true);
}

// One head of one column: S = exp(g) S, S += k beta (v - S k), o = scale S q.
static void values_are_those_of_the_recurrence(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, -1, 0.5f, 4}, gates[] = {0.5f, -1, 0.25f, -0.5f};
    float o[2], memory = 0;
    kernel_delta_rule_args p = {.batch = 1,
                                .heads = 1,
                                .key_heads = 1,
                                .key_dim = 1,
                                .value_dim = 1,
                                .rows = kernel_tokens_from(2, 0),
                                .x = x,
                                .gates = gates,
                                .o = o,
                                .state = &memory,
                                .scale = 2};
    run(K_DELTA_RULE, &p);
    const double first = 2 * 0.5 * 3, kept = first * exp(-0.5),
                 second = kept + 0.5 * 0.25 * (4 - kept * 0.5);
    assert_true(fabs(o[0] - 2 * first) < 1e-6 && fabs(o[1] + 2 * second) < 1e-6);
    assert_true(fabs(memory - second) < 1e-6);
}

typedef struct gated {
    kernel_delta_gates_args forward;
    const float *weight;
} gated;

static double gates_loss(void *op)
{
    gated *l = op;
    run(K_DELTA_GATES, &l->forward);
    return weighted(l->forward.gates, l->weight, TOKENS * 2 * HEADS);
}

static void gradients_of_gates(void **state)
{
    (void)state;
    const int64_t count = TOKENS * 2 * HEADS;
    float *x = harness_random(count, 1), *decay = harness_random(HEADS, 2),
          *bias = harness_random(HEADS, 3), *weight = harness_random(count, 4),
          *gates = harness_zeros(count), *dx = harness_zeros(count),
          *d_decay = harness_zeros(HEADS), *d_bias = harness_zeros(HEADS);
    gated l = {{.rows = TOKENS,
                .heads = HEADS,
                .x = x,
                .log_decay = decay,
                .a_bias = bias,
                .gates = gates},
               weight};
    gates_loss(&l);
    for (int h = 0; h < HEADS; h++) {
        const double want = -exp(decay[h]) * log1p(exp((double)x[HEADS + h] + bias[h]));
        assert_true(fabs(gates[h] - 1 / (1 + exp(-x[h]))) < 1e-6);
        assert_true(fabs(gates[HEADS + h] - want) < 1e-5 * (1 - want));
    }
    kernel_delta_gates_args back = l.forward;
    back.d_gates = weight, back.dx = dx, back.d_log_decay = d_decay, back.d_a_bias = d_bias;
    run(K_DELTA_GATES_GRAD, &back);
    assert_gradient(&(claim){gates_loss, &l, x, dx, count});
    assert_gradient(&(claim){gates_loss, &l, decay, d_decay, HEADS});
    assert_gradient(&(claim){gates_loss, &l, bias, d_bias, HEADS});
    free(x), free(decay), free(bias), free(weight), free(gates), free(dx), free(d_decay);
    free(d_bias);
}

// ---- Parts of a sequence, in every form

// Runs the kernel at a level with two threads.
static void run_at(cpu_level level, kernel_kind kind, const void *args, size_t bytes)
{
    kernel_call c = {.kind = kind};
    memcpy(&c.u, args, bytes);
    run_on(&vec_two, &c, level);
}

static void compare(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++) assert_true(fabsf(a[i] - b[i]) < 2e-5f);
}

enum { LONG = 150, LONG_COUNT = LONG * DV }; // tokens of one head

static kernel_delta_rule_args long_args(const float *x, const float *gates, float *o)
{
    return (kernel_delta_rule_args){.batch = 1,
                                    .heads = 1,
                                    .key_heads = 1,
                                    .key_dim = DK,
                                    .value_dim = DV,
                                    .rows = kernel_tokens_from(LONG, 0),
                                    .x = x,
                                    .gates = gates,
                                    .o = o,
                                    .scale = 1,
                                    .eps = 1e-6f,
                                    .normalize = true};
}

static void parts_give_what_the_whole_gives(void **state)
{
    (void)state;
    enum { X = 2 * DK + DV };
    cpu_features features;
    cpu_features_read(&features);
    float *x = harness_random(LONG * X, 1), *gates = harness_random(LONG * 2, 2);
    float whole[LONG_COUNT], parts[LONG_COUNT], memory[DK * DV];
    make_gates(gates, LONG, 1);
    for (cpu_level level = CPU_GENERIC; level <= features.best && level <= CPU_AVX512; level++) {
        kernel_delta_rule_args p = long_args(x, gates, whole);
        run_at(level, K_DELTA_RULE, &p, sizeof p);
        memset(memory, 0, sizeof memory);
        p.state = memory;
        for (int first = 0, count; first < LONG; first += count) { // 70 tokens, then one by one
            count = first == 0 ? 70 : 1;
            p.rows = kernel_tokens_from(count, first);
            p.x = x + first * X, p.gates = gates + first * 2, p.o = parts + first * DV;
            run_at(level, K_DELTA_RULE, &p, sizeof p);
        }
        compare(whole, parts, LONG_COUNT);
        // Documents: from tokens 3, 64 and 100 on.
        int32_t starts[LONG];
        const int begins[] = {0, 3, 64, 100, LONG};
        for (int t = 0; t < LONG; t++) starts[t] = t < 3 ? 0 : t < 64 ? 3 : t < 100 ? 64 : 100;
        p = long_args(x, gates, whole);
        p.rows.documents = starts;
        run_at(level, K_DELTA_RULE, &p, sizeof p);
        for (int i = 0; i < 4; i++) {
            p = long_args(x + begins[i] * X, gates + begins[i] * 2, parts + begins[i] * DV);
            p.rows = kernel_tokens_from(begins[i + 1] - begins[i], 0);
            run_at(level, K_DELTA_RULE, &p, sizeof p);
        }
        compare(whole, parts, LONG_COUNT);
    }
    free(x), free(gates);
}

// ---- The vector forms

typedef struct shape {
    int64_t batch, full_seq, heads, key_heads, key_dim, value_dim;
    dtype type;
    bool normalize, ranks, documents;
} shape;

static kernel_delta_rule_args describe_forward(space *s, const shape *h, const char *o)
{
    kernel_tokens rows = kernel_tokens_from(h->full_seq, 0);
    const int64_t part = h->full_seq / 4, count = h->batch * h->full_seq;
    if (h->ranks)
        rows = (kernel_tokens){
            .seq = 2 * part, .full_seq = h->full_seq, .chunk = part, .start = {part, 2 * part}};
    kernel_delta_rule_args p = {.batch = h->batch,
                                .heads = h->heads,
                                .key_heads = h->key_heads,
                                .key_dim = h->key_dim,
                                .value_dim = h->value_dim,
                                .rows = rows,
                                .scale = h->normalize ? 0.3f : 0.01f,
                                .eps = 1e-6f,
                                .normalize = h->normalize,
                                .type = h->type};
    // Keys that are not normalized are short, as a state would grow without bounds.
    p.x = space_random(s, count * kernel_delta_cols(&p), h->type, h->normalize ? 1 : 0.2f, NULL);
    float *gates = space_random(s, count * 2 * h->heads, F32, 1, NULL);
    make_gates(gates, count, h->heads);
    p.gates = gates;
    if (h->documents) {
        int32_t *start = space_ids(s, count, 100);
        for (int64_t r = 0; r < count; r++) {
            const int64_t t = r % h->full_seq;
            start[r] = t == 0 || start[r] == 0 ? (int32_t)t : start[r - 1];
        }
        p.rows.documents = start;
    }
    if (o) p.o = space_random(s, h->batch * rows.seq * h->heads * h->value_dim, h->type, 1, o);
    return p;
}

static kernel_call describe_rule(space *s, const void *args)
{
    return (kernel_call){.kind = K_DELTA_RULE, .u.delta_rule = describe_forward(s, args, "o")};
}

static kernel_call describe_with_state(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = describe_rule(s, args);
    c.u.delta_rule.state =
        space_random(s, h->batch * h->heads * h->key_dim * h->value_dim, F32, 1, "state");
    return c;
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_DELTA_RULE_GRAD};
    kernel_delta_rule_grad_args *p = &c.u.delta_rule_grad;
    const int64_t count = h->batch * h->full_seq;
    p->fwd = describe_forward(s, h, NULL);
    p->d_o =
        space_random(s, h->batch * p->fwd.rows.seq * h->heads * h->value_dim, h->type, 1, NULL);
    p->dx = space_random(s, count * kernel_delta_cols(&p->fwd), h->type, 1, "dx");
    p->d_gates = space_random(s, count * 2 * h->heads, F32, 1, "d_gates");
    return c;
}

static void vector_forms_equal_the_recurrence(void **state)
{
    (void)state;
    // Several value heads of a key head in fp32 only: the reference adds their gradients in the type of x.
    static const shape shapes[] = {
        {1, 1, 1, 1, 1, 1, F32, true, false, false},
        {1, 1, 4, 2, 16, 24, F32, true, false, false},
        {2, 5, 2, 1, 3, 7, F32, false, false, false},
        {1, 64, 1, 1, 16, 16, F32, true, false, false},
        {2, 65, 4, 2, 17, 9, F32, true, false, false},
        {1, 200, 2, 2, 33, 40, F32, true, false, true},
        {3, 132, 3, 1, 8, 20, F32, true, true, false},
        {40, 70, 1, 1, 4, 4, F32, true, false, true},
        {1, 150, 2, 2, 16, 32, BF16, true, false, false},
        {2, 80, 1, 1, 12, 16, F16, true, true, false},
        {1, 130, 1, 1, 64, 64, F32, true, false, false},
        {1, 300, 1, 1, 20, 256, F32, false, false, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *h = &shapes[i];
        char text[96];
        snprintf(text, sizeof text, "[%ld x %ld, %ld of %ld, %ld, %ld] %s", (long)h->batch,
                 (long)h->full_seq, (long)h->heads, (long)h->key_heads, (long)h->key_dim,
                 (long)h->value_dim, dtype_name(h->type));
        check_kernel(describe_rule, h, text);
        if (!h->documents) check_kernel(describe_with_state, h, text);
        check_kernel(describe_grad, h, text);
    }
}

static int open_both(void **state)
{
    gradient_open(state);
    return vec_open(state);
}

static int close_both(void **state)
{
    gradient_close(state);
    return vec_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_recurrence),
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_of_gates),
        cmocka_unit_test(parts_give_what_the_whole_gives),
        cmocka_unit_test(vector_forms_equal_the_recurrence),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
