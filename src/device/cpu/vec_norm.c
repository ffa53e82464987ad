// vec_norm.c -- layer norm and RMS norm with their gradients. Rows are independent; the gradients
// of gain and bias are sums over rows, taken in chunks of rows that depend on the shape only and
// then added in order, so that they do not depend on the number of threads.
#include "device/cpu/ref.h"
#include "device/cpu/vec.h"

#include <math.h>

enum { NORM_CHUNKS = 32, NORM_ROWS = 2 }; // chunks of rows at most; rows done together

VEC_INLINE float row_sum(const void *x, int64_t cols, dtype type)
{
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int64_t c = 0;
    for (; c + 4 * VL <= cols; c += 4 * VL)
        for (int i = 0; i < 4; i++) sum[i] += v_load(x, c + i * VL, type);
    for (; c < cols; c += VL) sum[0] += v_load_n(x, c, min64(cols - c, VL), type);
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
        int64_t n = min64(cols - c, VL);
        vf d = v_keep(v_first_lanes(n), v_load_n(x, c, n, type) - m);
        sum[0] += d * d;
    }
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

VEC_INLINE void norm_rows(const kernel_norm_args *p, int64_t first, int64_t last, bool bias,
                          dtype type, dtype wide)
{
    for (int64_t r = first; r < last; r++) {
        const void *x = vec_at(p->x, r * p->cols, wide);
        void *y = vec_at(p->y, r * p->cols, type);
        float mean = p->is_rms ? 0 : row_sum(x, p->cols, wide) / (float)p->cols;
        float rstd = 1 / sqrtf(row_spread(x, p->cols, mean, wide) / (float)p->cols + p->eps);
        if (!p->is_rms) p->mean[r] = mean;
        p->rstd[r] = rstd;
        vf m = v_set(mean), s = v_set(rstd);
#define NORM(c, n)                                                                                 \
    do {                                                                                           \
        vf v = (v_load_n(x, c, n, wide) - m) * s * v_load_n(p->gain, c, n, type);                  \
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
#define BIASED(type, wide) norm_rows(p, first, last, true, type, wide)
#define PLAIN(type, wide)  norm_rows(p, first, last, false, type, wide)
    if (p->bias)
        V_BY_WIDTH(p->type, p->residual_fp32, BIASED);
    else
        V_BY_WIDTH(p->type, p->residual_fp32, PLAIN);
#undef BIASED
#undef PLAIN
}

void VEC(norm)(const cpu_context *x, const void *args)
{
    const kernel_norm_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), norm_part);
}

// What the gradient of a row needs besides its elements: the mean of g = dy * gain, and of g times
// the normalised value.
typedef struct row_stats {
    float mean, rstd, g, g_hat;
} row_stats;

VEC_INLINE row_stats stats_of(const kernel_norm_grad_args *p, int64_t r, dtype type, dtype wide)
{
    row_stats s = {.mean = p->is_rms ? 0 : p->mean[r], .rstd = p->rstd[r]};
    const void *x = vec_at(p->x, r * p->cols, wide), *dy = vec_at(p->dy, r * p->cols, type);
    vf sum[2] = {v_zero(), v_zero()}, along[2] = {v_zero(), v_zero()};
    vf m = v_set(s.mean), scale = v_set(s.rstd);
#define STATS(i, c, n)                                                                             \
    do {                                                                                           \
        vf g = v_load_n(dy, c, n, type) * v_load_n(p->gain, c, n, type);                           \
        sum[i] += g;                                                                               \
        along[i] += g * ((v_load_n(x, c, n, wide) - m) * scale);                                   \
    } while (0)
    int64_t c = 0;
    for (; c + 2 * VL <= p->cols; c += 2 * VL) {
        STATS(0, c, VL);
        STATS(1, c + VL, VL);
    }
    for (; c < p->cols; c += VL) STATS(0, c, min64(p->cols - c, VL));
#undef STATS
    s.g = p->is_rms ? 0 : v_sum(sum[0] + sum[1]) / (float)p->cols;
    s.g_hat = v_sum(along[0] + along[1]) / (float)p->cols;
    return s;
}

// dx of `rows` <= NORM_ROWS rows from r on, for lanes c … c+n-1; their sums are added to dgain and
// dbias.
VEC_INLINE void grad_lanes(const kernel_norm_grad_args *p, const row_stats *s, int64_t r, int rows,
                           int64_t c, int64_t n, float *dgain, float *dbias, dtype type, dtype wide)
{
    vf gain = v_load_n(p->gain, c, n, type), sum = v_load_n(dgain, c, n, F32), bias = v_zero();
    if (dbias) bias = v_load_n(dbias, c, n, F32);
    for (int i = 0; i < rows; i++) {
        int64_t at = (r + i) * p->cols + c;
        vf dy = v_load_n(p->dy, at, n, type);
        vf hat = (v_load_n(p->x, at, n, wide) - v_set(s[i].mean)) * v_set(s[i].rstd);
        vf dx = v_set(s[i].rstd) * (dy * gain - v_set(s[i].g) - hat * v_set(s[i].g_hat));
        if (p->accumulate_dx) dx += v_load_n(p->dx, at, n, wide);
        v_store_n(p->dx, at, n, wide, dx);
        sum += dy * hat;
        bias += dy;
    }
    v_store_n(dgain, c, n, F32, sum);
    if (dbias) v_store_n(dbias, c, n, F32, bias);
}

VEC_INLINE void grad_rows(const kernel_norm_grad_args *p, int64_t first, int64_t last, float *dgain,
                          float *dbias, dtype type, dtype wide)
{
    for (int64_t r = first; r < last; r += NORM_ROWS) {
        int rows = (int)min64(NORM_ROWS, last - r);
        row_stats s[NORM_ROWS];
        for (int i = 0; i < rows; i++) s[i] = stats_of(p, r + i, type, wide);
#define LANES(c, n)                                                                                \
    do {                                                                                           \
        if (rows == NORM_ROWS && (n) == VL) {                                                      \
            grad_lanes(p, s, r, NORM_ROWS, c, n, dgain, dbias, type, wide);                        \
        } else {                                                                                   \
            grad_lanes(p, s, r, rows, c, n, dgain, dbias, type, wide);                             \
        }                                                                                          \
    } while (0)
        V_EACH(c, 0, p->cols, LANES);
#undef LANES
    }
}

// Rows of a chunk: the shape alone decides.
static int64_t chunk_rows(const kernel_norm_grad_args *p)
{
    int64_t rows = (p->rows + NORM_CHUNKS - 1) / NORM_CHUNKS;
    int64_t least = 16 + VEC_WORTH / (1 + p->cols);
    return round_up(rows < least ? least : rows, NORM_ROWS);
}

static int64_t chunk_count(const kernel_norm_grad_args *p)
{
    return (p->rows + chunk_rows(p) - 1) / chunk_rows(p);
}

static void grad_chunks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)thread;
    const kernel_norm_grad_args *p = args;
    for (int64_t i = first; i < last; i++) {
        float *dgain = (float *)x->shared + 2 * i * p->cols, *dbias = dgain + p->cols;
        memset(dgain, 0, 2 * sizeof(float) * (size_t)p->cols);
        int64_t from = i * chunk_rows(p), to = min64(from + chunk_rows(p), p->rows);
        if (!p->dbias) dbias = NULL;
#define CALL(type, wide) grad_rows(p, from, to, dgain, dbias, type, wide)
        V_BY_WIDTH(p->type, p->residual_fp32, CALL);
#undef CALL
    }
}

// The sums of the chunks, in order, into dgain or dbias.
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
        ref_norm_grad(x, p); // rows wider than 16384: no fast form
        return;
    }
    VEC(share)(x, p, chunk_count(p), 1, grad_chunks);
    const float *sums = (const float *)x->shared;
    add_chunks(p->dgain, sums, p, p->accumulate_dgain);
    if (p->dbias) add_chunks(p->dbias, sums + p->cols, p, p->accumulate_dbias);
}
