// vec_qk_norm.c -- vector form of the RMS norms of queries and keys, with their gradients. Rows are independent, and
// so are the groups of a row. The gradients of the gains are sums over rows, taken in chunks of rows that
// depend on the shape only, and then added in order, so they do not depend on the number of threads.
#include "device/cpu/vec_qk_norm.h"
#include "device/cpu/ref/ref.h"

#include <math.h>

enum { QK_CHUNKS = 32 }; // at most

// A group of a row: the elements of its arrays, from its first column on.
typedef struct vec_qk_group {
    int64_t cols;
    const void *x, *dy, *gain; // gain NULL: 1
    void *y;
    float *rstd, *sum; // of the group; sum NULL: not given
    float *dgain;      // sums of a chunk of rows
} vec_qk_group;

static int64_t row_cols(const kernel_qk_norm_args *p)
{
    return (p->heads + 2 * p->kv_heads) * p->head_dim;
}

// The columns of the gain of the queries, or of the keys.
static int64_t gain_cols(const kernel_qk_norm_args *p, bool query)
{
    return kernel_qk_norm_cols(p, query ? 0 : kernel_qk_norm_groups(p) - 1);
}

VEC_INLINE vec_qk_group group_of(const kernel_qk_norm_args *p, int64_t r, int64_t group, dtype type)
{
    const int64_t first = r * row_cols(p) + kernel_qk_norm_first(p, group),
                  stat = r * kernel_qk_norm_groups(p) + group;
    return (vec_qk_group){.cols = kernel_qk_norm_cols(p, group),
                          .x = vec_at(p->x, first, type),
                          .dy = p->dy ? vec_at(p->dy, first, type) : NULL,
                          .y = p->y ? vec_at(p->y, first, type) : NULL,
                          .gain = kernel_qk_norm_is_query(p, group) ? p->q_gain : p->k_gain,
                          .rstd = p->rstd ? p->rstd + stat : NULL,
                          .sum = p->sums ? p->sums + stat : NULL};
}

VEC_INLINE vf gain_of(const vec_qk_group *g, vf offset, int64_t c, int64_t n, dtype type)
{
    if (!g->gain) return v_set(1);
    return v_load_n(g->gain, c, n, type) + offset;
}

VEC_INLINE float sum_squares(const vec_qk_group *g, dtype type)
{
    vf sum[2] = {v_zero(), v_zero()};
    int64_t c = 0;
    for (; c + 2 * VL <= g->cols; c += 2 * VL)
        for (int i = 0; i < 2; i++) {
            vf x = v_load(g->x, c + i * VL, type);
            sum[i] += x * x;
        }
    for (; c < g->cols; c += VL) {
        vf x = v_load_n(g->x, c, size_min(g->cols - c, VL), type);
        sum[0] += x * x;
    }
    return v_sum(sum[0] + sum[1]);
}

// The sum of g * x_hat, with g = dy * gain.
VEC_INLINE float sum_along(const vec_qk_group *g, vf offset, dtype type)
{
    vf sum[2] = {v_zero(), v_zero()};
#define ALONG(i, c, n)                                                                             \
    sum[i] +=                                                                                      \
        v_load_n(g->dy, c, n, type) * gain_of(g, offset, c, n, type) * v_load_n(g->x, c, n, type)
    int64_t c = 0;
    for (; c + 2 * VL <= g->cols; c += 2 * VL) {
        ALONG(0, c, VL);
        ALONG(1, c + VL, VL);
    }
    for (; c < g->cols; c += VL) ALONG(0, c, size_min(g->cols - c, VL));
#undef ALONG
    return v_sum(sum[0] + sum[1]) * *g->rstd;
}

// Copies the values of row r, unless they are there.
static void copy_values(const kernel_qk_norm_args *p, const void *from, int64_t r)
{
    const int64_t first = (p->heads + p->kv_heads) * p->head_dim, i = r * row_cols(p) + first;
    if (p->y == from) return;
    memcpy(vec_at(p->y, i, p->type), vec_at(from, i, p->type),
           dtype_bytes(p->type) * (size_t)(row_cols(p) - first));
}

VEC_INLINE void norm_rows(const kernel_qk_norm_args *p, int64_t first, int64_t last, dtype type)
{
    const int64_t groups = kernel_qk_norm_groups(p);
    const vf offset = v_set(p->unit_offset ? 1 : 0);
    for (int64_t r = first; r < last; r++) {
        for (int64_t i = 0; i < groups; i++) {
            const vec_qk_group g = group_of(p, r, i, type);
            const float sum = g.sum ? *g.sum : sum_squares(&g, type);
            const float rstd = 1 / sqrtf(sum / (float)(g.cols * p->ranks) + p->eps);
            const vf s = v_set(rstd);
            *g.rstd = rstd;
#define NORM(c, n)                                                                                 \
    v_store_n(g.y, c, n, type, v_load_n(g.x, c, n, type) * s * gain_of(&g, offset, c, n, type))
            V_EACH(c, 0, g.cols, NORM);
#undef NORM
        }
        copy_values(p, p->x, r);
    }
}

static void norm_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_qk_norm_args *p = args;
#define CALL(type) norm_rows(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(qk_norm)(const cpu_context *x, const void *args)
{
    const kernel_qk_norm_args *p = args;
    if (p->layer_norm)
        VEC(qk_layer_norm)(x, p);
    else
        VEC(share)(x, p, p->rows, vec_grain(row_cols(p)), norm_part);
}

VEC_INLINE void sum_rows(const kernel_qk_norm_args *p, int64_t first, int64_t last, dtype type)
{
    const vf offset = v_set(p->unit_offset ? 1 : 0);
    for (int64_t r = first; r < last; r++)
        for (int64_t i = 0; i < kernel_qk_norm_groups(p); i++) {
            const vec_qk_group g = group_of(p, r, i, type);
            *g.sum = p->dy ? sum_along(&g, offset, type) : sum_squares(&g, type);
        }
}

static void sums_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_qk_norm_args *p = args;
#define CALL(type) sum_rows(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(qk_norm_sums)(const cpu_context *x, const void *args)
{
    const kernel_qk_norm_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(row_cols(p)), sums_part);
}

// dx of a group. Adds to the sums of its gain's gradient.
VEC_INLINE void grad_group(const kernel_qk_norm_args *p, const vec_qk_group *g, dtype type)
{
    const vf offset = v_set(p->unit_offset ? 1 : 0), s = v_set(*g->rstd);
    vf mean = v_zero();
    if (p->y) {
        const float sum = g->sum ? *g->sum : sum_along(g, offset, type);
        mean = v_set(sum / (float)(g->cols * p->ranks));
    }
#define GRAD(c, n)                                                                                 \
    do {                                                                                           \
        vf dy = v_load_n(g->dy, c, n, type), hat = v_load_n(g->x, c, n, type) * s;                 \
        v_store_n(g->dgain, c, n, F32, v_load_n(g->dgain, c, n, F32) + dy * hat);                  \
        if (g->y)                                                                                  \
            v_store_n(g->y, c, n, type, s *(dy * gain_of(g, offset, c, n, type) - hat * mean));    \
    } while (0)
    V_EACH(c, 0, g->cols, GRAD);
#undef GRAD
}

VEC_INLINE void grad_rows(const kernel_qk_norm_args *p, int64_t first, int64_t last, float *dgain,
                          dtype type)
{
    for (int64_t r = first; r < last; r++) {
        for (int64_t i = 0; i < kernel_qk_norm_groups(p); i++) {
            vec_qk_group g = group_of(p, r, i, type);
            g.dgain = kernel_qk_norm_is_query(p, i) ? dgain : dgain + gain_cols(p, true);
            grad_group(p, &g, type);
        }
        if (p->y) copy_values(p, p->dy, r);
    }
}

// The rows of a chunk, which depend on the shape only.
static int64_t chunk_rows(const kernel_qk_norm_args *p)
{
    const int64_t rows = size_ceil_div(p->rows, QK_CHUNKS);
    return size_max(rows, 16 + VEC_WORTH / (1 + row_cols(p)));
}

static int64_t chunk_count(const kernel_qk_norm_args *p)
{
    return size_ceil_div(p->rows, chunk_rows(p));
}

// The columns of both gains.
static int64_t both_cols(const kernel_qk_norm_args *p)
{
    return gain_cols(p, true) + gain_cols(p, false);
}

static void grad_chunks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)thread;
    const kernel_qk_norm_args *p = args;
    for (int64_t i = first; i < last; i++) {
        float *dgain = (float *)x->shared + i * both_cols(p);
        memset(dgain, 0, sizeof(float) * (size_t)both_cols(p));
        const int64_t from = i * chunk_rows(p), to = size_min(from + chunk_rows(p), p->rows);
#define CALL(type) grad_rows(p, from, to, dgain, type)
        V_BY_TYPE(p->type, CALL);
#undef CALL
    }
}

// Adds the sums of the chunks, in order, to the gradient of one gain [cols].
static void add_chunks(const kernel_qk_norm_args *p, float *to, const float *from, int64_t cols,
                       bool accumulate)
{
    for (int64_t c = 0; c < cols && !accumulate; c++) to[c] = 0;
    for (int64_t i = 0; i < chunk_count(p); i++)
        for (int64_t c = 0; c < cols; c++) to[c] += from[i * both_cols(p) + c];
}

void VEC(qk_norm_grad)(const cpu_context *x, const void *args)
{
    const kernel_qk_norm_args *p = args;
    if (p->layer_norm) {
        VEC(qk_layer_norm_grad)(x, p);
        return;
    }
    if (sizeof(float) * QK_CHUNKS * (size_t)both_cols(p) > CPU_SHARED_BYTES) {
        ref_qk_norm_grad(x, p); // gains of more than 32768 columns have no vector form
        return;
    }
    VEC(share)(x, p, chunk_count(p), 1, grad_chunks);
    const float *sums = (const float *)x->shared;
    const int64_t q = gain_cols(p, true), k = gain_cols(p, false);
    if (p->dq_gain) add_chunks(p, p->dq_gain, sums, q, p->accumulate_dq_gain);
    if (p->dk_gain) add_chunks(p, p->dk_gain, sums + q, k, p->accumulate_dk_gain);
}
