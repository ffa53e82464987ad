// reduce.h -- the arithmetic of reductions: many arrays into one result.
//
// out[i] = src[0][i] op src[1][i] op … op src[n-1][i], in this order, with F32 accumulation for
// F32, BF16 and F16; each element by itself, so the result does not depend on how a buffer was cut
// or on the CPU. MAX and MIN of anything and a NaN is NaN.
#ifndef TRIREME_COMM_REDUCE_H
#define TRIREME_COMM_REDUCE_H

#include "comm/comm.h"

#include <stdbool.h>

bool reduce_supports(dtype t);

// Writes the result to each of `dsts`. A destination may be one of the sources (the same address),
// and must not overlap any in another way. Buffers need the alignment of their element only.
void reduce_arrays(void *const *dsts, int dst_count, const void *const *srcs, int src_count,
                   size_t count, dtype t, reduce_op op);

const char *reduce_op_name(reduce_op op); // "sum", "max", "min"

#endif
