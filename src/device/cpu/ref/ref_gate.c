// ref_gate.c -- reference of the gate of a value, with or without a norm, and of its gradients. Sums are taken in double.
#include "device/cpu/ref/ref.h"

static double gate_of(const kernel_gate_args *p, double g, double *slope)
{
    const double s = 1 / (1 + exp(-g));
    *slope = p->silu ? s + g * s * (1 - s) : s * (1 - s);
    return p->silu ? g * s : s;
}

void ref_gate(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_gate_args *p = args;
    const int64_t group = kernel_gate_group(p);
    double slope;
    for (int64_t first = 0; first < p->rows * p->cols; first += group) {
        double square = 0, rstd = 1;
        for (int64_t i = first; i < first + group && p->gain; i++)
            square += pow((double)ref_load(p->x, i, p->type), 2);
        if (p->gain) {
            rstd = 1 / sqrt(square / (double)group + p->eps);
            p->rstd[first / group] = (float)rstd;
        }
        for (int64_t i = first; i < first + group; i++)
            ref_store(p->y, i, p->type,
                      (ref_real)(gate_of(p, (double)ref_load(p->gate, i, p->type), &slope) * rstd *
                                 (double)ref_load(p->x, i, p->type) *
                                 ref_gain(p->gain, i - first, false, p->type)));
    }
}

// The sum over rows and heads of the gradient of column c of the gain.
static double gain_sum(const kernel_gate_args *p, int64_t c)
{
    double sum = 0, slope;
    for (int64_t i = c; i < p->rows * p->cols; i += p->head_dim)
        sum += (double)ref_load(p->dy, i, p->type) *
               gate_of(p, (double)ref_load(p->gate, i, p->type), &slope) *
               (double)ref_load(p->x, i, p->type) * p->rstd[i / p->head_dim];
    return sum;
}

void ref_gate_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_gate_args *p = args;
    const int64_t group = kernel_gate_group(p);
    double slope;
    for (int64_t c = 0; c < p->head_dim && p->d_gain; c++)
        p->d_gain[c] = (float)(gain_sum(p, c) + (p->accumulate_d_gain ? p->d_gain[c] : 0));
    for (int64_t first = 0; first < p->rows * p->cols; first += group) {
        const double rstd = p->gain ? p->rstd[first / group] : 1;
        double mean = 0;
        for (int64_t pass = p->gain ? 0 : 1; pass < 2; pass++)
            for (int64_t i = first; i < first + group; i++) {
                const double dy = ref_load(p->dy, i, p->type),
                             gain = ref_gain(p->gain, i - first, false, p->type),
                             hat = (double)ref_load(p->x, i, p->type) * rstd,
                             f = gate_of(p, (double)ref_load(p->gate, i, p->type), &slope);
                if (pass == 0) {
                    mean += dy * f * gain * hat / (double)group;
                    continue;
                }
                ref_store(p->d_gate, i, p->type, (ref_real)(dy * hat * gain * slope));
                ref_store(p->y, i, p->type, (ref_real)(rstd * (dy * f * gain - hat * mean)));
            }
    }
}
