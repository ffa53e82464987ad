// test_gate.c -- the gate of a value, with and without a norm: values against plain arithmetic, the gradients of the
// reference against central differences, and the vector forms against the reference.
#include "unit/device/gradient_check.h"
#include "vec_check.h"

enum { ROWS = 5, HEADS = 3, DIM = 6, COLS = HEADS * DIM, COUNT = ROWS * COLS };

typedef struct gated {
    kernel_gate_args forward;
    const float *weight;
} gated;

static double gate_loss(void *op)
{
    gated *l = op;
    run(K_GATE, &l->forward);
    return weighted(l->forward.y, l->weight, COUNT);
}

static void check_gradients(bool silu, bool norms)
{
    float *x = harness_random(COUNT, 1), *gate = harness_random(COUNT, 2),
          *gain = harness_random(DIM, 3), *y = harness_zeros(COUNT), *dy = harness_random(COUNT, 4),
          *dx = harness_random(COUNT, 4), *d_gate = harness_zeros(COUNT),
          *d_gain = harness_zeros(DIM), rstd[ROWS * HEADS];
    gated l = {{.rows = ROWS,
                .cols = COLS,
                .head_dim = DIM,
                .x = x,
                .gate = gate,
                .gain = norms ? gain : NULL,
                .y = y,
                .rstd = rstd,
                .eps = 1e-3f,
                .silu = silu},
               dy};
    gate_loss(&l);
    for (int i = 0; i < COUNT; i++) {
        const double s = 1 / (1 + exp(-gate[i])), n = norms ? rstd[i / DIM] * gain[i % DIM] : 1;
        assert_true(fabs(y[i] - (silu ? gate[i] * s : s) * x[i] * n) < 1e-5);
    }
    kernel_gate_args back = l.forward;
    back.dy = back.y = dx; // in place
    back.d_gate = d_gate, back.d_gain = norms ? d_gain : NULL;
    run(K_GATE_GRAD, &back);
    assert_gradient(&(claim){gate_loss, &l, x, dx, COUNT});
    assert_gradient(&(claim){gate_loss, &l, gate, d_gate, COUNT});
    if (norms) assert_gradient(&(claim){gate_loss, &l, gain, d_gain, DIM});
    free(x), free(gate), free(gain), free(y), free(dy), free(dx), free(d_gate), free(d_gain);
}

static void gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) check_gradients(i & 1, i & 2);
}

typedef struct shape {
    int64_t rows, heads, head_dim;
    dtype type;
    bool silu, norms, in_place;
} shape;

static kernel_gate_args describe(space *s, const shape *h, bool gradient)
{
    const int64_t count = h->rows * h->heads * h->head_dim;
    kernel_gate_args p = {.rows = h->rows,
                          .cols = h->heads * h->head_dim,
                          .head_dim = h->head_dim,
                          .eps = 1e-5f,
                          .silu = h->silu,
                          .type = h->type};
    p.x = space_random(s, count, h->type, 1, NULL);
    p.gate = space_random(s, count, h->type, 2, NULL);
    p.y = space_random(s, count, h->type, 1, gradient ? "dx" : "y");
    if (h->norms) p.gain = space_random(s, h->head_dim, h->type, 1, NULL);
    if (h->norms) p.rstd = space_random(s, h->rows * h->heads, F32, 1, gradient ? NULL : "rstd");
    if (!gradient) return p;
    p.dy = h->in_place ? p.y : space_random(s, count, h->type, 1, NULL);
    p.d_gate = space_random(s, count, h->type, 1, "d_gate");
    if (h->norms) p.d_gain = space_random(s, h->head_dim, F32, 1, "d_gain");
    p.accumulate_d_gain = h->in_place;
    return p;
}

static kernel_call describe_gate(space *s, const void *args)
{
    return (kernel_call){.kind = K_GATE, .u.gate = describe(s, args, false)};
}

static kernel_call describe_grad(space *s, const void *args)
{
    return (kernel_call){.kind = K_GATE_GRAD, .u.gate = describe(s, args, true)};
}

static void vector_forms_equal_the_reference(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {3, 2, 7}, {17, 4, 16}, {41, 3, 33}, {700, 2, 64}};
    static const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 5; i++)
        for (int v = 0; v < 3 * 8; v++) {
            const shape h = {sizes[i][0], sizes[i][1], sizes[i][2], types[v / 8],
                             v & 1,       v & 2,       v & 4};
            char text[96];
            snprintf(text, sizeof text, "[%ld, %ld x %ld] %s", (long)h.rows, (long)h.heads,
                     (long)h.head_dim, dtype_name(h.type));
            check_kernel(describe_gate, &h, text);
            check_kernel(describe_grad, &h, text);
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
        cmocka_unit_test(gradients),
        cmocka_unit_test(vector_forms_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
