// gradient_check.h -- compares a gradient of the reference with central differences of its forward pass:
// directional derivatives of sum(weight * y) along random directions. They are taken by the five-point
// formula, whose error at this step is below the rounding of fp32.
#ifndef TRIREME_TESTS_DEVICE_GRADIENT_CHECK_H
#define TRIREME_TESTS_DEVICE_GRADIENT_CHECK_H

#include "unit/device/harness.h"

static cpu_context context;
static cpu_kernels kernels; // references

static inline void run(kernel_kind kind, const void *args)
{
    kernels.run[kind](&context, args);
}

// One op under test: a function that computes the loss, and one variable with the gradient to
// check.
typedef struct claim {
    double (*loss)(void *op);
    void *op;
    float *x;
    const float *gradient;
    int64_t count;
} claim;

static inline double loss_along(const claim *c, const float *at, const float *along, double step)
{
    for (int64_t i = 0; i < c->count; i++) c->x[i] = (float)(at[i] + step * along[i]);
    return c->loss(c->op);
}

// The largest error of four directional derivatives, in units of the error that fp32 rounding
// explains.
static inline double gradient_error(const claim *c)
{
    float *at = malloc(sizeof(float) * (size_t)c->count);
    memcpy(at, c->x, sizeof(float) * (size_t)c->count);
    const double h = 0.02;
    double worst = 0;
    for (uint64_t direction = 0; direction < 4; direction++) {
        float *along = harness_random(c->count, 1000 + direction);
        double claimed = 0, scale = 0;
        for (int64_t i = 0; i < c->count; i++) {
            double term = (double)c->gradient[i] * along[i];
            claimed += term;
            scale += term * term;
        }
        double near = loss_along(c, at, along, h) - loss_along(c, at, along, -h);
        double far = loss_along(c, at, along, 2 * h) - loss_along(c, at, along, -2 * h);
        double measured = (8 * near - far) / (12 * h);
        worst = fmax(worst, fabs(measured - claimed) / (5e-4 * sqrt(scale) + 1e-4));
        free(along);
    }
    memcpy(c->x, at, sizeof(float) * (size_t)c->count);
    free(at);
    return worst;
}

static inline void assert_gradient(const claim *c)
{
    double error = gradient_error(c);
    if (!(error <= 1)) fail_msg("the gradient is off by %.3g times what rounding explains", error);
}

static inline double weighted(const float *y, const float *weight, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)y[i] * weight[i];
    return sum;
}

static inline int gradient_open(void **state)
{
    (void)state;
    context = harness_open(1);
    ref_kernels_fill(&kernels);
    return 0;
}

static inline int gradient_close(void **state)
{
    (void)state;
    cpu_context_close(&context);
    return 0;
}

#endif
