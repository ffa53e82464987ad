// vec_norm.c -- vector form of layer norm and RMS norm, with their gradients. Rows are independent.
// The gradients of gain and bias are sums over rows. They are taken in chunks of rows that depend
// on the shape only, and then added in order, so they do not depend on the number of threads.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec_add.h"

#include <math.h>

enum { NORM_CHUNKS = 32, NORM_ROWS = 2 }; // at most so many chunks; rows done together

VEC_INLINE float row_sum(const void *x, int64_t cols, dtype type)
{
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int64_t c = 0;
    for (; c + 4 * VL <= cols; c += 4 * VL)
        for (int i = 0; i < 4; i++) sum[i] += v_load(x, c + i * VL, type);
    for (; c < cols; c += VL) sum[0] += v_load_n(x, c, size_min(cols - c, VL), type);
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// Sum of (x - mean)^2.
VEC_INLINE float row_spread(const void *x, int64_t cols, float mean, dtype type)
{
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()}, m = v_set(mean);
    int64_t c = 0;
    for (; c + 4 * VL <= cols; c += 4 * VL) {
        for (int i = 0; i < 4; i++) {
            vf d = v_load(x, c + i * VL, type) - m;
            sum[i] += d * d;
        }
    }
    for (; c < cols; c += VL) {
        int64_t n = size_min(cols - c, VL);
        vf d = v_keep(v_first_lanes(n), v_load_n(x, c, n, type) - m);
        sum[0] += d * d;
    }
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// The factors of columns c … c+n-1. `plain` says that there is a gain, which stands for itself.
VEC_INLINE vf gain_of(const void *gain, bool unit_offset, bool plain, int64_t c, int64_t n,
                      dtype type)
{
    if (!plain && !gain) return v_set(1);
    vf g = v_load_n(gain, c, n, type);
    if (!plain && unit_offset) g += v_set(1);
    return g;
}

VEC_INLINE void norm_rows(const kernel_norm_args *p, int64_t first, int64_t last, bool bias,
                          bool plain, dtype type, dtype residual)
{
    const kernel_add_args sum = {
        .a = p->x, .b = p->addend, .y = p->sum, .alpha = p->alpha, .beta = p->beta};
    for (int64_t r = first; r < last; r++) {
        if (p->addend) vec_add_range(&sum, r * p->cols, (r + 1) * p->cols, type, residual);
        const void *x = vec_at(p->addend ? p->sum : p->x, r * p->cols, residual);
        void *y = vec_at(p->y, r * p->cols, type);
        float mean = p->is_rms ? 0 : row_sum(x, p->cols, residual) / (float)p->cols;
        float rstd = 1 / sqrtf(row_spread(x, p->cols, mean, residual) / (float)p->cols + p->eps);
        if (!p->is_rms) p->mean[r] = mean;
        p->rstd[r] = rstd;
        vf m = v_set(mean), s = v_set(rstd);
#define NORM(c, n)                                                                                 \
    do {                                                                                           \
        vf v = (v_load_n(x, c, n, residual) - m) * s *                                             \
               gain_of(p->gain, p->unit_offset, plain, c, n, type);                                \
        if (bias) v += v_load_n(p->bias, c, n, type);                                              \
        v_store_n(y, c, n, type, v);                                                               \
    } while (0)
        V_EACH(c, 0, p->cols, NORM);
#undef NORM
    }
}

static void norm_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_norm_args *p = args;
#define BIASED(type, residual) norm_rows(p, first, last, true, true, type, residual)
#define PLAIN(type, residual)  norm_rows(p, first, last, false, true, type, residual)
#define OTHER(type, residual)  norm_rows(p, first, last, p->bias != NULL, false, type, residual)
    if (p->unit_offset || !p->gain)
        V_BY_RESIDUAL(p->type, p->residual_fp32, OTHER);
    else if (p->bias)
        V_BY_RESIDUAL(p->type, p->residual_fp32, BIASED);
    else
        V_BY_RESIDUAL(p->type, p->residual_fp32, PLAIN);
#undef BIASED
#undef PLAIN
#undef OTHER
}

void VEC(norm)(const cpu_context *x, const void *args)
{
    const kernel_norm_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), norm_part);
}

// The statistics of a row for its gradient: g is the mean of dy * gain, and g_hat is the mean of dy
// * gain times the normalised value.
typedef struct vec_norm_stats {
    float mean, rstd, g, g_hat;
} vec_norm_stats;

VEC_INLINE vec_norm_stats stats_of(const kernel_norm_grad_args *p, int64_t r, bool plain,
                                   dtype type, dtype residual)
{
    vec_norm_stats s = {.mean = p->is_rms ? 0 : p->mean[r], .rstd = p->rstd[r]};
    const void *x = vec_at(p->x, r * p->cols, residual), *dy = vec_at(p->dy, r * p->cols, type);
    vf sum[2] = {v_zero(), v_zero()}, along[2] = {v_zero(), v_zero()};
    vf m = v_set(s.mean), scale = v_set(s.rstd);
#define STATS(i, c, n)                                                                             \
    do {                                                                                           \
        vf g = v_load_n(dy, c, n, type) * gain_of(p->gain, p->unit_offset, plain, c, n, type);     \
        sum[i] += g;                                                                               \
        along[i] += g * ((v_load_n(x, c, n, residual) - m) * scale);                               \
    } while (0)
    int64_t c = 0;
    for (; c + 2 * VL <= p->cols; c += 2 * VL) {
        STATS(0, c, VL);
        STATS(1, c + VL, VL);
    }
    for (; c < p->cols; c += VL) STATS(0, c, size_min(p->cols - c, VL));
#undef STATS
    s.g = p->is_rms ? 0 : v_sum(sum[0] + sum[1]) / (float)p->cols;
    s.g_hat = v_sum(along[0] + along[1]) / (float)p->cols;
    return s;
}

// dx of `rows` <= NORM_ROWS rows from r on, for columns c … c+n-1. Adds the rows' sums to dgain and
// dbias.
VEC_INLINE void grad_lanes(const kernel_norm_grad_args *p, const vec_norm_stats *s, int64_t r,
                           int rows, int64_t c, int64_t n, float *dgain, float *dbias, bool plain,
                           dtype type, dtype residual)
{
    vf gain = gain_of(p->gain, p->unit_offset, plain, c, n, type), sum = v_load_n(dgain, c, n, F32),
       bias = v_zero();
    if (dbias) bias = v_load_n(dbias, c, n, F32);
    for (int i = 0; i < rows; i++) {
        int64_t first = (r + i) * p->cols + c;
        vf dy = v_load_n(p->dy, first, n, type);
        vf hat = (v_load_n(p->x, first, n, residual) - v_set(s[i].mean)) * v_set(s[i].rstd);
        vf dx = v_set(s[i].rstd) * (dy * gain - v_set(s[i].g) - hat * v_set(s[i].g_hat));
        if (p->accumulate_dx) dx += v_load_n(p->dx, first, n, residual);
        v_store_n(p->dx, first, n, residual, dx);
        sum += dy * hat;
        bias += dy;
    }
    v_store_n(dgain, c, n, F32, sum);
    if (dbias) v_store_n(dbias, c, n, F32, bias);
}

VEC_INLINE void grad_rows(const kernel_norm_grad_args *p, int64_t first, int64_t last, float *dgain,
                          float *dbias, bool plain, dtype type, dtype residual)
{
    for (int64_t r = first; r < last; r += NORM_ROWS) {
        int rows = (int)size_min(NORM_ROWS, last - r);
        vec_norm_stats s[NORM_ROWS];
        for (int i = 0; i < rows; i++) s[i] = stats_of(p, r + i, plain, type, residual);
#define LANES(c, n)                                                                                \
    do {                                                                                           \
        if (rows == NORM_ROWS && (n) == VL) {                                                      \
            grad_lanes(p, s, r, NORM_ROWS, c, n, dgain, dbias, plain, type, residual);             \
        } else {                                                                                   \
            grad_lanes(p, s, r, rows, c, n, dgain, dbias, plain, type, residual);                  \
        }                                                                                          \
    } while (0)
        V_EACH(c, 0, p->cols, LANES);
#undef LANES
    }
}

// The same sums where dx is not wanted. dgain or dbias may be NULL.
VEC_INLINE void sum_rows(const kernel_norm_grad_args *p, int64_t first, int64_t last, float *dgain,
                         float *dbias, dtype type, dtype residual)
{
    for (int64_t r = first; r < last; r++) {
        vf m = v_zero(), s = v_zero();
        if (dgain) m = v_set(p->is_rms ? 0 : p->mean[r]), s = v_set(p->rstd[r]);
#define SUMS(c, n)                                                                                 \
    do {                                                                                           \
        vf dy = v_load_n(p->dy, r * p->cols + c, n, type);                                         \
        if (dgain) {                                                                               \
            vf hat = (v_load_n(p->x, r * p->cols + c, n, residual) - m) * s;                       \
            v_store_n(dgain, c, n, F32, v_load_n(dgain, c, n, F32) + dy * hat);                    \
        }                                                                                          \
        if (dbias) v_store_n(dbias, c, n, F32, v_load_n(dbias, c, n, F32) + dy);                   \
    } while (0)
        V_EACH(c, 0, p->cols, SUMS);
#undef SUMS
    }
}

// The rows of a chunk, which depend on the shape only.
static int64_t chunk_rows(const kernel_norm_grad_args *p)
{
    int64_t rows = size_ceil_div(p->rows, NORM_CHUNKS);
    return size_ceil_div(size_max(rows, 16 + VEC_WORTH / (1 + p->cols)), NORM_ROWS) * NORM_ROWS;
}

static int64_t chunk_count(const kernel_norm_grad_args *p)
{
    return size_ceil_div(p->rows, chunk_rows(p));
}

static void grad_chunks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)thread;
    const kernel_norm_grad_args *p = args;
    for (int64_t i = first; i < last; i++) {
        float *dgain = (float *)x->shared + 2 * i * p->cols, *dbias = dgain + p->cols;
        memset(dgain, 0, 2 * sizeof(float) * (size_t)p->cols);
        int64_t from = i * chunk_rows(p), to = size_min(from + chunk_rows(p), p->rows);
        if (!p->dbias) dbias = NULL;
// With dx the sums for dgain cost nothing, so they are taken also where dgain is not wanted.
#define GRAD(type, residual)  grad_rows(p, from, to, dgain, dbias, true, type, residual)
#define OTHER(type, residual) grad_rows(p, from, to, dgain, dbias, false, type, residual)
#define SUM(type, residual)   sum_rows(p, from, to, p->dgain ? dgain : NULL, dbias, type, residual)
        if (p->dx && (p->unit_offset || !p->gain))
            V_BY_RESIDUAL(p->type, p->residual_fp32, OTHER);
        else if (p->dx)
            V_BY_RESIDUAL(p->type, p->residual_fp32, GRAD);
        else
            V_BY_RESIDUAL(p->type, p->residual_fp32, SUM);
#undef GRAD
#undef OTHER
#undef SUM
    }
}

// Adds the sums of the chunks, in order, to dgain or dbias.
static void add_chunks(float *to, const float *from, const kernel_norm_grad_args *p,
                       bool accumulate)
{
    for (int64_t c = 0; c < p->cols && !accumulate; c++) to[c] = 0;
    for (int64_t i = 0; i < chunk_count(p); i++)
        for (int64_t c = 0; c < p->cols; c++) to[c] += from[2 * i * p->cols + c];
}

void VEC(norm_grad)(const cpu_context *x, const void *args)
{
    const kernel_norm_grad_args *p = args;
    if (2 * sizeof(float) * NORM_CHUNKS * (size_t)p->cols > CPU_SHARED_BYTES) {
        ref_norm_grad(x, p); // rows wider than 16384 have no vector form
        return;
    }
    VEC(share)(x, p, chunk_count(p), 1, grad_chunks);
    const float *sums = (const float *)x->shared;
    if (p->dgain) add_chunks(p->dgain, sums, p, p->accumulate_dgain);
    if (p->dbias) add_chunks(p->dbias, sums + p->cols, p, p->accumulate_dbias);
}
