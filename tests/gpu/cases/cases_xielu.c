// cases_xielu.c -- cases of K_XIELU and K_XIELU_GRAD: from where they are nearly zero to large numbers, one piece and many,
// in place, and without some of the gradients.
#include "case.h"

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
    c.u.xielu.y = space_array_of(s, c.u.xielu.count, c.u.xielu.type, "y");
    return c;
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_XIELU_GRAD, .u.xielu = fill(s, h)};
    kernel_xielu_args *p = &c.u.xielu;
    const bool in_place = h->variant == 1;
    p->dy = space_random(s, h->count, h->type, 1, in_place ? "dx" : NULL);
    if (in_place)
        p->y = (void *)(uintptr_t)p->dy;
    else if (h->variant == 0)
        p->y = space_array_of(s, h->count, h->type, "dx");

    if (h->variant != 1) p->d_alpha_p = space_random(s, 1, F32, 1, "d_alpha_p");
    p->d_alpha_n = space_random(s, 1, F32, 1, "d_alpha_n");
    p->accumulate_d_alpha_p = h->variant == 0, p->accumulate_d_alpha_n = h->variant != 0;
    return c;
}

static void check(case_run *r, int64_t count, float scale)
{
    for (dtype type = F32; type <= F16; type++)
        for (int v = 0; v < 3; v++) {
            const shape h = {count, type, scale, v};
            case_check(r, describe_xielu, &h, "xielu of %lld %s, scale %g, variant %d",
                       (long long)count, dtype_name(type), scale, v);
            case_check(r, describe_grad, &h, "xielu_grad of %lld %s, scale %g, variant %d",
                       (long long)count, dtype_name(type), scale, v);
        }
}

void cases_run(case_run *r)
{
    check(r, 0, 1);
    check(r, 1, 1);
    check(r, 40, 0.01f);
    check(r, 1001, 4);
    check(r, 70001, 1);
    check(r, case_pick(r, 1, 3000), 2);
}
