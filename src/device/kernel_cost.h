// kernel_cost.h -- the cost of a kernel call: floating-point operations, bytes, and the sizes by which its efficiency is
// looked up. It follows from the call's shapes alone, so a plan can ask before any device is open.
//
// `bench kernels`, the planner and its calibration call it. It knows no device and no seconds.
#ifndef TRIREME_DEVICE_KERNEL_COST_H
#define TRIREME_DEVICE_KERNEL_COST_H

#include "device/kernels.h"

enum { KERNEL_COST_SIZES = 3 };

typedef struct kernel_cost {
    kernel_kind kind;
    dtype type; // of activations and compute weights
    // Forms of one kind that differ in speed: of K_MATMUL which factors are transposed, and so on; 0 where there is one.
    int form;
    double
        flops; // of matrix products, where a multiply-add counts as two; 0 for kernels without any
    double bytes; // of arrays, each read or written once
    // The sizes of the call, outermost first: m, n, k of a product; sequences times heads, tokens, head_dim of
    // attention; rows, cols of a norm; elements of a kernel that works element by element. 1 where there is none.
    double size[KERNEL_COST_SIZES];
} kernel_cost;

// The form of a product.
static inline int kernel_cost_matmul_form(bool trans_a, bool trans_b, kernel_epilogue epilogue)
{
    return 4 * (int)epilogue + (trans_a ? 2 : 0) + (trans_b ? 1 : 0);
}

// Of pointers it reads only whether they are NULL, and whether two are equal. A call over a segment table needs the elements of the table in its
// count.
kernel_cost kernel_cost_of(const kernel_call *c);

#endif
