// ref_loss.c -- reference of cross-entropy and squared error with their gradients. The gradient
// replaces the logits, and probabilities are not stored. It does not divide by the number of valid
// tokens, and it does not know how the statistics of the vocabulary shards were gathered.
#include "device/cpu/ref/ref.h"

#include <math.h>

static double row_top(const void *row, int64_t cols, double scale, dtype type)
{
    double top = -INFINITY;
    for (int64_t c = 0; c < cols; c++) top = fmax(top, scale * ref_load(row, c, type));
    return top;
}

static double row_sum(const void *row, int64_t cols, double scale, double top, dtype type)
{
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) sum += exp(scale * ref_load(row, c, type) - top);
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

static ref_row_total total_of_row(const kernel_cross_entropy_args *p, const void *row,
                                  int64_t label)
{
    double top = row_top(row, p->cols, p->scale, p->type);
    double sum = row_sum(row, p->cols, p->scale, top, p->type);
    return (ref_row_total){top + log(sum), (double)p->scale * ref_load(row, label, p->type)};
}

void ref_cross_entropy(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_cross_entropy_args *p = args;
    double loss = 0, count = 0, s = p->scale;
    double factor = s * (float)kernel_step_read(p->step).loss_scale;
    for (int64_t r = 0; r < p->rows; r++) {
        void *row = (void *)ref_at(p->logits, r * kernel_stride(p->stride, p->cols), p->type);
        int64_t label = p->labels[r] - p->first;
        bool valid = p->labels[r] != p->ignore;
        ref_row_total total = {0};
        if (valid) {
            total = p->stats ? ref_total_of_shards(p, r) : total_of_row(p, row, label);
            loss += total.lse - total.label;
            count += 1;
        }
        for (int64_t c = 0; c < p->cols && p->gradient; c++) {
            double probability = valid ? exp(s * ref_load(row, c, p->type) - total.lse) : 0;
            double g = valid ? factor * (probability - (c == label)) : 0;
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
        const void *row = ref_at(p->logits, r * kernel_stride(p->stride, p->cols), p->type);
        int64_t label = p->labels[r] - p->first;
        float *out = p->stats + 3 * r;
        out[0] = out[1] = out[2] = 0;
        if (p->labels[r] == p->ignore) continue;
        // The sum is relative to the maximum after its rounding to float.
        out[0] = (float)row_top(row, p->cols, p->scale, p->type);
        out[1] = (float)row_sum(row, p->cols, p->scale, out[0], p->type);
        if (label >= 0 && label < p->cols) out[2] = p->scale * ref_load(row, label, p->type);
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
