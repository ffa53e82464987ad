// vec.h -- shared by the files vec_*.c: vectors of VEC_BYTES bytes with loads, stores and the few
// operations that C lacks, and the list of kernels that have a vector form.
//
// Each vec_*.c is compiled once per level of instructions, so every external name carries the
// level: VEC(norm) is vec_norm_avx2 or vec_norm_avx512. device/kernels.h says what each kernel
// computes.
//
// Numbers are fp32 in registers. v_load and v_store convert from and to BF16 and F16 in memory. The
// type is a constant at every call, so that the compiler removes the branch on it.
#ifndef TRIREME_DEVICE_CPU_VEC_H
#define TRIREME_DEVICE_CPU_VEC_H

#if VEC_BYTES == 32
#pragma GCC target("f16c") // part of our AVX2 level
#endif

#include "base/size.h"
#include "device/cpu/cpu.h"

#include <immintrin.h>
#include <string.h>

#define VEC_JOIN_(name, level) vec_##name##_##level
#define VEC_JOIN(name, level)  VEC_JOIN_(name, level)
#define VEC(name)              VEC_JOIN(name, CPU_LEVEL)
#define VEC_INLINE             static inline __attribute__((always_inline))

enum { VL = VEC_BYTES / 4 }; // floats in a vector

#if VEC_BYTES == 64
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vmask;
#define V_HALF     __m256i
#define V_OP(name) _mm512_##name
#else
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vmask;
#define V_HALF     __m128i
#define V_OP(name) _mm256_##name
#endif
typedef uint32_t vu __attribute__((vector_size(VEC_BYTES), may_alias)); // 32-bit words
typedef uint64_t vq __attribute__((vector_size(VEC_BYTES), may_alias)); // 64-bit words
typedef double vd __attribute__((vector_size(VEC_BYTES), may_alias));
typedef vi vi_any __attribute__((aligned(1))); // at any address

// ---- constants and operations on lanes

VEC_INLINE vf v_set(float x)
{
    return V_OP(set1_ps)(x);
}

VEC_INLINE vf v_zero(void)
{
    return V_OP(setzero_ps)();
}

VEC_INLINE vf v_sqrt(vf x)
{
    return V_OP(sqrt_ps)(x);
}

// a * b + c, rounded once. Elsewhere the compiler chooses which product of a sum it joins with the addition.
VEC_INLINE vf v_fma(vf a, vf b, vf c)
{
    return V_OP(fmadd_ps)(a, b, c);
}

// max and min return b when either is NaN.
VEC_INLINE vf v_max(vf a, vf b)
{
    return V_OP(max_ps)(a, b);
}

VEC_INLINE vf v_min(vf a, vf b)
{
    return V_OP(min_ps)(a, b);
}

VEC_INLINE vf v_from_int(vi x)
{
    return V_OP(cvtepi32_ps)(x);
}

VEC_INLINE vi v_as_int(vf x)
{
    return (vi)x;
}

VEC_INLINE vf v_as_float(vi x)
{
    return (vf)x;
}

VEC_INLINE vi v_set_int(int32_t x)
{
    return V_OP(set1_epi32)(x);
}

// 0, 1, 2, …
VEC_INLINE vi v_iota(void)
{
    static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return *(const vi_any *)lanes;
}

#if VEC_BYTES == 64
VEC_INLINE vf v_round(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vmask v_less(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
VEC_INLINE vmask v_not_number(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
VEC_INLINE vmask v_first_lanes(int64_t n)
{
    return (vmask)(n >= VL ? 0xffff : (1u << (n > 0 ? n : 0)) - 1);
}
// mask ? a : b
VEC_INLINE vf v_pick(vmask mask, vf a, vf b)
{
    return _mm512_mask_blend_ps(mask, b, a);
}
VEC_INLINE vf v_keep(vmask mask, vf a)
{
    return _mm512_maskz_mov_ps(mask, a);
}
VEC_INLINE float v_sum(vf x)
{
    return _mm512_reduce_add_ps(x);
}
VEC_INLINE float v_top(vf x)
{
    return _mm512_reduce_max_ps(x);
}
VEC_INLINE double v_sum_double(vd x)
{
    return _mm512_reduce_add_pd((__m512d)x);
}
VEC_INLINE vd v_low_double(vf x)
{
    return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
VEC_INLINE vd v_high_double(vf x)
{
    return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}
#else
VEC_INLINE vf v_round(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vmask v_less(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
VEC_INLINE vmask v_not_number(vf a)
{
    return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}
VEC_INLINE vmask v_first_lanes(int64_t n)
{
    return (vmask)_mm256_cmpgt_epi32(v_set_int((int32_t)n), v_iota());
}
VEC_INLINE vf v_pick(vmask mask, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, mask);
}
VEC_INLINE vf v_keep(vmask mask, vf a)
{
    return _mm256_and_ps(mask, a);
}
VEC_INLINE float v_sum(vf x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
VEC_INLINE float v_top(vf x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
VEC_INLINE double v_sum_double(vd x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}
VEC_INLINE vd v_low_double(vf x)
{
    return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
VEC_INLINE vd v_high_double(vf x)
{
    return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}
#endif

// ---- memory

// The bits of x as BF16: rounded to nearest, ties to even. NaN stays a quiet NaN.
VEC_INLINE vi v_bf16_bits(vf x)
{
    vu u = (vu)x;
    vu rounded = u + 0x7fffu + ((u >> 16) & 1u);
    vu kept = (vu)v_pick(v_not_number(x), (vf)(u | 0x400000u), (vf)rounded);
    return (vi)(kept >> 16);
}

VEC_INLINE vf v_unpack(V_HALF h, dtype type)
{
    if (type == F16) return V_OP(cvtph_ps)(h);
    return (vf)((vu)V_OP(cvtepu16_epi32)(h) << 16);
}

VEC_INLINE V_HALF v_pack(vf x, dtype type)
{
    if (type == F16) return V_OP(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vi bits = v_bf16_bits(x);
#if VEC_BYTES == 64
    return _mm512_cvtepi32_epi16(bits);
#else
    return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
#endif
}

// x rounded to `type`. The compiler may not join what computed x with what follows, as it does with a
// product and a sum.
VEC_INLINE vf v_round_to(vf x, dtype type)
{
    if (type != F32) return v_unpack(v_pack(x, type), type);
    __asm__("" : "+x"(x));
    return x;
}

// Elements i … i+VL-1 of an F32, BF16 or F16 array.
VEC_INLINE vf v_load(const void *p, int64_t i, dtype type)
{
    if (type == F32) return V_OP(loadu_ps)((const float *)p + i);
    V_HALF h;
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return v_unpack(h, type);
}

VEC_INLINE void v_store(void *p, int64_t i, dtype type, vf x)
{
    if (type == F32) {
        V_OP(storeu_ps)((float *)p + i, x);
    } else {
        V_HALF h = v_pack(x, type);
        memcpy((uint16_t *)p + i, &h, sizeof h);
    }
}

// v_load and v_store of the first n lanes only. The other lanes are read as 0 and are not written.
// n == VL is the full vector. Where n is a constant, the branch costs nothing.
VEC_INLINE vf v_load_n(const void *p, int64_t i, int64_t n, dtype type)
{
    if (n >= VL) return v_load(p, i, type);
    if (type == F32) {
        float copy[VL] __attribute__((aligned(VEC_BYTES))) = {0};
        for (int64_t l = 0; l < n; l++) copy[l] = ((const float *)p)[i + l];
        return v_load(copy, 0, F32);
    }
    uint16_t copy[VL] __attribute__((aligned(VEC_BYTES))) = {0};
    for (int64_t l = 0; l < n; l++) copy[l] = ((const uint16_t *)p)[i + l];
    return v_load(copy, 0, type);
}

VEC_INLINE void v_store_n(void *p, int64_t i, int64_t n, dtype type, vf x)
{
    if (n >= VL) {
        v_store(p, i, type, x);
        return;
    }
    float copy[VL] __attribute__((aligned(VEC_BYTES)));
    v_store(copy, 0, type, x);
    if (type == F32) {
        for (int64_t l = 0; l < n; l++) ((float *)p)[i + l] = copy[l];
    } else {
        memcpy((uint16_t *)p + i, copy, sizeof(uint16_t) * (size_t)n);
    }
}

// Runs BODY(i, n) over the elements [first, last): for full vectors with n == VL, then for the
// rest.
#define V_EACH(i, first, last, BODY)                                                               \
    do {                                                                                           \
        int64_t i = (first);                                                                       \
        for (; i + VL <= (last); i += VL) BODY(i, VL);                                             \
        if (i < (last)) BODY(i, (last)-i);                                                         \
    } while (0)

// The address of element i of an array of F32, or of a 16-bit type.
static inline void *vec_at(const void *p, int64_t i, dtype type)
{
    return (unsigned char *)(uintptr_t)p + (type == F32 ? 4 : 2) * i;
}

// ---- the type of a call

// CALL(type) with the constant that `type` is equal to.
#define V_BY_TYPE(type, CALL)                                                                      \
    do {                                                                                           \
        if ((type) == F32) CALL(F32);                                                              \
        if ((type) == BF16) CALL(BF16);                                                            \
        if ((type) == F16) CALL(F16);                                                              \
    } while (0)

// CALL(type, type of the residual), both constants. `residual` is the flag residual_fp32.
#define V_BY_RESIDUAL(type, residual, CALL)                                                        \
    do {                                                                                           \
        if ((type) == F32) CALL(F32, F32);                                                         \
        if ((type) == BF16 && !(residual)) CALL(BF16, BF16);                                       \
        if ((type) == BF16 && (residual)) CALL(BF16, F32);                                         \
        if ((type) == F16 && !(residual)) CALL(F16, F16);                                          \
        if ((type) == F16 && (residual)) CALL(F16, F32);                                           \
    } while (0)

// ---- the team

// Does items [first, last) of a kernel's work on one thread of the team. A thread may run several
// such ranges.
typedef void (*vec_part)(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread);

// The least number of elements, at little work each, for which it pays to wake a thread.
enum { VEC_WORTH = 8192 };

// The least number of items, of `cost` elements each, for which it pays to wake a thread.
static inline int64_t vec_grain(int64_t cost)
{
    return 1 + VEC_WORTH / (1 + cost);
}

// Runs `part` on the items [0, count), divided over the team at multiples of `grain`. The result
// must not depend on how they are divided.
void VEC(share)(const cpu_context *x, const void *args, int64_t count, int64_t grain,
                vec_part part);

// ---- segments of a launch

// A piece of one segment. Start with zeros.
typedef struct vec_piece {
    int64_t next;                  // the segment after this piece's
    int64_t grains;                // of the segments before that
    const kernel_segment *segment; // this piece's
    int64_t first, last;           // elements first … last-1 of the segment
} vec_piece;

// Each segment is cut into grains by itself, so no cut depends on other segments.
static inline int64_t vec_segment_grains(const kernel_segment *s, int64_t segments, int64_t grain)
{
    int64_t grains = 0;
    for (int64_t i = 0; i < segments; i++) grains += size_ceil_div(s[i].count, grain);
    return grains;
}

// Advances *c to the next piece of grains first … last-1 of a table. Returns false at the end.
static inline bool vec_next_piece(const kernel_segment *s, int64_t segments, int64_t grain,
                                  int64_t first, int64_t last, vec_piece *c)
{
    while (c->next < segments && c->grains < last) {
        const int64_t before = c->grains;
        c->segment = &s[c->next++];
        c->grains += size_ceil_div(c->segment->count, grain);
        c->first = size_max(first - before, 0) * grain;
        c->last = size_min((last - before) * grain, c->segment->count);
        if (c->first < c->last) return true;
    }
    return false;
}

// Divides the grains of a table over the team, as vec_part. Small work stays on one thread.
static inline void vec_share_segments(const cpu_context *x, const void *args,
                                      const kernel_segment *s, int64_t segments, int64_t grain,
                                      int64_t count, vec_part part)
{
    const int64_t grains = vec_segment_grains(s, segments, grain);
    VEC(share)(x, args, grains, count <= grain ? size_max(grains, 1) : 1, part);
}

// Writes the random words of `key` for elements index0 … index0+n-1 into scratch, which holds
// n + 4*VL + 4 words. Returns the address of the first one in scratch.
const uint32_t *VEC(random)(rng_key key, uint64_t index0, int64_t n, uint32_t *scratch);

// ---- kernels

void VEC(bias_grad)(const cpu_context *x, const void *args);
void VEC(embedding)(const cpu_context *x, const void *args);
void VEC(embedding_grad)(const cpu_context *x, const void *args);
void VEC(norm)(const cpu_context *x, const void *args);
void VEC(norm_grad)(const cpu_context *x, const void *args);
void VEC(qk_norm)(const cpu_context *x, const void *args);
void VEC(qk_norm_sums)(const cpu_context *x, const void *args);
void VEC(qk_norm_grad)(const cpu_context *x, const void *args);
void VEC(rope)(const cpu_context *x, const void *args);
void VEC(attention)(const cpu_context *x, const void *args);
void VEC(attention_grad)(const cpu_context *x, const void *args);
void VEC(causal_conv)(const cpu_context *x, const void *args);
void VEC(causal_conv_grad)(const cpu_context *x, const void *args);
void VEC(delta_rule)(const cpu_context *x, const void *args);
void VEC(delta_rule_grad)(const cpu_context *x, const void *args);
void VEC(gate)(const cpu_context *x, const void *args);
void VEC(gate_grad)(const cpu_context *x, const void *args);
void VEC(activation)(const cpu_context *x, const void *args);
void VEC(activation_grad)(const cpu_context *x, const void *args);
void VEC(glu)(const cpu_context *x, const void *args);
void VEC(glu_grad)(const cpu_context *x, const void *args);
void VEC(value_norm)(const cpu_context *x, const void *args);
void VEC(value_norm_grad)(const cpu_context *x, const void *args);
void VEC(xielu)(const cpu_context *x, const void *args);
void VEC(xielu_grad)(const cpu_context *x, const void *args);
void VEC(unpack_nf4)(const cpu_context *x, const void *args);
void VEC(add)(const cpu_context *x, const void *args);
void VEC(dropout)(const cpu_context *x, const void *args);
void VEC(init)(const cpu_context *x, const void *args);
void VEC(cross_entropy)(const cpu_context *x, const void *args);
void VEC(cross_entropy_stats)(const cpu_context *x, const void *args);
void VEC(square_error)(const cpu_context *x, const void *args);
void VEC(sum_squares)(const cpu_context *x, const void *args);
void VEC(update)(const cpu_context *x, const void *args);
void VEC(convert)(const cpu_context *x, const void *args);
void VEC(copy_rows)(const cpu_context *x, const void *args);
void VEC(fill)(const cpu_context *x, const void *args);
void VEC(digest)(const cpu_context *x, const void *args);
void VEC(orthogonalize)(const cpu_context *x, const void *args);

#endif
