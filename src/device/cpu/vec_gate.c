// vec_gate.c -- vector form of the gate of a value, with or without a norm, and of its gradients. Groups of columns are
// independent. The gradient of the gain is a sum over rows, taken in chunks of rows that depend on the shape only, and
// then added in order.
#include "device/cpu/vec_math.h"

#include <math.h>

enum { GATE_CHUNKS = 32 }; // at most

// f(g) and its slope.
VEC_INLINE vf gate_of(vf g, bool silu, vf *slope)
{
    vf left;
    const vf s = v_logistic(g, &left);
    *slope = s * left;
    if (!silu) return s;
    *slope = s + g * *slope;
    return g * s;
}

VEC_INLINE vf gain_of(const kernel_gate_args *p, int64_t c, int64_t n, dtype type)
{
    if (!p->gain) return v_set(1);
    return v_load_n(p->gain, c, n, type);
}

VEC_INLINE void gate_rows(const kernel_gate_args *p, int64_t first, int64_t last, dtype type)
{
    const int64_t cols = kernel_gate_group(p), groups = p->cols / cols;
    for (int64_t group = first * groups; group < last * groups; group++) {
        const void *x = vec_at(p->x, group * cols, type),
                   *gate = vec_at(p->gate, group * cols, type);
        void *y = vec_at(p->y, group * cols, type);
        vf square = v_zero(), slope, rstd = v_set(1);
#define SQUARE(c, n) square += v_load_n(x, c, n, type) * v_load_n(x, c, n, type)
        if (p->gain) {
            V_EACH(c, 0, cols, SQUARE);
            p->rstd[group] = 1 / sqrtf(v_sum(square) / (float)cols + p->eps);
            rstd = v_set(p->rstd[group]);
        }
#undef SQUARE
#define STORE(c, n)                                                                                \
    v_store_n(y, c, n, type,                                                                       \
              v_load_n(x, c, n, type) * rstd * gain_of(p, c, n, type) *                            \
                  gate_of(v_load_n(gate, c, n, type), p->silu, &slope))
        V_EACH(c, 0, cols, STORE);
#undef STORE
    }
}

static void gate_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_gate_args *p = args;
#define CALL(type) gate_rows(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(gate)(const cpu_context *x, const void *args)
{
    const kernel_gate_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(4 * p->cols), gate_part);
}

// The gradients of a group. Adds to the sums of the gain's gradient where there is a gain.
VEC_INLINE void grad_group(const kernel_gate_args *p, int64_t group, float *d_gain, dtype type)
{
    const int64_t cols = kernel_gate_group(p);
    const void *x = vec_at(p->x, group * cols, type), *gate = vec_at(p->gate, group * cols, type),
               *dy = vec_at(p->dy, group * cols, type);
    void *dx = vec_at(p->y, group * cols, type), *d_gate = vec_at(p->d_gate, group * cols, type);
    const vf rstd = v_set(p->gain ? p->rstd[group] : 1);
    vf slope, sum = v_zero(), mean = v_zero();
#define ADD(c, n)                                                                                  \
    do {                                                                                           \
        const vf f = gate_of(v_load_n(gate, c, n, type), p->silu, &slope),                         \
                 along = v_load_n(dy, c, n, type) * f * v_load_n(x, c, n, type) * rstd;            \
        v_store_n(d_gain, c, n, F32, v_load_n(d_gain, c, n, F32) + along);                         \
        sum += along * gain_of(p, c, n, type);                                                     \
    } while (0)
    if (p->gain) {
        V_EACH(c, 0, cols, ADD);
        mean = v_set(v_sum(sum) / (float)cols);
    }
#undef ADD
#define STORE(c, n)                                                                                \
    do {                                                                                           \
        const vf f = gate_of(v_load_n(gate, c, n, type), p->silu, &slope),                         \
                 d = v_load_n(dy, c, n, type) * gain_of(p, c, n, type),                            \
                 hat = v_load_n(x, c, n, type) * rstd;                                             \
        v_store_n(d_gate, c, n, type, d *hat *slope);                                              \
        v_store_n(dx, c, n, type, rstd *(d * f - hat * mean));                                     \
    } while (0)
    V_EACH(c, 0, cols, STORE);
#undef STORE
}

static int64_t chunk_rows(const kernel_gate_args *p)
{
    return size_max(size_ceil_div(p->rows, GATE_CHUNKS), 1 + VEC_WORTH / (1 + 4 * p->cols));
}

static void grad_chunks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)thread;
    const kernel_gate_args *p = args;
    const int64_t groups = p->cols / kernel_gate_group(p);
    for (int64_t i = first; i < last; i++) {
        float *d_gain = (float *)x->shared + i * p->head_dim;
        if (p->gain) memset(d_gain, 0, sizeof(float) * (size_t)p->head_dim);
        const int64_t from = i * chunk_rows(p), to = size_min(from + chunk_rows(p), p->rows);
        for (int64_t group = from * groups; group < to * groups; group++) {
#define CALL(type) grad_group(p, group, d_gain, type)
            V_BY_TYPE(p->type, CALL);
#undef CALL
        }
    }
}

void VEC(gate_grad)(const cpu_context *x, const void *args)
{
    const kernel_gate_args *p = args;
    const int64_t chunks = size_ceil_div(p->rows, chunk_rows(p));
    VEC(share)(x, p, chunks, 1, grad_chunks);
    for (int64_t c = 0; c < p->head_dim && p->d_gain; c++) {
        float sum = p->accumulate_d_gain ? p->d_gain[c] : 0;
        for (int64_t i = 0; i < chunks; i++) sum += ((const float *)x->shared)[i * p->head_dim + c];
        p->d_gain[c] = sum;
    }
}
