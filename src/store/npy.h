// npy.h -- the head of a .npy file, NumPy's format 1.0 for one array. The elements follow it in C
// order, as they lie in memory.
#ifndef TRIREME_STORE_NPY_H
#define TRIREME_STORE_NPY_H

#include "base/dtype.h"
#include "base/text.h"

enum { NPY_DIMS_MAX = 8 };

// Appends magic, version and header of an array of `dims` (at most NPY_DIMS_MAX) dimensions. Its
// length is a multiple of 64. F32, F16, F64, I32, I64, U8: E_INTERNAL for a type that NumPy lacks.
status npy_head(dtype type, int dims, const int64_t *dim, text *out, err *e);

#endif
