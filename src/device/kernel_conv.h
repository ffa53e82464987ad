// kernel_conv.h -- the specification of K_CAUSAL_CONV and K_CAUSAL_CONV_GRAD. A part of device/kernels.h, which has
// the conventions.
#ifndef TRIREME_DEVICE_KERNEL_CONV_H
#define TRIREME_DEVICE_KERNEL_CONV_H

#include "base/dtype.h"
#include "device/kernel_tokens.h"

#include <stdbool.h>
#include <stdint.h>

enum { KERNEL_CONV_WIDTH = 8 }; // taps of a column, at most

// A causal convolution along the tokens of each sequence. Each of the F columns has W taps of its own. For row r of
// y at position t:
//   u [r, c] = bias [c] + sum over i < W of w [c, i] * z (t - (W-1) + i, c)
//   y [r, c] = u, or u / (1 + exp(-u)) with `silu`        with z (j, c) = x [j, c]
//   y [r, c] = after * u, where `gated`                   with z (j, c) = before * x
// z is 0 before the row's document. `gated`: a row of x holds before, after and x, F columns of each, and there is no
// silu. x has full_seq tokens of each sequence, and all tokens before these when a sequence is decoded.
typedef struct kernel_causal_conv_args {
    int64_t batch, cols, width; // B, F, W
    kernel_tokens rows;         // the tokens of the rows of y; first_row is 0
    int64_t x_stride, x_batch;  // elements from one token, and from one sequence, to the next
    const void *x;              // [B, tokens, F or 3 F] of `type`; points to position 0
    const void *w, *bias;       // [F, W] and [F] of `type`; bias NULL: none
    void *y;                    // [B * rows.seq, F] of `type`
    bool gated, silu;
    dtype type;
} kernel_causal_conv_args;

// The gradients of kernel_causal_conv_args. dx is overwritten for full_seq tokens of each sequence; it has the summands
// of the rows of y alone. dw and dbias are sums over these rows. y is not read.
typedef struct kernel_causal_conv_grad_args {
    kernel_causal_conv_args fwd;
    const void *dy;    // [B * rows.seq, F] of `type`
    void *dx;          // strides of x; NULL: not wanted
    float *dw, *dbias; // [F, W] and [F]; each NULL: not wanted
    bool accumulate_dw, accumulate_dbias;
} kernel_causal_conv_grad_args;

// The first tap of row r of y, at position `position`, that reads its document.
ON_DEVICE static inline int64_t kernel_conv_first_tap(const kernel_causal_conv_args *p, int64_t r,
                                                      int64_t position)
{
    const int64_t hidden = kernel_document_start(&p->rows, r) - (position - (p->width - 1));
    return hidden > 0 ? hidden : 0;
}

#endif
