// reduce.c -- reduces several arrays to one, in pieces that fit in the first-level cache.
//
// Called by the local communicator and the cpu device. It does not know ranks or shared memory. Plain loops are
// compiled for three levels of CPU instructions. All levels give the same bits, because there are
// only additions and comparisons, and nothing to contract. The tree of sums is walked as a binary
// counter: source i is added to as many finished sums as the binary number i ends in ones. Each
// finished sum has a scratch buffer of its own.
#include "base/reduce.h"

#include <string.h>

enum { SCRATCH_BYTES = 4096, SCRATCHES = 13 };
_Static_assert(REDUCE_SOURCES <= 1 << (SCRATCHES - 1),
               "at most SCRATCHES - 1 sums are finished before a source");

typedef union reduce_scratch {
    float f[SCRATCH_BYTES / sizeof(float)];
    double d[SCRATCH_BYTES / sizeof(double)];
    int64_t i[SCRATCH_BYTES / sizeof(int64_t)];
} reduce_scratch;

#define INLINE static inline __attribute__((always_inline))

bool reduce_supports(dtype t)
{
    return t == F32 || t == BF16 || t == F16 || t == F64 || t == I64;
}

const char *reduce_op_name(reduce_op op)
{
    return op == REDUCE_SUM ? "sum" : op == REDUCE_MAX ? "max" : "min";
}

// Returns `from` as floats: `from` itself, or `r` filled with the converted elements.
INLINE const float *load_floats(reduce_scratch *r, const void *from, size_t n, dtype t)
{
    if (t == F32) return from;
    if (t == BF16)
        for (size_t i = 0; i < n; i++) r->f[i] = bf16_to_float(((const uint16_t *)from)[i]);
    else
        dtype_convert(r->f, F32, from, F16, n);
    return r->f;
}

// Returns x in type t: x itself, or `to` filled with the converted elements.
INLINE const void *store_floats(uint16_t *to, const float *x, size_t n, dtype t)
{
    if (t == F32) return x;
    if (t == BF16)
        for (size_t i = 0; i < n; i++) to[i] = float_to_bf16(x[i]);
    else
        dtype_convert(to, F16, x, F32, n);
    return to;
}

// to[i] = x[i] op y[i]; `to` may be x. In a comparison y wins when it is NaN, and a NaN in x stays
// because every comparison with it is false.
#define EACH(expression) _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) to[i] = (expression)
#define DEFINE_COMBINE(name, type, sum, wins_max, wins_min)                                        \
    INLINE void name(type *to, const type *x, const type *y, size_t n, reduce_op op)               \
    {                                                                                              \
        if (op == REDUCE_SUM)                                                                      \
            EACH(sum);                                                                             \
        else if (op == REDUCE_MAX)                                                                 \
            EACH((wins_max) ? y[i] : x[i]);                                                        \
        else                                                                                       \
            EACH((wins_min) ? y[i] : x[i]);                                                        \
    }
DEFINE_COMBINE(combine_floats, float, x[i] + y[i], y[i] > x[i] || y[i] != y[i],
               y[i] < x[i] || y[i] != y[i])
DEFINE_COMBINE(combine_doubles, double, x[i] + y[i], y[i] > x[i] || y[i] != y[i],
               y[i] < x[i] || y[i] != y[i])
// Integers are summed as unsigned ones, because a sum may wrap around.
DEFINE_COMBINE(combine_integers, int64_t, (int64_t)((uint64_t)x[i] + (uint64_t)y[i]), y[i] > x[i],
               y[i] < x[i])

// Returns the reduction of n elements from byte `offset` of every source: scratch[0], or the source
// itself if there is only one. `sums` holds the finished sums from left to right. Sum i lies in
// scratch[i].
#define DEFINE_TREE(name, type, field, combine, load)                                              \
    INLINE const type *name(reduce_scratch *scratch, const void *const *srcs, int src_count,       \
                            size_t offset, size_t n, dtype t, reduce_op op)                        \
    {                                                                                              \
        const type *sums[SCRATCHES];                                                               \
        int finished = 0;                                                                          \
        for (int s = 0; s < src_count; s++) {                                                      \
            const type *x = load(&scratch[finished], (const char *)srcs[s] + offset, n, t);        \
            for (int ones = s; ones & 1; ones >>= 1) {                                             \
                finished--;                                                                        \
                combine(scratch[finished].field, sums[finished], x, n, op);                        \
                x = scratch[finished].field;                                                       \
            }                                                                                      \
            sums[finished++] = x;                                                                  \
        }                                                                                          \
        for (; finished > 1; finished--) {                                                         \
            combine(scratch[finished - 2].field, sums[finished - 2], sums[finished - 1], n, op);   \
            sums[finished - 2] = scratch[finished - 2].field;                                      \
        }                                                                                          \
        return sums[0];                                                                            \
    }
#define LOAD_IN_PLACE(scratch, from, n, t) ((void)(scratch), (void)(t), (const void *)(from))
DEFINE_TREE(tree_floats, float, f, combine_floats, load_floats)
DEFINE_TREE(tree_doubles, double, d, combine_doubles, LOAD_IN_PLACE)
DEFINE_TREE(tree_integers, int64_t, i, combine_integers, LOAD_IN_PLACE)

INLINE void put(void *const *dsts, int dst_count, size_t offset, const void *from, size_t bytes)
{
    for (int d = 0; d < dst_count; d++)
        if ((char *)dsts[d] + offset != from) memcpy((char *)dsts[d] + offset, from, bytes);
}

INLINE void piece_floats(reduce_scratch *scratch, void *const *dsts, int dst_count,
                         const void *const *srcs, int src_count, size_t first, size_t n, dtype t,
                         reduce_op op)
{
    const size_t element = t == F32 ? 4 : 2, offset = first * element;
    uint16_t packed[SCRATCH_BYTES / sizeof(float)];
    const float *x = tree_floats(scratch, srcs, src_count, offset, n, t, op);
    put(dsts, dst_count, offset, store_floats(packed, x, n, t), n * element);
}

#define DEFINE_PIECE_64(name, tree)                                                                \
    INLINE void name(reduce_scratch *scratch, void *const *dsts, int dst_count,                    \
                     const void *const *srcs, int src_count, size_t first, size_t n, dtype t,      \
                     reduce_op op)                                                                 \
    {                                                                                              \
        const size_t offset = first * 8;                                                           \
        put(dsts, dst_count, offset, tree(scratch, srcs, src_count, offset, n, t, op), n * 8);     \
    }
DEFINE_PIECE_64(piece_doubles, tree_doubles)
DEFINE_PIECE_64(piece_integers, tree_integers)

#define PIECES(piece, most, t, op)                                                                 \
    for (size_t i = 0; i < count; i += most)                                                       \
    piece(scratch, dsts, dst_count, srcs, src_count, i, count - i < most ? count - i : most, t, op)

#define PIECES_BY_OP(piece, most, t)                                                               \
    do {                                                                                           \
        if (op == REDUCE_SUM)                                                                      \
            PIECES(piece, most, t, REDUCE_SUM);                                                    \
        else if (op == REDUCE_MAX)                                                                 \
            PIECES(piece, most, t, REDUCE_MAX);                                                    \
        else                                                                                       \
            PIECES(piece, most, t, REDUCE_MIN);                                                    \
    } while (0)

// The three levels differ only in the target attribute.
#define DEFINE_LEVEL(name, attribute)                                                              \
    attribute static void name(void *const *dsts, int dst_count, const void *const *srcs,          \
                               int src_count, size_t count, dtype t, reduce_op op)                 \
    {                                                                                              \
        const size_t floats = SCRATCH_BYTES / sizeof(float), words = SCRATCH_BYTES / 8;            \
        reduce_scratch scratch[SCRATCHES];                                                         \
        if (t == F32)                                                                              \
            PIECES_BY_OP(piece_floats, floats, F32);                                               \
        else if (t == BF16)                                                                        \
            PIECES_BY_OP(piece_floats, floats, BF16);                                              \
        else if (t == F16)                                                                         \
            PIECES_BY_OP(piece_floats, floats, F16);                                               \
        else if (t == F64)                                                                         \
            PIECES_BY_OP(piece_doubles, words, F64);                                               \
        else                                                                                       \
            PIECES_BY_OP(piece_integers, words, I64);                                              \
    }

DEFINE_LEVEL(reduce_generic, )
#if defined(__x86_64__)
DEFINE_LEVEL(reduce_avx2, __attribute__((target("avx2"))))
DEFINE_LEVEL(reduce_avx512,
             __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"))))
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
