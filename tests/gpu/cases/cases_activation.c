// cases_activation.c -- cases of K_ACTIVATION, K_ACTIVATION_GRAD, K_GLU and K_GLU_GRAD: every function, from
// where it is nearly zero to where it is nearly the identity.
#include "case.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type;
    kernel_activation act;
    float scale;
    bool grad, in_place;
} shape;

static kernel_call describe_activation(space *s, const void *args)
{
    const shape *h = args;
    kernel_activation_args a = {.count = h->cols, .act = h->act, .type = h->type};
    a.x = space_random(s, h->cols, h->type, h->scale, NULL);
    if (h->grad) a.dy = space_random(s, h->cols, h->type, 1, h->in_place ? "dx" : NULL);
    a.y = h->in_place ? (void *)(uintptr_t)a.dy : space_array_of(s, h->cols, h->type, "y");
    return (kernel_call){.kind = h->grad ? K_ACTIVATION_GRAD : K_ACTIVATION, .u.activation = a};
}

static kernel_call describe_glu(space *s, const void *args)
{
    const shape *h = args;
    kernel_glu_args a = {.rows = h->rows, .cols = h->cols, .act = h->act, .type = h->type};
    const int64_t count = h->rows * h->cols;
    a.x = space_random(s, 2 * count, h->type, h->scale, h->in_place ? "dx" : NULL);
    if (h->grad) a.dy = space_random(s, count, h->type, 1, NULL);
    a.y = h->in_place ? (void *)(uintptr_t)a.x
                      : space_array_of(s, h->grad ? 2 * count : count, h->type, "y");
    return (kernel_call){.kind = h->grad ? K_GLU_GRAD : K_GLU, .u.glu = a};
}

// Both kernels and their gradients on rows * cols elements.
static void check(case_run *r, int64_t rows, int64_t cols, kernel_activation act, float scale)
{
    for (dtype type = F32; type <= F16; type++)
        for (int i = 0; i < 3; i++) {
            shape h = {rows, rows * cols, type, act, scale, i > 0, i == 2};
            case_check(r, describe_activation, &h, "activation %d of %lld %s, scale %g, variant %d",
                       act, (long long)h.cols, dtype_name(type), scale, i);
            h.cols = cols;
            case_check(r, describe_glu, &h, "glu %d [%lld, %lld] %s, scale %g, variant %d", act,
                       (long long)rows, (long long)cols, dtype_name(type), scale, i);
        }
}

void cases_run(case_run *r)
{
    for (kernel_activation act = 0; act < ACTIVATIONS; act++) {
        check(r, 0, 8, act, 1);
        check(r, 1, 1, act, 1);
        check(r, 5, 8, act, 1);
        check(r, 3, 77, act, 0.01f);
        check(r, 9, 264, act, 3);
        check(r, 2, 1000, act, 40);
        check(r, case_pick(r, 1, 9), case_pick(r, 1, 900), act, 1);
    }
    check(r, 33, 8192, ACT_SILU, 2);
}
