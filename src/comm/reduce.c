// reduce.c -- reductions of several arrays, one piece of the first-level cache at a time.
//
// Called by the local communicator. Plain loops, compiled for three CPU levels, which give the same
// bits: there are additions and comparisons only, nothing to contract. The tree of sums is walked
// as a binary counter: source i joins as many finished sums as i has ones at its end, and each
// finished sum has a room of its own. Knows nothing of ranks or shared memory.
#include "comm/reduce.h"

#include <string.h>

enum { ROOM_BYTES = 4096, ROOMS = 9 };
_Static_assert(REDUCE_SOURCES <= 1 << (ROOMS - 1),
               "a source finds at most ROOMS - 1 sums before it");

typedef union room {
    float f[ROOM_BYTES / sizeof(float)];
    double d[ROOM_BYTES / sizeof(double)];
    int64_t i[ROOM_BYTES / sizeof(int64_t)];
} room;

#define INLINE static inline __attribute__((always_inline))

bool reduce_supports(dtype t)
{
    return t == F32 || t == BF16 || t == F16 || t == F64 || t == I64;
}

const char *reduce_op_name(reduce_op op)
{
    return op == REDUCE_SUM ? "sum" : op == REDUCE_MAX ? "max" : "min";
}

// `from` as floats: where they lie, or widened into `r`.
INLINE const float *load_floats(room *r, const void *from, size_t n, dtype t)
{
    if (t == F32) return from;
    if (t == BF16)
        for (size_t i = 0; i < n; i++) r->f[i] = bf16_to_float(((const uint16_t *)from)[i]);
    else
        dtype_convert(r->f, F32, from, F16, n);
    return r->f;
}

// The reverse, for reading.
INLINE const void *store_floats(uint16_t *to, const float *x, size_t n, dtype t)
{
    if (t == F32) return x;
    if (t == BF16)
        for (size_t i = 0; i < n; i++) to[i] = float_to_bf16(x[i]);
    else
        dtype_convert(to, F16, x, F32, n);
    return to;
}

// to[i] = x[i] op y[i]; `to` may be x. y wins a comparison when it is NaN; a NaN in x stays, for no
// comparison takes it out.
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
// Summed unsigned, because a sum may wrap around.
DEFINE_COMBINE(combine_integers, int64_t, (int64_t)((uint64_t)x[i] + (uint64_t)y[i]), y[i] > x[i],
               y[i] < x[i])

// The reduction of n elements from byte `at` of every source, in rooms[0] or where a lone source
// lies. `sums` holds the finished sums from left to right; that of place k lies in rooms[k].
#define DEFINE_TREE(name, type, field, combine, load)                                              \
    INLINE const type *name(room *rooms, const void *const *srcs, int src_count, size_t at,        \
                            size_t n, dtype t, reduce_op op)                                       \
    {                                                                                              \
        const type *sums[ROOMS];                                                                   \
        int held = 0;                                                                              \
        for (int s = 0; s < src_count; s++) {                                                      \
            const type *x = load(&rooms[held], (const char *)srcs[s] + at, n, t);                  \
            for (int ones = s; ones & 1; ones >>= 1) {                                             \
                held--;                                                                            \
                combine(rooms[held].field, sums[held], x, n, op);                                  \
                x = rooms[held].field;                                                             \
            }                                                                                      \
            sums[held++] = x;                                                                      \
        }                                                                                          \
        for (; held > 1; held--) {                                                                 \
            combine(rooms[held - 2].field, sums[held - 2], sums[held - 1], n, op);                 \
            sums[held - 2] = rooms[held - 2].field;                                                \
        }                                                                                          \
        return sums[0];                                                                            \
    }
#define LOAD_IN_PLACE(room, from, n, t) ((void)(room), (void)(t), (const void *)(from))
DEFINE_TREE(tree_floats, float, f, combine_floats, load_floats)
DEFINE_TREE(tree_doubles, double, d, combine_doubles, LOAD_IN_PLACE)
DEFINE_TREE(tree_integers, int64_t, i, combine_integers, LOAD_IN_PLACE)

INLINE void put(void *const *dsts, int dst_count, size_t at, const void *from, size_t bytes)
{
    for (int d = 0; d < dst_count; d++)
        if ((char *)dsts[d] + at != from) memcpy((char *)dsts[d] + at, from, bytes);
}

INLINE void piece_floats(room *rooms, void *const *dsts, int dst_count, const void *const *srcs,
                         int src_count, size_t first, size_t n, dtype t, reduce_op op)
{
    const size_t element = t == F32 ? 4 : 2, at = first * element;
    uint16_t packed[ROOM_BYTES / sizeof(float)];
    const float *x = tree_floats(rooms, srcs, src_count, at, n, t, op);
    put(dsts, dst_count, at, store_floats(packed, x, n, t), n * element);
}

#define DEFINE_PIECE_64(name, tree)                                                                \
    INLINE void name(room *rooms, void *const *dsts, int dst_count, const void *const *srcs,       \
                     int src_count, size_t first, size_t n, dtype t, reduce_op op)                 \
    {                                                                                              \
        const size_t at = first * 8;                                                               \
        put(dsts, dst_count, at, tree(rooms, srcs, src_count, at, n, t, op), n * 8);               \
    }
DEFINE_PIECE_64(piece_doubles, tree_doubles)
DEFINE_PIECE_64(piece_integers, tree_integers)

#define PIECES(piece, most, t, op)                                                                 \
    for (size_t i = 0; i < count; i += most)                                                       \
    piece(rooms, dsts, dst_count, srcs, src_count, i, count - i < most ? count - i : most, t, op)

#define PIECES_BY_OP(piece, most, t)                                                               \
    do {                                                                                           \
        if (op == REDUCE_SUM)                                                                      \
            PIECES(piece, most, t, REDUCE_SUM);                                                    \
        else if (op == REDUCE_MAX)                                                                 \
            PIECES(piece, most, t, REDUCE_MAX);                                                    \
        else                                                                                       \
            PIECES(piece, most, t, REDUCE_MIN);                                                    \
    } while (0)

// The levels differ in their target attribute only.
#define DEFINE_LEVEL(name)                                                                         \
    static void name(void *const *dsts, int dst_count, const void *const *srcs, int src_count,     \
                     size_t count, dtype t, reduce_op op)                                          \
    {                                                                                              \
        const size_t floats = ROOM_BYTES / sizeof(float), words = ROOM_BYTES / 8;                  \
        room rooms[ROOMS];                                                                         \
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
