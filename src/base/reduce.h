// reduce.h -- the arithmetic of reductions: many arrays are reduced to one.
//
// Called by the local communicator, by the cpu device for K_REDUCE, and by the tests. It knows neither
// ranks nor shared memory.
//
// The sum of sources lo … hi-1 is a fixed binary tree:
//   sum(lo, hi) = sum(lo, mid) + sum(mid, hi), where mid - lo is the largest power of two < hi - lo
// Each element is summed by itself. So the result depends neither on how a buffer is divided into
// calls nor on the CPU. F32, BF16 and F16 are summed in F32 and rounded once. MAX and MIN use the
// same tree, and give NaN where any source is NaN.
#ifndef TRIREME_BASE_REDUCE_H
#define TRIREME_BASE_REDUCE_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum reduce_op { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN } reduce_op;

enum { REDUCE_SOURCES = 4096 };

bool reduce_supports(dtype t);

// Writes the reduction of srcs [src_count][count] to every one of dsts [dst_count][count].
// src_count is 1 to REDUCE_SOURCES. A destination may be one of the sources (the same address), and
// must not overlap any source otherwise. Buffers are aligned to their element.
void reduce_arrays(void *const *dsts, int dst_count, const void *const *srcs, int src_count,
                   size_t count, dtype t, reduce_op op);

const char *reduce_op_name(reduce_op op); // "sum", "max", "min"

#endif
