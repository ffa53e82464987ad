// vec_xielu.c -- vector form of xIELU, with its gradients. The sums of the two numbers' gradients are taken in chunks of
// elements that depend on the count only, and then added in order, so they do not depend on the number of threads.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec.h"
#include "device/cpu/vec_math.h"

#include <math.h>

enum { XIELU_CHUNKS = 256, XIELU_RUN = 4096 }; // chunks at most; elements that are summed in fp32

// The numbers of a call, as the specification names them.
typedef struct vec_xielu {
    vf a, b, beta, eps;
} vec_xielu;

static float number_of(const void *number, dtype type)
{
    float out;
    dtype_convert(&out, F32, number, type, 1);
    return out;
}

static vec_xielu numbers_of(const kernel_xielu_args *p)
{
    const float beta = number_of(p->beta, p->type), a = number_of(p->alpha_p, p->type),
                b = number_of(p->alpha_n, p->type);
    return (vec_xielu){.a = v_set(a > 30 ? a : log1pf(expf(a))),
                       .b = v_set(beta + (b > 30 ? b : log1pf(expf(b)))),
                       .beta = v_set(beta),
                       .eps = v_set(number_of(p->eps, p->type))};
}

// e^x - 1 - x for x <= 0, without a difference of nearly equal numbers.
VEC_INLINE vf curve(vf x)
{
    vf p = v_set(1 / 40320.0f);
    p = p * x + v_set(1 / 5040.0f);
    p = p * x + v_set(1 / 720.0f);
    p = p * x + v_set(1 / 120.0f);
    p = p * x + v_set(1 / 24.0f);
    p = p * x + v_set(1 / 6.0f);
    p = p * x + v_set(0.5f);
    const vf large = v_exp_negative(x) - v_set(1) - x;
    return v_pick(v_less(x, v_set(-0.5f)), large, x * x * p);
}

// n(x) of the specification. *low is min(x, eps, 0).
VEC_INLINE vf bend(const vec_xielu *n, vf x, vf *low)
{
    *low = v_min(v_min(n->eps, v_zero()), x);
    return curve(*low) + (*low - x);
}

VEC_INLINE void xielu_range(const kernel_xielu_args *p, int64_t first, int64_t last, dtype type)
{
    const vec_xielu n = numbers_of(p);
#define APPLY(i, count)                                                                            \
    do {                                                                                           \
        vf low, x = v_load_n(p->x, i, count, type);                                                \
        vf bent = v_pick(v_less(v_zero(), x), n.a * x * x, n.b * bend(&n, x, &low));               \
        v_store_n(p->y, i, count, type, n.beta *x + bent);                                         \
    } while (0)
    V_EACH(i, first, last, APPLY);
#undef APPLY
}

static void xielu_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                       int thread)
{
    (void)x, (void)thread;
    const kernel_xielu_args *p = args;
#define CALL(type) xielu_range(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(xielu)(const cpu_context *x, const void *args)
{
    const kernel_xielu_args *p = args;
    VEC(share)(x, p, p->count, VEC_WORTH, xielu_part);
}

// dx of some elements. Adds their summands of d_alpha_p and of d_alpha_n to sum.
VEC_INLINE void grad_range(const kernel_xielu_args *p, int64_t first, int64_t last, double sum[2],
                           dtype type)
{
    const vec_xielu n = numbers_of(p);
    vf above = v_zero(), below = v_zero();
#define GRAD(i, count)                                                                             \
    do {                                                                                           \
        vf low, x = v_load_n(p->x, i, count, type), dy = v_load_n(p->dy, i, count, type);          \
        vf bent = bend(&n, x, &low);                                                               \
        const vmask positive = v_less(v_zero(), x), curved = v_less(x, n.eps);                     \
        vf slope = n.b * v_pick(curved, bent + x, v_set(-1));                                      \
        slope = n.beta + v_pick(positive, (n.a + n.a) * x, slope);                                 \
        above += v_pick(positive, dy * x * x, v_zero());                                           \
        below += v_pick(positive, v_zero(), dy * bent);                                            \
        if (p->y) v_store_n(p->y, i, count, type, slope *dy);                                      \
    } while (0)
    V_EACH(i, first, last, GRAD);
#undef GRAD
    sum[0] += (double)v_sum(above), sum[1] += (double)v_sum(below);
}

static int64_t chunk_elements(const kernel_xielu_args *p)
{
    const int64_t even = size_ceil_div(p->count, XIELU_CHUNKS);
    return size_max(XIELU_RUN, size_ceil_div(even, XIELU_RUN) * XIELU_RUN);
}

static void grad_chunks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)thread;
    const kernel_xielu_args *p = args;
    for (int64_t chunk = first; chunk < last; chunk++) {
        double *sum = (double *)x->shared + 2 * chunk;
        const int64_t end = size_min((chunk + 1) * chunk_elements(p), p->count);
        sum[0] = sum[1] = 0;
        for (int64_t i = chunk * chunk_elements(p); i < end; i += XIELU_RUN) {
#define CALL(type) grad_range(p, i, size_min(i + XIELU_RUN, end), sum, type)
            V_BY_TYPE(p->type, CALL);
#undef CALL
        }
    }
}

static void add_sum(float *to, float alpha, double sum, bool accumulate)
{
    if (to) *to = (float)((accumulate ? (double)*to : 0) + sum / (1 + exp(-(double)alpha)));
}

void VEC(xielu_grad)(const cpu_context *x, const void *args)
{
    const kernel_xielu_args *p = args;
    const int64_t chunks = size_ceil_div(p->count, chunk_elements(p));
    const double *sums = (const double *)x->shared;
    double above = 0, below = 0;
    VEC(share)(x, p, chunks, 1, grad_chunks);
    for (int64_t i = 0; i < chunks; i++) above += sums[2 * i], below += sums[2 * i + 1];
    add_sum(p->d_alpha_p, number_of(p->alpha_p, p->type), above, p->accumulate_d_alpha_p);
    add_sum(p->d_alpha_n, number_of(p->alpha_n, p->type), below, p->accumulate_d_alpha_n);
}
