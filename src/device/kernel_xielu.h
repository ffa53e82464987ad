// kernel_xielu.h -- the specification of K_XIELU and K_XIELU_GRAD. A part of device/kernels.h, which has the
// conventions.
#ifndef TRIREME_DEVICE_KERNEL_XIELU_H
#define TRIREME_DEVICE_KERNEL_XIELU_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

// xIELU, an activation with two learned numbers (Huang and Schlag 2024).
//   K_XIELU        y = a x^2 + beta x for x > 0, and y = b n(x) + beta x for others, where
//                  n(x) = expm1(min(x, eps)) - x
//                  a = log(1 + exp(alpha_p)),  b = beta + log(1 + exp(alpha_n))
//   K_XIELU_GRAD   y = dx = f'(x) * dy, where min(x, eps) has the slope 1 below eps, else 0
//                  d_alpha_p (+)= s(alpha_p) * sum of dy x^2 over x > 0
//                  d_alpha_n (+)= s(alpha_n) * sum of dy n(x) over the others,  s(x) = 1 / (1 + exp(-x))
typedef struct kernel_xielu_args {
    int64_t count;
    const void *x, *dy;                         // [count] of `type`; the gradient alone reads dy
    const void *alpha_p, *alpha_n, *beta, *eps; // [1] of `type`
    void *y;                      // [count] of `type`: y or dx; dx may be dy; dx NULL: not wanted
    float *d_alpha_p, *d_alpha_n; // [1]; NULL: not wanted
    bool accumulate_d_alpha_p, accumulate_d_alpha_n;
    dtype type;
} kernel_xielu_args;

#endif
