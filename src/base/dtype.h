// dtype.h -- element types, their sizes and conversions. It does not know tensors.
#ifndef TRIREME_BASE_DTYPE_H
#define TRIREME_BASE_DTYPE_H

#include "base/target.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum dtype { F32, BF16, F16, F64, I32, I64, U8, U16, DTYPES } dtype;

ON_DEVICE static inline size_t dtype_bytes(dtype t)
{
    return t == F64 || t == I64 ? 8 : t == F32 || t == I32 ? 4 : t == U8 ? 1 : 2;
}
// How weights are kept between uses: in the type that they compute in, or packed as NF4 (base/nf4.h).
typedef enum storage_type { STORAGE_COMPUTE, STORAGE_NF4 } storage_type;

const char *dtype_name(dtype t); // "fp32", "bf16", "fp16", "fp64", "int32", ...

static inline float bf16_to_float(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

// Rounds to nearest, ties to even. A NaN becomes a quiet NaN.
static inline uint16_t float_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float fp16_to_float(uint16_t h);
uint16_t float_to_fp16(float f); // rounds to nearest even; overflows to infinity

// Converts `count` elements between any two of F32, BF16, F16, F64 on the host.
// The ranges must not overlap unless the types are equal.
void dtype_convert(void *dst, dtype dst_type, const void *src, dtype src_type, size_t count);
// out [count]: x rounded to F32, BF16 or F16. out may be x.
void dtype_round(dtype type, const float *x, size_t count, float *out);

#endif
