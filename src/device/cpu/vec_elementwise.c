// vec_elementwise.c -- sums of two tensors, dropout, conversion and zeroing.
#include "device/cpu/vec.h"

enum {
    GRAIN = 16384, // elements worth a thread; a multiple of every vector
    BATCH = 1024,  // elements whose random words are drawn at a time
};

VEC_INLINE void add_range(const kernel_add_args *p, int64_t first, int64_t last, dtype type,
                          dtype wide)
{
    vf alpha = v_set(p->alpha), beta = v_set(p->beta);
#define SUM(i, n)                                                                                  \
    v_store_n(p->y, i, n, wide,                                                                    \
              alpha *v_load_n(p->a, i, n, wide) + beta * v_load_n(p->b, i, n, type))
#define SCALE(i, n) v_store_n(p->y, i, n, wide, alpha *v_load_n(p->a, i, n, wide))
    if (p->b) {
        V_EACH(i, first, last, SUM);
    } else {
        V_EACH(i, first, last, SCALE);
    }
#undef SUM
#undef SCALE
}

static void add_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                     int thread)
{
    (void)x, (void)thread;
    const kernel_add_args *p = args;
#define CALL(type, wide) add_range(p, first, last, type, wide)
    V_BY_WIDTH(p->type, p->residual_fp32, CALL);
#undef CALL
}

void VEC(add)(const cpu_context *x, const void *args)
{
    const kernel_add_args *p = args;
    VEC(share)(x, p, p->count, GRAIN, add_part);
}

VEC_INLINE void dropout_range(const kernel_dropout_args *p, int64_t first, int64_t last, dtype type)
{
    uint32_t room[BATCH + 4 * VL + 4];
    vf scale = v_set(1 / (1 - p->p)), limit = v_set(p->p);
    for (int64_t at = first; at < last; at += BATCH) {
        int64_t to = min64(at + BATCH, last);
        const uint32_t *words = VEC(random)(p->key, p->index0 + (uint64_t)at, to - at, room);
#define DROP(i, n)                                                                                 \
    do {                                                                                           \
        vu word = (vu) * (const vi_any *)(words + (i - at));                                       \
        vmask dropped = v_less(v_from_int((vi)(word >> 8)) * v_set(0x1p-24f), limit);              \
        vf kept = v_load_n(p->x, i, n, type) * scale;                                              \
        v_store_n(p->y, i, n, type, v_pick(dropped, v_zero(), kept));                              \
    } while (0)
        V_EACH(i, at, to, DROP);
#undef DROP
    }
}

static void dropout_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    (void)x, (void)thread;
    const kernel_dropout_args *p = args;
#define CALL(type) dropout_range(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(dropout)(const cpu_context *x, const void *args)
{
    const kernel_dropout_args *p = args;
    VEC(share)(x, p, p->count, GRAIN / 4, dropout_part);
}

VEC_INLINE void convert_range(const kernel_convert_args *p, int64_t first, int64_t last, dtype from,
                              dtype to)
{
#define CONVERT(i, n) v_store_n(p->dst, i, n, to, v_load_n(p->src, i, n, from))
    V_EACH(i, first, last, CONVERT);
#undef CONVERT
}

static void convert_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    (void)x, (void)thread;
    const kernel_convert_args *p = args;
    dtype from = p->src_type, to = p->dst_type;
    if (from == to) {
        size_t bytes = (size_t)(last - first) * (from == F32 ? 4 : 2);
        memmove(vec_at(p->dst, first, to), vec_at(p->src, first, from), bytes);
    }
    if (from == F32 && to == BF16) convert_range(p, first, last, F32, BF16);
    if (from == F32 && to == F16) convert_range(p, first, last, F32, F16);
    if (from == BF16 && to == F32) convert_range(p, first, last, BF16, F32);
    if (from == BF16 && to == F16) convert_range(p, first, last, BF16, F16);
    if (from == F16 && to == F32) convert_range(p, first, last, F16, F32);
    if (from == F16 && to == BF16) convert_range(p, first, last, F16, BF16);
}

void VEC(convert)(const cpu_context *x, const void *args)
{
    const kernel_convert_args *p = args;
    VEC(share)(x, p, p->count, GRAIN, convert_part);
}

static void fill_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_fill_args *p = args;
    memset((unsigned char *)p->dst + first, 0, (size_t)(last - first));
}

void VEC(fill)(const cpu_context *x, const void *args)
{
    const kernel_fill_args *p = args;
    VEC(share)(x, p, p->bytes, 16 * GRAIN, fill_part);
}
