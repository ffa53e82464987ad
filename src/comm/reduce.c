// reduce.c -- reductions of several arrays, one block of the first-level cache at a time.
//
// Called by the local communicator. Plain loops, compiled for three CPU levels, which give the same
// bits: there are additions and comparisons only, nothing to contract. Knows nothing of ranks or
// shared memory.
#include "comm/reduce.h"

#include <string.h>

enum { BLOCK = 1024 };

#define INLINE static inline __attribute__((always_inline))

bool reduce_supports(dtype t)
{
    return t == F32 || t == BF16 || t == F16 || t == F64 || t == I64;
}

const char *reduce_op_name(reduce_op op)
{
    return op == REDUCE_SUM ? "sum" : op == REDUCE_MAX ? "max" : "min";
}

// `from` as floats: where they lie, or widened into `room`.
INLINE const float *as_floats(float *room, const char *from, size_t n, dtype t)
{
    if (t == F32) return (const float *)from;
    if (t == BF16)
        for (size_t i = 0; i < n; i++) room[i] = bf16_to_float(((const uint16_t *)from)[i]);
    else
        dtype_convert(room, F32, from, F16, n);
    return room;
}

// The reverse, for reading.
INLINE const void *from_floats(uint16_t *room, const float *x, size_t n, dtype t)
{
    if (t == F32) return x;
    if (t == BF16)
        for (size_t i = 0; i < n; i++) room[i] = float_to_bf16(x[i]);
    else
        dtype_convert(room, F16, x, F32, n);
    return room;
}

// x enters when it wins, and when it is NaN; a NaN that is in stays, for no comparison takes it
// out.
#define DEFINE_COMBINE(name, type)                                                                 \
    INLINE void name(type *restrict acc, const type *restrict x, size_t n, reduce_op op)           \
    {                                                                                              \
        if (op == REDUCE_SUM)                                                                      \
            for (size_t i = 0; i < n; i++) acc[i] += x[i];                                         \
        else if (op == REDUCE_MAX)                                                                 \
            for (size_t i = 0; i < n; i++) acc[i] = x[i] > acc[i] || x[i] != x[i] ? x[i] : acc[i]; \
        else                                                                                       \
            for (size_t i = 0; i < n; i++) acc[i] = x[i] < acc[i] || x[i] != x[i] ? x[i] : acc[i]; \
    }
DEFINE_COMBINE(combine_floats, float)
DEFINE_COMBINE(combine_doubles, double)
// Summed unsigned, because a sum may wrap around.
INLINE void combine_integers(int64_t *restrict acc, const int64_t *restrict x, size_t n,
                             reduce_op op)
{
    if (op == REDUCE_SUM)
        for (size_t i = 0; i < n; i++) acc[i] = (int64_t)((uint64_t)acc[i] + (uint64_t)x[i]);
    else if (op == REDUCE_MAX)
        for (size_t i = 0; i < n; i++) acc[i] = x[i] > acc[i] ? x[i] : acc[i];
    else
        for (size_t i = 0; i < n; i++) acc[i] = x[i] < acc[i] ? x[i] : acc[i];
}

INLINE void block_floats(void *const *dsts, int dst_count, const void *const *srcs, int src_count,
                         size_t first, size_t n, dtype t, reduce_op op)
{
    const size_t element = t == F32 ? 4 : 2, at = first * element;
    float acc[BLOCK], room[BLOCK];
    uint16_t packed[BLOCK];
    memcpy(acc, as_floats(room, (const char *)srcs[0] + at, n, t), n * sizeof *acc);
    for (int s = 1; s < src_count; s++)
        combine_floats(acc, as_floats(room, (const char *)srcs[s] + at, n, t), n, op);
    const void *out = from_floats(packed, acc, n, t);
    for (int d = 0; d < dst_count; d++) memcpy((char *)dsts[d] + at, out, n * element);
}

#define DEFINE_BLOCK_64(name, type, combine)                                                       \
    INLINE void name(void *const *dsts, int dst_count, const void *const *srcs, int src_count,     \
                     size_t first, size_t n, dtype t, reduce_op op)                                \
    {                                                                                              \
        (void)t;                                                                                   \
        const size_t at = first * sizeof(type), bytes = n * sizeof(type);                          \
        type acc[BLOCK];                                                                           \
        memcpy(acc, (const char *)srcs[0] + at, bytes);                                            \
        for (int s = 1; s < src_count; s++)                                                        \
            combine(acc, (const type *)((const char *)srcs[s] + at), n, op);                       \
        for (int d = 0; d < dst_count; d++) memcpy((char *)dsts[d] + at, acc, bytes);              \
    }
DEFINE_BLOCK_64(block_doubles, double, combine_doubles)
DEFINE_BLOCK_64(block_integers, int64_t, combine_integers)

#define BLOCKS(block, t, op)                                                                       \
    for (size_t i = 0; i < count; i += BLOCK)                                                      \
    block(dsts, dst_count, srcs, src_count, i, count - i < BLOCK ? count - i : BLOCK, t, op)

#define BLOCKS_BY_OP(block, t)                                                                     \
    do {                                                                                           \
        if (op == REDUCE_SUM)                                                                      \
            BLOCKS(block, t, REDUCE_SUM);                                                          \
        else if (op == REDUCE_MAX)                                                                 \
            BLOCKS(block, t, REDUCE_MAX);                                                          \
        else                                                                                       \
            BLOCKS(block, t, REDUCE_MIN);                                                          \
    } while (0)

// The levels differ in their target attribute only.
#define DEFINE_LEVEL(name)                                                                         \
    static void name(void *const *dsts, int dst_count, const void *const *srcs, int src_count,     \
                     size_t count, dtype t, reduce_op op)                                          \
    {                                                                                              \
        if (t == F32)                                                                              \
            BLOCKS_BY_OP(block_floats, F32);                                                       \
        else if (t == BF16)                                                                        \
            BLOCKS_BY_OP(block_floats, BF16);                                                      \
        else if (t == F16)                                                                         \
            BLOCKS_BY_OP(block_floats, F16);                                                       \
        else if (t == F64)                                                                         \
            BLOCKS_BY_OP(block_doubles, F64);                                                      \
        else                                                                                       \
            BLOCKS_BY_OP(block_integers, I64);                                                     \
    }

DEFINE_LEVEL(reduce_generic)
#if defined(__x86_64__)
__attribute__((target("avx2"))) DEFINE_LEVEL(reduce_avx2)
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")))
    DEFINE_LEVEL(reduce_avx512)
#endif

        void reduce_arrays(void *const *dsts, int dst_count, const void *const *srcs, int src_count,
                           size_t count, dtype t, reduce_op op)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq")) {
        reduce_avx512(dsts, dst_count, srcs, src_count, count, t, op);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        reduce_avx2(dsts, dst_count, srcs, src_count, count, t, op);
        return;
    }
#endif
    reduce_generic(dsts, dst_count, srcs, src_count, count, t, op);
}
