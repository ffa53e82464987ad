// dtype.c -- sizes, names and host conversions of element types. Stores, checkpoints and tests call
// it; devices have their own conversions. The loops have no branches, so that they vectorize.
#include "base/dtype.h"

static const char *const NAMES[DTYPES] = {
    [F32] = "fp32",  [BF16] = "bf16", [F16] = "fp16", [F64] = "fp64",
    [I32] = "int32", [I64] = "int64", [U8] = "uint8", [U16] = "uint16"};

const char *dtype_name(dtype t)
{
    return NAMES[t];
}

static inline float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

// Evaluates both sides, because a branch would prevent vectorization of the loops.
static inline uint32_t choose(int condition, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

static inline float half_widen(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, body = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t normal = body + (112u << 23);
    // Infinity, or a NaN made quiet.
    uint32_t special = (body + (224u << 23)) | (body > 0x0f800000u ? 0x400000u : 0u);
    // Computes 2^-14 + subnormal, minus 2^-14. The addition normalizes the number.
    uint32_t tiny = float_bits(bits_float(body + (113u << 23)) - 0x1p-14f);
    uint32_t magnitude = choose(body >= 0x0f800000u, special, normal);
    magnitude = choose(body < 0x00800000u, tiny, magnitude);
    return bits_float(sign | magnitude);
}

static inline uint16_t half_narrow(float f)
{
    uint32_t u = float_bits(f), sign = (u >> 16) & 0x8000u, body = u & 0x7fffffffu;
    uint32_t normal = (body - (112u << 23) + 0xfffu + ((body >> 13) & 1u)) >> 13;
    // The addition of 0.5 shifts a subnormal fp16 number into the low bits and rounds it.
    uint32_t tiny = float_bits(bits_float(body) + 0.5f) - 0x3f000000u;
    uint32_t special = body > 0x7f800000u ? 0x7e00u | ((body >> 13) & 0x3ffu) : 0x7c00u;
    uint32_t magnitude = choose(body >= 0x47800000u, special, normal);
    magnitude = choose(body < 0x38800000u, tiny, magnitude);
    return (uint16_t)(sign | magnitude);
}

// Converts double to float and rounds to odd. A second rounding, to 16 bits, then gives the same
// result as one rounding from double to 16 bits.
static inline float round_to_odd(double d)
{
    float f = (float)d;
    double back = (double)f;
    uint32_t u = float_bits(f), odd;
    double larger = back < 0 ? -back : back, exact = d < 0 ? -d : d;
    odd = (larger > exact ? u - 1 : u) | 1u;
    return back == d || d != d ? f : bits_float(odd);
}

float fp16_to_float(uint16_t h)
{
    return half_widen(h);
}

uint16_t float_to_fp16(float f)
{
    return half_narrow(f);
}

#define CONVERT(name, from, to, expression)                                                        \
    static void name(void *restrict dst, const void *restrict src, size_t n)                       \
    {                                                                                              \
        const from *restrict s = src;                                                              \
        to *restrict d = dst;                                                                      \
        for (size_t i = 0; i < n; i++) {                                                           \
            from x = s[i];                                                                         \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }

CONVERT(f32_to_bf16, float, uint16_t, float_to_bf16(x))
CONVERT(f32_to_f16, float, uint16_t, half_narrow(x))
CONVERT(f32_to_f64, float, double, (double)x)
CONVERT(bf16_to_f32, uint16_t, float, bf16_to_float(x))
CONVERT(bf16_to_f16, uint16_t, uint16_t, half_narrow(bf16_to_float(x)))
CONVERT(bf16_to_f64, uint16_t, double, (double)bf16_to_float(x))
CONVERT(f16_to_f32, uint16_t, float, half_widen(x))
CONVERT(f16_to_bf16, uint16_t, uint16_t, float_to_bf16(half_widen(x)))
CONVERT(f16_to_f64, uint16_t, double, (double)half_widen(x))
CONVERT(f64_to_f32, double, float, (float)x)
CONVERT(f64_to_bf16, double, uint16_t, float_to_bf16(round_to_odd(x)))
CONVERT(f64_to_f16, double, uint16_t, half_narrow(round_to_odd(x)))

void dtype_convert(void *dst, dtype dst_type, const void *src, dtype src_type, size_t count)
{
    static void (*const by_types[F64 + 1][F64 + 1])(void *restrict, const void *restrict,
                                                    size_t) = {
        [F32] = {[BF16] = f32_to_bf16, [F16] = f32_to_f16, [F64] = f32_to_f64},
        [BF16] = {[F32] = bf16_to_f32, [F16] = bf16_to_f16, [F64] = bf16_to_f64},
        [F16] = {[F32] = f16_to_f32, [BF16] = f16_to_bf16, [F64] = f16_to_f64},
        [F64] = {[F32] = f64_to_f32, [BF16] = f64_to_bf16, [F16] = f64_to_f16},
    };
    if (dst_type == src_type) {
        if (count) memmove(dst, src, count * dtype_bytes(src_type));
        return;
    }
    by_types[src_type][dst_type](dst, src, count);
}

void dtype_round(dtype type, const float *x, size_t count, float *out)
{
    enum { RUN = 64 };
    uint16_t stored[RUN];
    if (type == F32 && count) memmove(out, x, count * sizeof *x);
    for (size_t i = 0; i < count && type != F32; i += RUN) {
        const size_t n = count - i < RUN ? count - i : RUN;
        dtype_convert(stored, type, x + i, F32, n);
        dtype_convert(out + i, F32, stored, type, n);
    }
}
