// npy.h -- the head of a .npy file, NumPy's format 1.0 for one array.
#ifndef TRIREME_STORE_NPY_H
#define TRIREME_STORE_NPY_H

#include "base/dtype.h"
#include "base/text.h"

enum { NPY_DIMS_MAX = 8 };

// Appends the head of an array of `dims` (1 to NPY_DIMS_MAX) dimensions; its length is a multiple of
// 64. The caller appends the elements. Types: F32, F16, F64, I32, I64, U8; any other is E_INTERNAL.
status npy_header(dtype type, int dims, const int64_t *dim, text *out, err *e);

#endif
