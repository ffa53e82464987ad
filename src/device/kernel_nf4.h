// kernel_nf4.h -- the specification of K_UNPACK_NF4. A part of device/kernels.h, which has the conventions.
#ifndef TRIREME_DEVICE_KERNEL_NF4_H
#define TRIREME_DEVICE_KERNEL_NF4_H

#include "base/dtype.h"

#include <stdint.h>

// y [r, c] = the value of element c of packed row r: NF4_VALUE[code] * absmax of its block, where
// absmax = scale value * maximum + mean. Each product and the sum are rounded to fp32 by themselves, so the values are
// bitsandbytes' on every device. base/nf4.h has the bytes of a packed row.
typedef struct kernel_unpack_nf4_args {
    int64_t rows, cols; // cols is a multiple of NF4_BLOCK
    const void *packed; // [rows, nf4_row_words(cols)] words
    void *y;            // [rows, cols] of `type`
    dtype type;
} kernel_unpack_nf4_args;

#endif
