// ref_xielu.c -- reference of xIELU, with its gradients. Sums are taken in double.
#include "device/cpu/ref/ref.h"

#include <math.h>

static double number_of(const void *number, const kernel_xielu_args *p)
{
    return ref_load(number, 0, p->type);
}

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

// n(x) of the specification.
static double bend(const kernel_xielu_args *p, double x)
{
    const double eps = number_of(p->eps, p);
    return expm1(x < eps ? x : eps) - x;
}

void ref_xielu(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_xielu_args *p = args;
    const double beta = number_of(p->beta, p), a = softplus(number_of(p->alpha_p, p)),
                 b = beta + softplus(number_of(p->alpha_n, p));
    for (int64_t i = 0; i < p->count; i++) {
        const double v = ref_load(p->x, i, p->type);
        ref_store(p->y, i, p->type, (float)(beta * v + (v > 0 ? a * v * v : b * bend(p, v))));
    }
}

static void add_sum(float *to, const void *alpha, const kernel_xielu_args *p, double sum,
                    bool accumulate)
{
    if (to) *to = (float)((accumulate ? *to : 0) + sum / (1 + exp(-number_of(alpha, p))));
}

void ref_xielu_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_xielu_args *p = args;
    const double beta = number_of(p->beta, p), eps = number_of(p->eps, p),
                 a = softplus(number_of(p->alpha_p, p)),
                 b = beta + softplus(number_of(p->alpha_n, p));
    double above = 0, below = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const double v = ref_load(p->x, i, p->type), dy = ref_load(p->dy, i, p->type);
        const double slope = beta + (v > 0 ? 2 * a * v : b * (v < eps ? expm1(v) : -1));
        if (v > 0)
            above += dy * v * v;
        else
            below += dy * bend(p, v);
        if (p->y) ref_store(p->y, i, p->type, (float)(slope * dy));
    }
    add_sum(p->d_alpha_p, p->alpha_p, p, above, p->accumulate_d_alpha_p);
    add_sum(p->d_alpha_n, p->alpha_n, p, below, p->accumulate_d_alpha_n);
}
