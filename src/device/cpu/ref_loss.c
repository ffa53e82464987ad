// ref_loss.c -- cross-entropy and squared error with their gradients, in plain C. The gradient
// replaces the logits: probabilities are never stored beside them. Who divides by the number of
// valid tokens, and when, is not known here.
#include "device/cpu/ref.h"

#include <math.h>

static double row_lse(const cross_entropy_args *p, const void *row)
{
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < p->cols; c++)
        top = fmax(top, (double)p->scale * ref_load(row, c, p->type));
    for (int64_t c = 0; c < p->cols; c++)
        sum += exp((double)p->scale * ref_load(row, c, p->type) - top);
    return top + log(sum);
}

void ref_cross_entropy(const cpu_context *x, const void *args)
{
    (void)x;
    const cross_entropy_args *p = args;
    double loss = 0, count = 0;
    for (int64_t r = 0; r < p->rows; r++) {
        void *row = (void *)ref_at(p->logits, r * p->cols, p->type);
        int32_t label = p->labels[r];
        bool valid = label != p->ignore;
        double lse = 0;
        if (valid) {
            lse = row_lse(p, row);
            loss += lse - (double)p->scale * ref_load(row, label, p->type);
            count += 1;
        }
        for (int64_t c = 0; c < p->cols && p->gradient; c++) {
            double s = p->scale, g = 0;
            if (valid) g = s * (exp(s * ref_load(row, c, p->type) - lse) - (c == label));
            ref_store(row, c, p->type, (float)g);
        }
    }
    *p->loss_sum += loss;
    *p->count += count;
}

void ref_square_error(const cpu_context *x, const void *args)
{
    (void)x;
    const square_error_args *p = args;
    double sum = 0;
    for (int64_t i = 0; i < p->count; i++) {
        double d = (double)ref_load(p->x, i, p->type) - p->target[i];
        sum += d * d;
        if (p->dx) ref_store(p->dx, i, p->type, (float)(2 * d));
    }
    *p->loss_sum += sum;
    *p->total += (double)p->count;
}
