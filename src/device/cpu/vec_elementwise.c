// vec_elementwise.c -- vector form of the sum of two tensors, dropout, conversion and zeroing.
#include "device/cpu/vec_add.h"

enum {
    GRAIN = 16384, // elements for which it pays to wake a thread; a multiple of every vector
    BATCH = 1024,  // elements whose random words are drawn at a time
};

static void add_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                     int thread)
{
    (void)x, (void)thread;
    const kernel_add_args *p = args;
#define CALL(type, residual) vec_add_range(p, first, last, type, residual)
    V_BY_RESIDUAL(p->type, p->residual_fp32, CALL);
#undef CALL
}

void VEC(add)(const cpu_context *x, const void *args)
{
    const kernel_add_args *p = args;
    VEC(share)(x, p, p->count, GRAIN, add_part);
}

// x * scale, or 0 where the random number is below `limit`.
VEC_INLINE vf drop(const uint32_t *words, vf x, vf scale, vf limit)
{
    vu bits = (vu) * (const vi_any *)words;
    vmask dropped = v_less(v_from_int((vi)(bits >> 8)) * v_set(0x1p-24f), limit);
    return v_pick(dropped, v_zero(), x * scale);
}

// Elements first … last-1, whose random words follow each other from `word` on.
VEC_INLINE void dropout_range(const kernel_dropout_args *p, rng_key key, int64_t first,
                              int64_t last, uint64_t word, dtype type, dtype residual)
{
    uint32_t scratch[BATCH + 4 * VL + 4];
    vf scale = v_set(1 / (1 - p->p)), limit = v_set(p->p);
    for (int64_t from = first; from < last; from += BATCH) {
        int64_t to = size_min(from + BATCH, last);
        const uint32_t *words =
            VEC(random)(key, word + (uint64_t)(from - first), to - from, scratch);
#define DROP(i, n)                                                                                 \
    do {                                                                                           \
        vf x = v_load_n(p->x, i, n, residual);                                                     \
        if (type != residual) x = v_round_to(x, type);                                             \
        v_store_n(p->y, i, n, type, drop(words + (i - from), x, scale, limit));                    \
    } while (0)
#define DROP_AND_ADD(i, n)                                                                         \
    do {                                                                                           \
        vf x = drop(words + (i - from), v_load_n(p->x, i, n, type), scale, limit);                 \
        vf y = v_load_n(p->residual, i, n, residual) + v_round_to(x, type);                        \
        v_store_n(p->y, i, n, residual, y);                                                        \
    } while (0)
        if (p->residual) {
            V_EACH(i, from, to, DROP_AND_ADD);
        } else {
            V_EACH(i, from, to, DROP);
        }
#undef DROP
#undef DROP_AND_ADD
    }
}

// Elements first … last-1, run by run of consecutive logical rows, or row by row where x has some of their columns.
static void dropout_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    (void)x, (void)thread;
    const kernel_dropout_args *p = args;
    const kernel_draw_key draw_key = kernel_draw_read(&p->draw);
    const int64_t full = p->full_cols ? p->full_cols : p->cols;
    while (first < last) {
        int64_t row = first / p->cols, rows = full == p->cols ? p->rows - row : 1;
        int64_t end = (row + kernel_consecutive_rows(&p->row_tokens, row, rows)) * p->cols;
        uint64_t logical = draw_key.row0 + (uint64_t)kernel_logical_row(&p->row_tokens, row);
        uint64_t word = logical * (uint64_t)full + (uint64_t)(p->first_col + first - row * p->cols);
        end = size_min(end, last);
#define CALL(type, residual) dropout_range(p, draw_key.key, first, end, word, type, residual)
        V_BY_RESIDUAL(p->type, p->residual_fp32, CALL);
#undef CALL
        first = end;
    }
}

void VEC(dropout)(const cpu_context *x, const void *args)
{
    const kernel_dropout_args *p = args;
    VEC(share)(x, p, p->rows * p->cols, GRAIN / 4, dropout_part);
}

static void copy_rows_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                           int thread)
{
    (void)x, (void)thread;
    const kernel_copy_rows_args *p = args;
    for (int64_t r = first; r < last; r++)
        memcpy(vec_at(p->dst, kernel_logical_row(&p->dst_rows, r) * p->dst_stride, p->type),
               vec_at(p->src, kernel_logical_row(&p->src_rows, r) * p->src_stride, p->type),
               (size_t)p->cols * dtype_bytes(p->type));
}

void VEC(copy_rows)(const cpu_context *x, const void *args)
{
    const kernel_copy_rows_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), copy_rows_part);
}

VEC_INLINE void convert_range(const kernel_convert_args *p, int64_t first, int64_t last, dtype from,
                              dtype to)
{
#define CONVERT(i, n) v_store_n(p->dst, i, n, to, v_load_n(p->src, i, n, from))
    V_EACH(i, first, last, CONVERT);
#undef CONVERT
}

VEC_INLINE void accumulate_range(const kernel_convert_args *p, int64_t first, int64_t last)
{
#define ACCUMULATE(i, n)                                                                           \
    v_store_n(p->dst, i, n, F32, v_load_n(p->dst, i, n, F32) + v_load_n(p->src, i, n, F32))
    V_EACH(i, first, last, ACCUMULATE);
#undef ACCUMULATE
}

static void convert_elements(const kernel_convert_args *p, int64_t first, int64_t last)
{
    dtype from = p->src_type, to = p->dst_type;
    if (p->accumulate) {
        accumulate_range(p, first, last);
    } else if (from == to) {
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

// Takes grains first … last-1 of the segments.
static void convert_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    (void)x, (void)thread;
    const kernel_convert_args *all = args;
    vec_piece c = {0};
    while (vec_next_piece(all->segment, all->segments, GRAIN, first, last, &c)) {
        kernel_convert_args p = *all;
        p.src = vec_at(all->src, c.segment->src, all->src_type);
        p.dst = vec_at(all->dst, c.segment->dst, all->dst_type);
        convert_elements(&p, c.first, c.last);
    }
}

void VEC(convert)(const cpu_context *x, const void *args)
{
    kernel_convert_args p = *(const kernel_convert_args *)args;
    const kernel_segment whole = {.count = p.count};
    if (!p.segment) p.segment = &whole, p.segments = 1;
    vec_share_segments(x, &p, p.segment, p.segments, GRAIN, p.count, convert_part);
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
