// ref_norm.c -- reference of layer norm and RMS norm, with their gradients. Means are taken in
// double.
#include "device/cpu/ref/ref.h"

#include <math.h>

void ref_norm(const cpu_context *x, const void *args)
{
    const kernel_norm_args *p = args;
    dtype residual = kernel_residual_type(p->type, p->residual_fp32);
    const kernel_add_args sum = {.count = p->rows * p->cols,
                                 .a = p->x,
                                 .b = p->addend,
                                 .y = p->sum,
                                 .alpha = p->alpha,
                                 .beta = p->beta,
                                 .type = p->type,
                                 .residual_fp32 = p->residual_fp32};
    if (p->addend) ref_add(x, &sum);
    for (int64_t r = 0; r < p->rows; r++) {
        const void *row = ref_at(p->addend ? p->sum : p->x, r * p->cols, residual);
        double mean = 0, square = 0;
        if (!p->is_rms) {
            for (int64_t c = 0; c < p->cols; c++) mean += ref_load(row, c, residual);
            mean /= (double)p->cols;
            p->mean[r] = (float)mean;
        }
        for (int64_t c = 0; c < p->cols; c++) {
            double d = ref_load(row, c, residual) - mean;
            square += d * d;
        }
        double rstd = 1 / sqrt(square / (double)p->cols + p->eps);
        p->rstd[r] = (float)rstd;
        for (int64_t c = 0; c < p->cols; c++) {
            double y = (ref_load(row, c, residual) - mean) * rstd *
                       ref_gain(p->gain, c, p->unit_offset, p->type);
            if (p->bias) y += ref_load(p->bias, c, p->type);
            ref_store(p->y, r * p->cols + c, p->type, (float)y);
        }
    }
}

// The normalised value of element (r, c): (x - mean) * rstd.
static double norm_hat(const kernel_norm_grad_args *p, int64_t r, int64_t c)
{
    double mean = p->is_rms ? 0 : p->mean[r];
    return (ref_load(p->x, r * p->cols + c, kernel_residual_type(p->type, p->residual_fp32)) -
            mean) *
           p->rstd[r];
}

// dy times the gain.
static double norm_grad_scaled(const kernel_norm_grad_args *p, int64_t r, int64_t c)
{
    return (double)ref_load(p->dy, r * p->cols + c, p->type) *
           ref_gain(p->gain, c, p->unit_offset, p->type);
}

// dgain and dbias. They are computed before dx is written, because dx may be dy.
static void norm_grad_parameters(const kernel_norm_grad_args *p)
{
    for (int64_t c = 0; c < p->cols; c++) {
        double gain = 0, bias = 0;
        for (int64_t r = 0; r < p->rows; r++) {
            double dy = ref_load(p->dy, r * p->cols + c, p->type);
            if (p->dgain) gain += dy * norm_hat(p, r, c);
            bias += dy;
        }
        if (p->dgain) p->dgain[c] = (float)(gain + (p->accumulate_dgain ? p->dgain[c] : 0));
        if (p->dbias) p->dbias[c] = (float)(bias + (p->accumulate_dbias ? p->dbias[c] : 0));
    }
}

void ref_norm_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_norm_grad_args *p = args;
    dtype residual = kernel_residual_type(p->type, p->residual_fp32);
    norm_grad_parameters(p);
    for (int64_t r = 0; p->dx && r < p->rows; r++) {
        double sum = 0, along = 0;
        for (int64_t c = 0; c < p->cols; c++) {
            double g = norm_grad_scaled(p, r, c);
            sum += g;
            along += g * norm_hat(p, r, c);
        }
        double mean = p->is_rms ? 0 : sum / (double)p->cols;
        along /= (double)p->cols;
        for (int64_t c = 0; c < p->cols; c++) {
            int64_t i = r * p->cols + c;
            double dx = p->rstd[r] * (norm_grad_scaled(p, r, c) - mean - norm_hat(p, r, c) * along);
            if (p->accumulate_dx) dx += ref_load(p->dx, i, residual);
            ref_store(p->dx, i, residual, (float)dx);
        }
    }
}
