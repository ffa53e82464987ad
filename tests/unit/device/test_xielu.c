// test_xielu.c -- xIELU: values and gradients of the reference are those of transformers, its gradients equal central
// differences, and the vector forms equal the reference with any number of threads.
#include "unit/device/gradient_check.h"
#include "vec_check.h"

// ---- The reference

// Values of XIELUActivation of transformers 5.24 in fp32.
static void values_are_those_of_transformers(void **state)
{
    (void)state;
    enum { N = 10 };
    const float alpha_p = 0.3f, alpha_n = -0.7f, beta = 0.5f, eps = -0.01f;
    const float x[N] = {-30, -2, -0.6f, -0.4f, -0.02f, -0.005f, 0, 1e-3f, 0.7f, 5},
                dy[N] = {1, -2, 3, -1, 2, 1, -3, 2, 1, -0.5f};
    const float y[N] = {11.192396f,   0.025418997f,  -0.16559541f,   -0.13648793f, -0.009820561f,
                        -0.00697092f, -0.008986851f, 0.00050085440f, 0.76863408f,  23.858881f},
                dx[N] = {-0.40318608f, 0.56190634f, 0.27747881f, -0.20223767f, 0.96423149f,
                         -0.40318608f, 1.2095582f,  1.0034175f,  1.6960974f,   -4.5217762f};
    float got[N], d_alpha_p = 1, d_alpha_n = 1;
    kernel_xielu_args p = {.count = N,
                           .x = x,
                           .dy = dy,
                           .alpha_p = &alpha_p,
                           .alpha_n = &alpha_n,
                           .beta = &beta,
                           .eps = &eps,
                           .y = got,
                           .d_alpha_p = &d_alpha_p,
                           .d_alpha_n = &d_alpha_n,
                           .accumulate_d_alpha_n = true};
    run(K_XIELU, &p);
    for (int i = 0; i < N; i++) assert_true(fabsf(got[i] - y[i]) <= 2e-6f * fabsf(y[i]) + 1e-7f);
    run(K_XIELU_GRAD, &p);
    for (int i = 0; i < N; i++) assert_true(fabsf(got[i] - dx[i]) <= 2e-6f * fabsf(dx[i]));
    assert_true(fabsf(d_alpha_p + 6.8990545f) < 1e-5f);
    assert_true(fabsf(d_alpha_n - 1 - 9.0023117f) < 1e-5f);
}

enum { COUNT = 60 };

typedef struct curved {
    kernel_xielu_args forward;
    const float *weight;
} curved;

static double curved_loss(void *op)
{
    curved *l = op;
    run(K_XIELU, &l->forward);
    return weighted(l->forward.y, l->weight, COUNT);
}

// No x is so near to zero that a step crosses it: there the slope jumps.
static void gradients(void **state)
{
    (void)state;
    float *x = harness_random(COUNT, 1), *y = harness_zeros(COUNT), *dy = harness_random(COUNT, 2);
    float *dx = harness_random(COUNT, 2), alpha_p = 0.3f, alpha_n = -0.7f, d_alpha_p, d_alpha_n;
    const float beta = 0.5f, eps = -1e-6f;
    for (int i = 0; i < COUNT; i++) x[i] += x[i] < 0 ? -0.3f : 0.3f;
    curved l = {{.count = COUNT,
                 .x = x,
                 .alpha_p = &alpha_p,
                 .alpha_n = &alpha_n,
                 .beta = &beta,
                 .eps = &eps,
                 .y = y},
                dy};
    kernel_xielu_args back = l.forward;
    back.dy = back.y = dx; // in place
    back.d_alpha_p = &d_alpha_p, back.d_alpha_n = &d_alpha_n;
    run(K_XIELU_GRAD, &back);
    assert_gradient(&(claim){curved_loss, &l, x, dx, COUNT});
    assert_gradient(&(claim){curved_loss, &l, &alpha_p, &d_alpha_p, 1});
    assert_gradient(&(claim){curved_loss, &l, &alpha_n, &d_alpha_n, 1});
    free(x), free(y), free(dy), free(dx);
}

// ---- The vector forms

typedef struct shape {
    int64_t count;
    dtype type;
    float scale;
    int variant;
} shape;

static void *number(space *s, dtype type, float value)
{
    void *p = space_random(s, 1, type, 1, NULL);
    dtype_convert(p, type, &value, F32, 1);
    return p;
}

static kernel_xielu_args fill(space *s, const shape *h)
{
    return (kernel_xielu_args){.count = h->count,
                               .x = space_random(s, h->count, h->type, h->scale, NULL),
                               .alpha_p = number(s, h->type, 0.3f),
                               .alpha_n = number(s, h->type, -0.7f),
                               .beta = number(s, h->type, 0.5f),
                               .eps = number(s, h->type, h->variant == 1 ? -0.125f : -1e-6f),
                               .type = h->type};
}

static kernel_call describe_xielu(space *s, const void *args)
{
    kernel_call c = {.kind = K_XIELU, .u.xielu = fill(s, args)};
    c.u.xielu.y = space_random(s, c.u.xielu.count, c.u.xielu.type, 1, "y");
    return c;
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_XIELU_GRAD, .u.xielu = fill(s, h)};
    kernel_xielu_args *p = &c.u.xielu;
    p->dy = space_random(s, h->count, h->type, 1, h->variant == 1 ? "dx" : NULL);
    if (h->variant == 1) p->y = (void *)(uintptr_t)p->dy;
    if (h->variant == 0) p->y = space_random(s, h->count, h->type, 1, "dx");
    if (h->variant != 1) p->d_alpha_p = space_random(s, 1, F32, 1, "d_alpha_p");
    p->d_alpha_n = space_random(s, 1, F32, 1, "d_alpha_n");
    p->accumulate_d_alpha_p = h->variant == 0, p->accumulate_d_alpha_n = h->variant != 0;
    return c;
}

static void vector_forms_equal_the_reference(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 7, 33, 1000, 4096, 70001};
    static const float scales[] = {1, 0.01f, 1, 4, 30, 1, 2};
    static const dtype types[] = {F32, BF16, F16};
    char text[64];
    for (int i = 0; i < 7; i++)
        for (int v = 0; v < 9; v++) {
            const shape h = {counts[i], types[v / 3], scales[i], v % 3};
            snprintf(text, sizeof text, "%ld %s variant %d", (long)h.count, dtype_name(h.type),
                     h.variant);
            check_kernel(describe_xielu, &h, text);
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
        cmocka_unit_test(values_are_those_of_transformers),
        cmocka_unit_test(gradients),
        cmocka_unit_test(vector_forms_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
