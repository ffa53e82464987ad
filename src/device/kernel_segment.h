// kernel_segment.h -- which parts of many tensors one launch works on. K_SUM_SQUARES, K_UPDATE and
// K_CONVERT take segments; their arguments in kernels.h say what each offset means to them. The trainer
// makes the tables (train/segments.h). It does not know what a tensor is.
#ifndef TRIREME_DEVICE_KERNEL_SEGMENT_H
#define TRIREME_DEVICE_KERNEL_SEGMENT_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A run of elements in the arrays of a launch. A *segment table* is an array of them in device
// memory, which the caller makes once and keeps. Segments are processed as if each had a launch of
// its own, in the order of the table; they do not overlap in an array that is written. `segment`
// NULL in a call says that its arrays are one segment from their first element on.
typedef struct kernel_segment {
    int64_t count;    // elements
    int64_t src, dst; // its first element in the array that is read, and in the one that is written
    int64_t state;    // K_UPDATE: its first element in the optimizer state
    bool decays;      // K_UPDATE: weight_decay applies to it; if not, it counts as 0
} kernel_segment;

// The address of element i of an array of `type`; NULL where there is no array.
ON_DEVICE static inline void *kernel_element(const void *array, int64_t i, dtype type)
{
    return array ? (char *)(uintptr_t)array + i * (int64_t)dtype_bytes(type) : NULL;
}

#endif
