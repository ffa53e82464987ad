// reduce.c -- reduces several arrays to one, three and more in pieces that fit in the first-level cache.
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

// Returns `to`, filled with x in a 16-bit type.
INLINE const void *store_floats(uint16_t *to, const float *x, size_t n, dtype t)
{
    if (t == BF16)
        for (size_t i = 0; i < n; i++) to[i] = float_to_bf16(x[i]);
    else
        dtype_convert(to, F16, x, F32, n);
    return to;
}

// to[i] = x[i] op y[i], and also[i], unless it is NULL; both may be x or y. In a comparison y wins when it is NaN, and
// a NaN in x stays because every comparison with it is false.
#define EACH(expression)                                                                           \
    do {                                                                                           \
        if (also)                                                                                  \
            _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) to[i] = also[i] = (expression);    \
        else                                                                                       \
            _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) to[i] = (expression);              \
    } while (0)
#define DEFINE_COMBINE(name, type, sum, wins_max, wins_min)                                        \
    INLINE void name(type *to, type *also, const type *x, const type *y, size_t n, reduce_op op)   \
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

// The two halves of the tree over n elements from byte `offset` of every source. Each is a source or in a scratch
// buffer: x in scratch[0], y in another one. y is NULL if there is one source only.
#define DEFINE_TREE(name, type, field, combine, load)                                              \
    typedef struct name##_halves {                                                                 \
        const type *x, *y;                                                                         \
    } name##_halves;                                                                               \
    /* `sums` holds the finished sums from left to right. Sum i lies in scratch[i]. */             \
    INLINE name##_halves name(reduce_scratch *scratch, const void *const *srcs, int src_count,     \
                              size_t offset, size_t n, dtype t, reduce_op op)                      \
    {                                                                                              \
        const type *sums[SCRATCHES] = {0};                                                         \
        int finished = 0;                                                                          \
        for (int s = 0; s < src_count; s++) {                                                      \
            const type *x = load(&scratch[finished], (const char *)srcs[s] + offset, n, t);        \
            for (int ones = s; ones & 1; ones >>= 1) {                                             \
                if (finished == 1 && s == src_count - 1) return (name##_halves){sums[0], x};       \
                finished--;                                                                        \
                combine(scratch[finished].field, NULL, sums[finished], x, n, op);                  \
                x = scratch[finished].field;                                                       \
            }                                                                                      \
            sums[finished++] = x;                                                                  \
        }                                                                                          \
        for (; finished > 2; finished--) {                                                         \
            combine(scratch[finished - 2].field, NULL, sums[finished - 2], sums[finished - 1], n,  \
                    op);                                                                           \
            sums[finished - 2] = scratch[finished - 2].field;                                      \
        }                                                                                          \
        return (name##_halves){sums[0], finished > 1 ? sums[1] : NULL};                            \
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

// Combines the halves where they belong. The loop that reads the sources writes the first two destinations itself, so
// that the processor reads on while it writes: with a copy of each piece afterwards, memory idles for a fifth of the time.
#define DEFINE_FINISH(name, type, combine, halves)                                                 \
    INLINE void name(void *const *dsts, int dst_count, size_t offset, halves h, size_t n,          \
                     reduce_op op)                                                                 \
    {                                                                                              \
        type *to = (type *)((char *)dsts[0] + offset);                                             \
        if (!h.y)                                                                                  \
            put(dsts, dst_count, offset, h.x, n * sizeof(type));                                   \
        else if (dst_count == 1)                                                                   \
            combine(to, NULL, h.x, h.y, n, op);                                                    \
        else {                                                                                     \
            combine(to, (type *)((char *)dsts[1] + offset), h.x, h.y, n, op);                      \
            put(dsts + 2, dst_count - 2, offset, to, n * sizeof(type));                            \
        }                                                                                          \
    }
DEFINE_FINISH(finish_floats, float, combine_floats, tree_floats_halves)
DEFINE_FINISH(finish_doubles, double, combine_doubles, tree_doubles_halves)
DEFINE_FINISH(finish_integers, int64_t, combine_integers, tree_integers_halves)

// 16-bit types are summed in floats, and rounded once.
INLINE void piece_floats(reduce_scratch *scratch, void *const *dsts, int dst_count,
                         const void *const *srcs, int src_count, size_t first, size_t n, dtype t,
                         reduce_op op)
{
    const size_t offset = first * (t == F32 ? 4 : 2);
    uint16_t packed[SCRATCH_BYTES / sizeof(float)];
    tree_floats_halves h = tree_floats(scratch, srcs, src_count, offset, n, t, op);
    if (t == F32) {
        finish_floats(dsts, dst_count, offset, h, n, op);
        return;
    }
    if (h.y) combine_floats(scratch[0].f, NULL, h.x, h.y, n, op);
    put(dsts, dst_count, offset, store_floats(packed, h.y ? scratch[0].f : h.x, n, t), n * 2);
}

#define DEFINE_PIECE_64(name, tree, finish)                                                        \
    INLINE void name(reduce_scratch *scratch, void *const *dsts, int dst_count,                    \
                     const void *const *srcs, int src_count, size_t first, size_t n, dtype t,      \
                     reduce_op op)                                                                 \
    {                                                                                              \
        const size_t offset = first * 8;                                                           \
        finish(dsts, dst_count, offset, tree(scratch, srcs, src_count, offset, n, t, op), n, op);  \
    }
DEFINE_PIECE_64(piece_doubles, tree_doubles, finish_doubles)
DEFINE_PIECE_64(piece_integers, tree_integers, finish_integers)

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
        const size_t floats = SCRATCH_BYTES / sizeof(float);                                       \
        /* Two sources need no scratch buffer, and so no pieces. */                                \
        const size_t whole_floats = src_count <= 2 ? count : floats;                               \
        const size_t whole_words = src_count <= 2 ? count : SCRATCH_BYTES / 8;                     \
        reduce_scratch scratch[SCRATCHES];                                                         \
        if (t == F32)                                                                              \
            PIECES_BY_OP(piece_floats, whole_floats, F32);                                         \
        else if (t == BF16)                                                                        \
            PIECES_BY_OP(piece_floats, floats, BF16);                                              \
        else if (t == F16)                                                                         \
            PIECES_BY_OP(piece_floats, floats, F16);                                               \
        else if (t == F64)                                                                         \
            PIECES_BY_OP(piece_doubles, whole_words, F64);                                         \
        else                                                                                       \
            PIECES_BY_OP(piece_integers, whole_words, I64);                                        \
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
