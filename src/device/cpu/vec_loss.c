// vec_loss.c -- vector form of cross-entropy, with its gradient in place of the logits. A row is
// read once for the log-sum-exp, block by block with a running maximum, and once more for the
// gradient. The losses of the rows are added in row order. It does not divide by the number of
// valid tokens, and it does not know how the statistics of the vocabulary shards were gathered.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec.h"
#include "device/cpu/vec_math.h"

#include <math.h>

enum {
    LOSS_BLOCK = 1024, // logits that stay in the nearest cache from the maximum to the sum
    LOSS_ROWS = CPU_SHARED_BYTES / sizeof(double), // rows whose losses fit in the shared memory
};

// Some rows of a call, from row0 on, and their losses.
typedef struct vec_loss_rows {
    const kernel_cross_entropy_args *p;
    double factor; // of the gradient
    int64_t row0;
    double *losses; // [LOSS_ROWS]
} vec_loss_rows;

VEC_INLINE float block_top(const void *row, int64_t first, int64_t last, float scale, dtype type)
{
    vf s = v_set(scale), top[2] = {v_set(-INFINITY), v_set(-INFINITY)};
    int64_t c = first;
    for (; c + 2 * VL <= last; c += 2 * VL) {
        top[0] = v_max(top[0], v_load(row, c, type) * s);
        top[1] = v_max(top[1], v_load(row, c + VL, type) * s);
    }
    for (; c < last; c += VL) {
        int64_t n = size_min(last - c, VL);
        vf x = v_load_n(row, c, n, type) * s;
        top[0] = v_max(top[0], v_pick(v_first_lanes(n), x, top[0]));
    }
    return v_top(v_max(top[0], top[1]));
}

VEC_INLINE float block_sum(const void *row, int64_t first, int64_t last, float scale, float top,
                           dtype type)
{
    vf s = v_set(scale), t = v_set(top), sum[2] = {v_zero(), v_zero()};
    int64_t c = first;
    for (; c + 2 * VL <= last; c += 2 * VL) {
        sum[0] += v_exp_negative(v_load(row, c, type) * s - t);
        sum[1] += v_exp_negative(v_load(row, c + VL, type) * s - t);
    }
    for (; c < last; c += VL) {
        int64_t n = size_min(last - c, VL);
        vf e = v_exp_negative(v_load_n(row, c, n, type) * s - t);
        sum[0] += v_keep(v_first_lanes(n), e);
    }
    return v_sum(sum[0] + sum[1]);
}

// The same of logits softcap * t with t = tanh(scale * x); top is the maximum of t.
VEC_INLINE float capped_sum(const void *row, int64_t first, int64_t last, float scale,
                            float softcap, float top, dtype type)
{
    vf s = v_set(scale), cap = v_set(softcap), highest = v_set(top), sum = v_zero();
#define SUM(c, n)                                                                                  \
    do {                                                                                           \
        vf e = v_exp_negative(cap * (v_tanh(v_load_n(row, c, n, type) * s) - highest));            \
        sum += (n) == VL ? e : v_keep(v_first_lanes(n), e);                                        \
    } while (0)
    V_EACH(c, first, last, SUM);
#undef SUM
    return v_sum(sum);
}

// Maximum of the logits of a row, and the sum of exp(logit - maximum). Without a softcap top is a float.
typedef struct vec_loss_stats {
    double top, sum;
} vec_loss_stats;

// The factor of x in a logit; with a softcap, in the tanh of it.
VEC_INLINE float factor_of(float scale, float softcap, bool capped)
{
    return capped ? scale / softcap : scale;
}

VEC_INLINE vec_loss_stats stats_of_row(const void *row, int64_t cols, float scale, float softcap,
                                       bool capped, dtype type)
{
    const float factor = factor_of(scale, softcap, capped);
    double sum = 0;
    float top = -INFINITY;
    for (int64_t c = 0; c < cols; c += LOSS_BLOCK) {
        int64_t to = size_min(c + LOSS_BLOCK, cols);
        float here = block_top(row, c, to, factor, type);
        if (capped) here = v_tanh(v_set(here))[0];
        if (here > top) {
            sum *= exp(capped ? softcap * ((double)top - here) : (double)top - here);
            top = here;
        }
        sum += capped ? capped_sum(row, c, to, factor, softcap, top, type)
                      : block_sum(row, c, to, factor, top, type);
    }
    return (vec_loss_stats){capped ? (double)softcap * top : top, sum};
}

VEC_INLINE float logit(const void *row, int64_t column, dtype type)
{
    return v_load_n(row, column, 1, type)[0];
}

// The logit of a column.
VEC_INLINE double logit_of(const void *row, int64_t column, float scale, float softcap, bool capped,
                           dtype type)
{
    const float x = logit(row, column, type);
    if (!capped) return (double)scale * x;
    return (double)softcap * v_tanh(v_set(x * factor_of(scale, softcap, true)))[0];
}

// Replaces a row of capped logits by its gradient. z = softcap * t has the slope scale * (1 - t^2).
VEC_INLINE void capped_grad(const kernel_cross_entropy_args *p, double factor, void *row,
                            int64_t label, double lse, dtype type)
{
    double at_label = 0;
    bool here = label >= 0 && label < p->cols;
    if (here) {
        double z = logit_of(row, label, p->scale, p->softcap, true, type), t = z / p->softcap;
        at_label = factor * (1 - t * t) * (exp(z - lse) - 1);
    }
    vf s = v_set(factor_of(p->scale, p->softcap, true)), cap = v_set(p->softcap),
       f = v_set((float)factor), l = v_set((float)lse);
#define GRAD(c, n)                                                                                 \
    do {                                                                                           \
        vf t = v_tanh(v_load_n(row, c, n, type) * s);                                              \
        v_store_n(row, c, n, type, f *(v_set(1) - t * t) * v_exp_negative(cap * t - l));           \
    } while (0)
    V_EACH(c, 0, p->cols, GRAD);
#undef GRAD
    if (here) v_store_n(row, label, 1, type, v_set((float)at_label));
}

// Replaces the row by its gradient. `label` counts from column 0 and may lie outside the row.
VEC_INLINE void row_grad(const kernel_cross_entropy_args *p, double factor, void *row,
                         int64_t label, double lse, dtype type)
{
    double scale = p->scale, at_label = 0;
    bool here = label >= 0 && label < p->cols;
    if (here) at_label = factor * (exp(scale * logit(row, label, type) - lse) - 1);
    vf s = v_set(p->scale), f = v_set((float)factor), l = v_set((float)lse);
#define GRAD(c, n) v_store_n(row, c, n, type, f *v_exp_negative(v_load_n(row, c, n, type) * s - l))
    V_EACH(c, 0, p->cols, GRAD);
#undef GRAD
    if (here) v_store_n(row, label, 1, type, v_set((float)at_label));
}

VEC_INLINE double loss_row(const vec_loss_rows *w, int64_t r, bool capped, dtype type)
{
    const kernel_cross_entropy_args *p = w->p;
    void *row = vec_at(p->logits, r * kernel_stride(p->stride, p->cols), type);
    int64_t label = p->labels[r] - p->first;
    if (p->labels[r] == p->ignore) {
        if (p->gradient) memset(row, 0, (size_t)p->cols * (type == F32 ? 4 : 2));
        return 0;
    }
    ref_row_total total;
    if (p->stats) {
        total = ref_total_of_shards(p, r);
    } else {
        vec_loss_stats stats = stats_of_row(row, p->cols, p->scale, p->softcap, capped, type);
        total.lse = stats.top + log(stats.sum);
        total.label = logit_of(row, label, p->scale, p->softcap, capped, type);
    }
    const double factor = p->weights ? w->factor * p->weights[r] : w->factor;
    if (p->gradient && capped)
        capped_grad(p, factor, row, label, total.lse, type);
    else if (p->gradient)
        row_grad(p, factor, row, label, total.lse, type);
    return total.lse - total.label;
}

static void loss_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const vec_loss_rows *w = args;
    for (int64_t r = first; r < last; r++) {
#define PLAIN(type)  w->losses[r] = loss_row(w, w->row0 + r, false, type)
#define CAPPED(type) w->losses[r] = loss_row(w, w->row0 + r, true, type)
        if (w->p->softcap > 0)
            V_BY_TYPE(w->p->type, CAPPED);
        else
            V_BY_TYPE(w->p->type, PLAIN);
#undef PLAIN
#undef CAPPED
    }
}

void VEC(cross_entropy)(const cpu_context *x, const void *args)
{
    const kernel_cross_entropy_args *p = args;
    vec_loss_rows w = {.p = p,
                       .factor = (double)p->scale * (float)kernel_step_read(p->step).loss_scale,
                       .losses = (double *)x->shared};
    double loss = 0, count = 0;
    for (; w.row0 < p->rows; w.row0 += LOSS_ROWS) {
        int64_t rows = size_min(p->rows - w.row0, LOSS_ROWS);
        VEC(share)(x, &w, rows, vec_grain(p->cols), loss_part);
        for (int64_t r = 0; r < rows; r++) {
            const int64_t row = w.row0 + r;
            const double weight = p->weights ? p->weights[row] : 1;
            loss += weight * w.losses[r];
            count += p->labels[row] != p->ignore ? weight : 0;
            if (p->losses) p->losses[row] = w.losses[r];
        }
    }
    if (p->loss_sum) *p->loss_sum += loss;
    if (p->count) *p->count += count;
}

VEC_INLINE void stats_rows(const kernel_cross_entropy_stats_args *p, int64_t first, int64_t last,
                           bool capped, dtype type)
{
    for (int64_t r = first; r < last; r++) {
        const void *row = vec_at(p->logits, r * kernel_stride(p->stride, p->cols), type);
        int64_t label = p->labels[r] - p->first;
        float *out = p->stats + 3 * r;
        out[0] = out[1] = out[2] = 0;
        if (p->labels[r] == p->ignore) continue;
        vec_loss_stats stats = stats_of_row(row, p->cols, p->scale, p->softcap, capped, type);
        out[0] = (float)stats.top; // the sum is relative to the maximum after this rounding
        out[1] = p->cols > 0 ? (float)(stats.sum * exp(stats.top - out[0])) : 0;
        if (label >= 0 && label < p->cols)
            out[2] = (float)logit_of(row, label, p->scale, p->softcap, capped, type);
    }
}

static void stats_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                       int thread)
{
    (void)x, (void)thread;
    const kernel_cross_entropy_stats_args *p = args;
#define PLAIN(type)  stats_rows(p, first, last, false, type)
#define CAPPED(type) stats_rows(p, first, last, true, type)
    if (p->softcap > 0)
        V_BY_TYPE(p->type, CAPPED);
    else
        V_BY_TYPE(p->type, PLAIN);
#undef PLAIN
#undef CAPPED
}

void VEC(cross_entropy_stats)(const cpu_context *x, const void *args)
{
    const kernel_cross_entropy_stats_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), stats_part);
}
