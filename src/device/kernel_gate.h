// kernel_gate.h -- the specification of K_GATE and K_GATE_GRAD. A part of device/kernels.h, which has the conventions.
#ifndef TRIREME_DEVICE_KERNEL_GATE_H
#define TRIREME_DEVICE_KERNEL_GATE_H

#include "base/dtype.h"
#include "base/target.h"

#include <stdbool.h>
#include <stdint.h>

// K_GATE        y = f(gate) * n(x), element by element
//   f(gate) = 1 / (1 + exp(-gate)), or gate / (1 + exp(-gate)) with `silu`
//   n(x)    = x, or with a gain the RMS norm of each head of D columns: x * rstd * gain, where
//             rstd = 1 / sqrt(mean of x^2 over the head + eps)
// K_GATE_GRAD   y = dx and d_gate, from dy; dx may be dy
//   d_gain [D] (+)= sum over the rows and heads
typedef struct kernel_gate_args {
    int64_t rows, cols, head_dim; // head_dim: D, which divides cols; read with a gain
    const void *x, *gate, *dy;    // [rows, cols] of `type`; dy is read by the gradient only
    const void *gain;             // [D] of `type`; NULL: no norm
    void *y, *d_gate;             // [rows, cols] of `type`: y or dx; the gradient of the gate
    float *rstd;                  // [rows, cols / D]; K_GATE writes it; with a gain only
    float *d_gain;                // [D]; NULL: not wanted
    float eps;
    bool silu, accumulate_d_gain;
    dtype type;
} kernel_gate_args;

// The columns of a group that is normed together; all columns where there is no norm.
ON_DEVICE static inline int64_t kernel_gate_group(const kernel_gate_args *p)
{
    return p->gain ? p->head_dim : p->cols;
}

#endif
