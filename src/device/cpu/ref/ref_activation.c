// ref_activation.c -- reference of activations and gated activations, with their gradients.
#include "device/cpu/ref/ref.h"

#include <math.h>

static const double root_half = 0.70710678118654752440;        // 1/sqrt(2)
static const double root_two_over_pi = 0.79788456080286535588; // sqrt(2/pi)
static const double gelu_cubic = 0.044715;

double ref_activate(kernel_activation act, double x)
{
    switch (act) {
    case ACT_GELU:
        return 0.5 * x * (1 + erf(x * root_half));
    case ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(root_two_over_pi * (x + gelu_cubic * x * x * x)));
    case ACT_RELU:
        return x > 0 ? x : x * 0; // keeps NaN
    case ACT_RELU2:
        return x > 0 ? x * x : x * 0;
    case ACT_SILU:
        return x / (1 + exp(-x));
    case ACT_TANH:
        return tanh(x);
    case ACTIVATIONS:
        break;
    }
    return NAN;
}

double ref_activate_slope(kernel_activation act, double x)
{
    switch (act) {
    case ACT_GELU:
        return 0.5 * (1 + erf(x * root_half)) + 0.5 * x * root_two_over_pi * exp(-0.5 * x * x);
    case ACT_GELU_TANH: {
        double t = tanh(root_two_over_pi * (x + gelu_cubic * x * x * x));
        double inner = root_two_over_pi * (1 + 3 * gelu_cubic * x * x);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
    }
    case ACT_RELU:
        return x > 0 ? 1 : x * 0;
    case ACT_RELU2:
        return x > 0 ? 2 * x : x * 0;
    case ACT_SILU: {
        double s = 1 / (1 + exp(-x));
        return s * (1 + x * (1 - s));
    }
    case ACT_TANH: {
        double t = tanh(x);
        return 1 - t * t;
    }
    case ACTIVATIONS:
        break;
    }
    return NAN;
}

void ref_activation(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_activation_args *p = args;
    for (int64_t i = 0; i < p->count; i++)
        ref_store(p->y, i, p->type, (float)ref_activate(p->act, ref_load(p->x, i, p->type)));
}

void ref_activation_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_activation_args *p = args;
    for (int64_t i = 0; i < p->count; i++) {
        double slope = ref_activate_slope(p->act, ref_load(p->x, i, p->type));
        ref_store(p->y, i, p->type, (float)(slope * ref_load(p->dy, i, p->type)));
    }
}

void ref_glu(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_glu_args *p = args;
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t c = 0; c < p->cols; c++) {
            double gate = ref_load(p->x, r * 2 * p->cols + c, p->type);
            double up = ref_load(p->x, r * 2 * p->cols + p->cols + c, p->type);
            ref_store(p->y, r * p->cols + c, p->type, (float)(ref_activate(p->act, gate) * up));
        }
    }
}

void ref_glu_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_glu_args *p = args;
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t c = 0; c < p->cols; c++) {
            int64_t g = r * 2 * p->cols + c, u = g + p->cols; // of gate and up
            double gate = ref_load(p->x, g, p->type), up = ref_load(p->x, u, p->type);
            double dy = ref_load(p->dy, r * p->cols + c, p->type);
            ref_store(p->y, g, p->type, (float)(dy * up * ref_activate_slope(p->act, gate)));
            ref_store(p->y, u, p->type, (float)(dy * ref_activate(p->act, gate)));
        }
    }
}
