// vec_activation.c -- vector form of activations and gated activations, with their gradients.
#include "device/cpu/cpu_products.h"
#include "device/cpu/vec.h"
#include "device/cpu/vec_math.h"

static const float gelu_cubic = 0.044715f;
static const float two_root_two_over_pi = 1.5957691216f; // 2 sqrt(2/pi)

// Returns f(x) and sets *slope = f'(x) unless slope is NULL. GELU by tanh is x times the logistic
// function of 2u, where u is the argument of the tanh.
VEC_INLINE vf activate(kernel_activation act, vf x, vf *slope)
{
    vf one = v_set(1), left;
    switch (act) {
    case ACT_GELU: {
        vf below = v_normal(x, &left);
        if (slope) *slope = below + x * left;
        return x * below;
    }
    case ACT_GELU_TANH: {
        vf square = x * x;
        vf s =
            v_logistic(v_set(two_root_two_over_pi) * (x + v_set(gelu_cubic) * square * x), &left);
        vf inner = v_set(two_root_two_over_pi) * (one + v_set(3 * gelu_cubic) * square);
        if (slope) *slope = s + x * s * left * inner;
        return x * s;
    }
    case ACT_RELU: {
        vmask positive = v_less(v_zero(), x);
        vf flat = x * v_zero(); // keeps NaN
        if (slope) *slope = v_pick(positive, one, flat);
        return v_pick(positive, x, flat);
    }
    case ACT_RELU2: {
        vmask positive = v_less(v_zero(), x);
        vf flat = x * v_zero();
        if (slope) *slope = v_pick(positive, x + x, flat);
        return v_pick(positive, x * x, flat);
    }
    case ACT_SILU: {
        vf s = v_logistic(x, &left);
        if (slope) *slope = s * (one + x * left);
        return x * s;
    }
    default: { // ACT_TANH
        vf t = v_tanh(x);
        if (slope) *slope = one - t * t;
        return t;
    }
    }
}

// CALL(act, type) with the constants that `act` and `type` are equal to.
#define BY_ACTIVATION(act, type, CALL)                                                             \
    do {                                                                                           \
        if ((act) == ACT_GELU) CALL(ACT_GELU, type);                                               \
        if ((act) == ACT_GELU_TANH) CALL(ACT_GELU_TANH, type);                                     \
        if ((act) == ACT_RELU) CALL(ACT_RELU, type);                                               \
        if ((act) == ACT_RELU2) CALL(ACT_RELU2, type);                                             \
        if ((act) == ACT_SILU) CALL(ACT_SILU, type);                                               \
        if ((act) == ACT_TANH) CALL(ACT_TANH, type);                                               \
    } while (0)
#define BY_KIND(act, type, CALL)                                                                   \
    do {                                                                                           \
        if ((type) == F32) BY_ACTIVATION(act, F32, CALL);                                          \
        if ((type) == BF16) BY_ACTIVATION(act, BF16, CALL);                                        \
        if ((type) == F16) BY_ACTIVATION(act, F16, CALL);                                          \
    } while (0)

VEC_INLINE void activation_range(const kernel_activation_args *p, int64_t first, int64_t last,
                                 kernel_activation act, dtype type)
{
#define APPLY(i, n) v_store_n(p->y, i, n, type, activate(act, v_load_n(p->x, i, n, type), NULL))
    V_EACH(i, first, last, APPLY);
#undef APPLY
}

VEC_INLINE void activation_grad_range(const kernel_activation_args *p, int64_t first, int64_t last,
                                      kernel_activation act, dtype type)
{
#define APPLY_GRAD(i, n)                                                                           \
    do {                                                                                           \
        vf slope;                                                                                  \
        activate(act, v_load_n(p->x, i, n, type), &slope);                                         \
        v_store_n(p->y, i, n, type, slope *v_load_n(p->dy, i, n, type));                           \
    } while (0)
    V_EACH(i, first, last, APPLY_GRAD);
#undef APPLY_GRAD
}

// Products call the two parts, too: one machine code gives one result.
void VEC(activation_part)(const cpu_context *x, const void *args, int64_t first, int64_t last,
                          int thread)
{
    (void)x, (void)thread;
    const kernel_activation_args *p = args;
#define CALL(act, type) activation_range(p, first, last, act, type)
    BY_KIND(p->act, p->type, CALL);
#undef CALL
}

void VEC(activation_grad_part)(const cpu_context *x, const void *args, int64_t first, int64_t last,
                               int thread)
{
    (void)x, (void)thread;
    const kernel_activation_args *p = args;
#define CALL(act, type) activation_grad_range(p, first, last, act, type)
    BY_KIND(p->act, p->type, CALL);
#undef CALL
}

void VEC(activation)(const cpu_context *x, const void *args)
{
    const kernel_activation_args *p = args;
    VEC(share)(x, p, p->count, VEC_WORTH, VEC(activation_part));
}

void VEC(activation_grad)(const cpu_context *x, const void *args)
{
    const kernel_activation_args *p = args;
    VEC(share)(x, p, p->count, VEC_WORTH, VEC(activation_grad_part));
}

VEC_INLINE void glu_rows(const kernel_glu_args *p, int64_t first, int64_t last,
                         kernel_activation act, dtype type)
{
    for (int64_t r = first; r < last; r++) {
        const void *gate = vec_at(p->x, 2 * r * p->cols, type);
        const void *up = vec_at(gate, p->cols, type);
        void *y = vec_at(p->y, r * p->cols, type);
#define GLU(c, n)                                                                                  \
    v_store_n(y, c, n, type,                                                                       \
              activate(act, v_load_n(gate, c, n, type), NULL) * v_load_n(up, c, n, type))
        V_EACH(c, 0, p->cols, GLU);
#undef GLU
    }
}

VEC_INLINE void glu_grad_rows(const kernel_glu_args *p, int64_t first, int64_t last,
                              kernel_activation act, dtype type)
{
    for (int64_t r = first; r < last; r++) {
        const void *gate = vec_at(p->x, 2 * r * p->cols, type), *up = vec_at(gate, p->cols, type);
        void *d_gate = vec_at(p->y, 2 * r * p->cols, type), *d_up = vec_at(d_gate, p->cols, type);
        const void *dy = vec_at(p->dy, r * p->cols, type);
#define GLU_GRAD(c, n)                                                                             \
    do {                                                                                           \
        vf slope, d = v_load_n(dy, c, n, type), u = v_load_n(up, c, n, type);                      \
        vf f = activate(act, v_load_n(gate, c, n, type), &slope);                                  \
        v_store_n(d_gate, c, n, type, d *u *slope);                                                \
        v_store_n(d_up, c, n, type, d *f);                                                         \
    } while (0)
        V_EACH(c, 0, p->cols, GLU_GRAD);
#undef GLU_GRAD
    }
}

static void glu_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                     int thread)
{
    (void)x, (void)thread;
    const kernel_glu_args *p = args;
#define CALL(act, type) glu_rows(p, first, last, act, type)
    BY_KIND(p->act, p->type, CALL);
#undef CALL
}

static void glu_grad_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                          int thread)
{
    (void)x, (void)thread;
    const kernel_glu_args *p = args;
#define CALL(act, type) glu_grad_rows(p, first, last, act, type)
    BY_KIND(p->act, p->type, CALL);
#undef CALL
}

void VEC(glu)(const cpu_context *x, const void *args)
{
    const kernel_glu_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), glu_part);
}

void VEC(glu_grad)(const cpu_context *x, const void *args)
{
    const kernel_glu_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), glu_grad_part);
}
