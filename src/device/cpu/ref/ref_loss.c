// ref_loss.c -- reference of cross-entropy and squared error with their gradients. The gradient
// replaces the logits, and probabilities are not stored. It does not divide by the number of valid
// tokens, and it does not know how the statistics of the vocabulary shards were gathered.
#include "device/cpu/ref/ref.h"

// The row of logits that both kernels read.
typedef struct ref_logits {
    const void *row;
    int64_t cols;
    double scale, softcap;
    dtype type;
} ref_logits;

static double logit_of(const ref_logits *l, int64_t c)
{
    double slope;
    return ref_cap(l->scale * ref_load(l->row, c, l->type), l->softcap, &slope);
}

static double row_top(const ref_logits *l)
{
    double top = -INFINITY;
    for (int64_t c = 0; c < l->cols; c++) top = fmax(top, logit_of(l, c));
    return top;
}

static double row_sum(const ref_logits *l, double top)
{
    double sum = 0;
    for (int64_t c = 0; c < l->cols; c++) sum += exp(logit_of(l, c) - top);
    return sum;
}

ref_row_total ref_total_of_shards(const kernel_cross_entropy_args *p, int64_t r)
{
    double top = -INFINITY, sum = 0, label = 0;
    for (int i = 0; i < p->shards; i++) {
        const float *shard = p->stats + (i * p->rows + r) * 3;
        top = fmax(top, shard[0]);
    }
    for (int i = 0; i < p->shards; i++) {
        const float *shard = p->stats + (i * p->rows + r) * 3;
        sum += shard[1] * exp(shard[0] - top);
        label += shard[2];
    }
    return (ref_row_total){top + log(sum), label};
}

static ref_row_total total_of_row(const ref_logits *l, int64_t label)
{
    double top = row_top(l);
    return (ref_row_total){top + log(row_sum(l, top)), logit_of(l, label)};
}

void ref_cross_entropy(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_cross_entropy_args *p = args;
    double loss = 0, count = 0, s = p->scale;
    const double unit = s * (float)kernel_step_read(p->step).loss_scale;
    for (int64_t r = 0; r < p->rows; r++) {
        void *row = (void *)ref_at(p->logits, r * kernel_stride(p->stride, p->cols), p->type);
        const ref_logits logits = {row, p->cols, s, p->softcap, p->type};
        int64_t label = p->labels[r] - p->first;
        bool valid = p->labels[r] != p->ignore;
        const double weight = p->weights ? p->weights[r] : 1, factor = unit * weight;
        ref_row_total total = {0};
        if (valid) {
            total = p->stats ? ref_total_of_shards(p, r) : total_of_row(&logits, label);
            loss += weight * (total.lse - total.label);
            count += weight;
        }
        if (p->losses) p->losses[r] = total.lse - total.label;
        for (int64_t c = 0; c < p->cols && p->gradient; c++) {
            double slope, z = ref_cap(s * ref_load(row, c, p->type), p->softcap, &slope);
            double probability = valid ? exp(z - total.lse) : 0;
            double g = valid ? factor * slope * (probability - (c == label)) : 0;
            ref_store(row, c, p->type, (float)g);
        }
    }
    if (p->loss_sum) *p->loss_sum += loss;
    if (p->count) *p->count += count;
}

void ref_cross_entropy_stats(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_cross_entropy_stats_args *p = args;
    for (int64_t r = 0; r < p->rows; r++) {
        const ref_logits logits = {
            ref_at(p->logits, r * kernel_stride(p->stride, p->cols), p->type), p->cols, p->scale,
            p->softcap, p->type};
        int64_t label = p->labels[r] - p->first;
        float *out = p->stats + 3 * r;
        out[0] = out[1] = out[2] = 0;
        if (p->labels[r] == p->ignore) continue;
        // The sum is relative to the maximum after its rounding to float.
        out[0] = (float)row_top(&logits);
        out[1] = (float)row_sum(&logits, out[0]);
        if (label >= 0 && label < p->cols) out[2] = (float)logit_of(&logits, label);
    }
}

void ref_square_error(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_square_error_args *p = args;
    const int64_t count = p->rows * p->cols, filled = ref_filled_rows(p) * p->cols;
    double sum = 0, factor = 2 * (double)(float)kernel_step_read(p->step).loss_scale;
    for (int64_t i = 0; i < filled; i++) {
        double d = (double)ref_load(p->x, i, p->type) - p->target[i];
        sum += d * d;
        if (p->dx) ref_store(p->dx, i, p->type, (float)(factor * d));
    }
    for (int64_t i = filled; i < count && p->dx; i++) ref_store(p->dx, i, p->type, 0);
    if (p->loss_sum) *p->loss_sum += sum;
    if (p->total) *p->total += (double)filled;
}
