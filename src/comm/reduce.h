// reduce.h -- the arithmetic of reductions: many arrays into one result.
//
// sum(lo, hi) = sum(lo, mid) + sum(mid, hi) over sources lo … hi-1, where mid - lo is the largest
// power of two below hi - lo; each element by itself, so the result does not depend on how a buffer
// was cut or on the CPU. F32, BF16 and F16 are accumulated in F32 and rounded once. MAX and MIN go
// through the same tree; with a NaN they are NaN.
#ifndef TRIREME_COMM_REDUCE_H
#define TRIREME_COMM_REDUCE_H

#include "comm/comm.h"

#include <stdbool.h>

enum { REDUCE_SOURCES = 256 };

bool reduce_supports(dtype t);

// Writes the result of 1 to REDUCE_SOURCES arrays to each of `dsts`. A destination may be one of
// the sources (the same address), and must not overlap any in another way. Buffers need the
// alignment of their element only.
void reduce_arrays(void *const *dsts, int dst_count, const void *const *srcs, int src_count,
                   size_t count, dtype t, reduce_op op);

const char *reduce_op_name(reduce_op op); // "sum", "max", "min"

#endif
