// vec_qk_layer_norm.c -- vector form of the layer norms of queries and keys, with their gradients. Each head of a row is
// normed by itself. The gradients of the gains are sums over rows, taken in chunks of rows that depend on the shape only,
// and then added in order, so they do not depend on the number of threads. A file of its own keeps the machine code of
// RMS norms (vec_qk_norm.c), and with it their bits, apart.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec_qk_norm.h"

#include <math.h>

enum { LAYER_CHUNKS = 32 }; // at most

// The columns of queries and keys, each of which has a gain.
static int64_t normed_cols(const kernel_qk_norm_args *p)
{
    return (p->heads + p->kv_heads) * p->head_dim;
}

static int64_t row_cols(const kernel_qk_norm_args *p)
{
    return normed_cols(p) + p->kv_heads * p->head_dim;
}

static void copy_values(const kernel_qk_norm_args *p, const void *from, int64_t r)
{
    const int64_t i = r * row_cols(p) + normed_cols(p);
    if (p->y == from) return;
    memcpy(vec_at(p->y, i, p->type), vec_at(from, i, p->type),
           dtype_bytes(p->type) * (size_t)(p->kv_heads * p->head_dim));
}

// The gains of a head, from its first column on; NULL: 1.
static const void *gains_of(const kernel_qk_norm_args *p, int64_t head, dtype type)
{
    const void *gain = kernel_qk_norm_is_query(p, head) ? p->q_gain : p->k_gain;
    return gain ? vec_at(gain, kernel_qk_norm_gain(p, head), type) : NULL;
}

VEC_INLINE vf factor_of(const void *gain, vf offset, int64_t c, int64_t n, dtype type)
{
    if (!gain) return v_set(1);
    return v_load_n(gain, c, n, type) + offset;
}

VEC_INLINE void norm_head(const kernel_qk_norm_args *p, int64_t r, int64_t head, dtype type)
{
    const int64_t first = r * row_cols(p) + head * p->head_dim,
                  stat = r * kernel_qk_norm_groups(p) + head, d = p->head_dim;
    const void *from = vec_at(p->x, first, type), *gain = gains_of(p, head, type);
    void *to = vec_at(p->y, first, type);
    const vf offset = v_set(p->unit_offset ? 1 : 0);
    vf sum = v_zero(), squares = v_zero();
#define SUM(c, n) sum += v_load_n(from, c, n, type)
    V_EACH(c, 0, d, SUM);
#undef SUM
    p->mean[stat] = v_sum(sum) / (float)d;
    const vf mean = v_set(p->mean[stat]);
#define SQUARE(c, n)                                                                               \
    do {                                                                                           \
        vf x = v_keep(v_first_lanes(n), v_load_n(from, c, n, type) - mean);                        \
        squares += x * x;                                                                          \
    } while (0)
    V_EACH(c, 0, d, SQUARE);
#undef SQUARE
    p->rstd[stat] = 1 / sqrtf(v_sum(squares) / (float)d + p->eps);
    const vf s = v_set(p->rstd[stat]);
#define NORM(c, n)                                                                                 \
    v_store_n(to, c, n, type,                                                                      \
              (v_load_n(from, c, n, type) - mean) * s * factor_of(gain, offset, c, n, type))
    V_EACH(c, 0, d, NORM);
#undef NORM
}

static void norm_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_qk_norm_args *p = args;
    for (int64_t r = first; r < last; r++) {
        for (int64_t head = 0; head < kernel_qk_norm_groups(p); head++) {
#define CALL(type) norm_head(p, r, head, type)
            V_BY_TYPE(p->type, CALL);
#undef CALL
        }
        copy_values(p, p->x, r);
    }
}

void VEC(qk_layer_norm)(const cpu_context *x, const void *args)
{
    const kernel_qk_norm_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(row_cols(p)), norm_part);
}

// dx of a head. Adds to the sums of its gains' gradient.
VEC_INLINE void grad_head(const kernel_qk_norm_args *p, int64_t r, int64_t head, float *dgain,
                          dtype type)
{
    const int64_t first = r * row_cols(p) + head * p->head_dim,
                  stat = r * kernel_qk_norm_groups(p) + head, d = p->head_dim;
    const void *from = vec_at(p->x, first, type), *dy = vec_at(p->dy, first, type),
               *gain = gains_of(p, head, type);
    const vf offset = v_set(p->unit_offset ? 1 : 0);
    const vf s = v_set(p->rstd[stat]), mean = v_set(p->mean[stat]);
    vf sum = v_zero(), along = v_zero();
#define HAT(c, n) ((v_load_n(from, c, n, type) - mean) * s)
#define SUMS(c, n)                                                                                 \
    do {                                                                                           \
        vf slope = v_load_n(dy, c, n, type), g = slope * factor_of(gain, offset, c, n, type);      \
        sum += g;                                                                                  \
        along += g * HAT(c, n);                                                                    \
        v_store_n(dgain, c, n, F32, v_load_n(dgain, c, n, F32) + slope * HAT(c, n));               \
    } while (0)
    V_EACH(c, 0, d, SUMS);
#undef SUMS
    if (!p->y) return;
    void *to = vec_at(p->y, first, type);
    sum = v_set(v_sum(sum) / (float)d), along = v_set(v_sum(along) / (float)d);
#define GRAD(c, n)                                                                                 \
    v_store_n(to, c, n, type,                                                                      \
              s *(v_load_n(dy, c, n, type) * factor_of(gain, offset, c, n, type) - sum -           \
                  HAT(c, n) * along))
    V_EACH(c, 0, d, GRAD);
#undef GRAD
#undef HAT
}

// The rows of a chunk, which depend on the shape only.
static int64_t chunk_rows(const kernel_qk_norm_args *p)
{
    const int64_t rows = size_ceil_div(p->rows, LAYER_CHUNKS);
    return size_max(rows, 16 + VEC_WORTH / (1 + row_cols(p)));
}

static void grad_chunks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)thread;
    const kernel_qk_norm_args *p = args;
    for (int64_t i = first; i < last; i++) {
        float *dgain = (float *)x->shared + i * normed_cols(p);
        memset(dgain, 0, sizeof(float) * (size_t)normed_cols(p));
        const int64_t end = size_min((i + 1) * chunk_rows(p), p->rows);
        for (int64_t r = i * chunk_rows(p); r < end; r++) {
            for (int64_t head = 0; head < kernel_qk_norm_groups(p); head++) {
#define CALL(type) grad_head(p, r, head, dgain + head * p->head_dim, type)
                V_BY_TYPE(p->type, CALL);
#undef CALL
            }
            if (p->y) copy_values(p, p->dy, r);
        }
    }
}

// Adds the sums of the chunks, in order, to the gradient of one gain [cols].
static void add_chunks(const kernel_qk_norm_args *p, float *to, const float *from, int64_t cols,
                       bool accumulate)
{
    for (int64_t c = 0; c < cols && !accumulate; c++) to[c] = 0;
    for (int64_t i = 0; i < size_ceil_div(p->rows, chunk_rows(p)); i++)
        for (int64_t c = 0; c < cols; c++) to[c] += from[i * normed_cols(p) + c];
}

void VEC(qk_layer_norm_grad)(const cpu_context *x, const void *args)
{
    const kernel_qk_norm_args *p = args;
    if (sizeof(float) * LAYER_CHUNKS * (size_t)normed_cols(p) > CPU_SHARED_BYTES) {
        ref_qk_norm_grad(x, p); // more than 32768 gains have no vector form
        return;
    }
    VEC(share)(x, p, size_ceil_div(p->rows, chunk_rows(p)), 1, grad_chunks);
    const float *sums = (const float *)x->shared;
    const int64_t q = p->heads * p->head_dim, k = p->kv_heads * p->head_dim;
    if (p->dq_gain) add_chunks(p, p->dq_gain, sums, q, p->accumulate_dq_gain);
    if (p->dk_gain) add_chunks(p, p->dk_gain, sums + q, k, p->accumulate_dk_gain);
}
