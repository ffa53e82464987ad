// ref_elementwise.c -- reference of the sum of two tensors, dropout, initial values, conversion and
// zeroing.
#include "device/cpu/ref/ref.h"

#include <string.h>

void ref_add(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_add_args *p = args;
    dtype residual = kernel_residual_type(p->type, p->residual_fp32);
    const ref_real factor = p->factor ? ref_load(p->factor, 0, p->type) : 1;
    for (int64_t i = 0; i < p->count; i++) {
        ref_real y = factor * p->alpha * ref_load(p->a, i, residual);
        if (p->b) y += factor * p->beta * ref_load(p->b, i, p->type);
        ref_store(p->y, i, residual, y);
    }
}

void ref_dropout(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_dropout_args *p = args;
    const kernel_draw_key draw_key = kernel_draw_read(&p->draw);
    const dtype residual = kernel_residual_type(p->type, p->residual_fp32);
    const dtype from = p->residual ? p->type : residual, to = p->residual ? residual : p->type;
    const ref_real scale = 1 / (1 - (ref_real)p->p);
    for (int64_t r = 0; r < p->rows; r++) {
        uint64_t word = (draw_key.row0 + (uint64_t)kernel_logical_row(&p->row_tokens, r)) *
                            (uint64_t)(p->full_cols ? p->full_cols : p->cols) +
                        (uint64_t)p->first_col;
        for (int64_t c = 0; c < p->cols; c++) {
            bool keep = rng_uniform(rng_word(draw_key.key, word + (uint64_t)c)) >= p->p;
            int64_t i = r * p->cols + c;
            ref_real y = keep ? ref_round(ref_load(p->x, i, from), p->type) * scale : 0;
            if (p->residual) y = ref_load(p->residual, i, residual) + ref_round(y, p->type);
            ref_store(p->y, i, to, y);
        }
    }
}

void ref_init(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_init_args *p = args;
    if (p->normal) rng_normals(p->key, p->index0, (size_t)p->count, p->y);
    for (int64_t i = 0; i < p->count; i++)
        p->y[i] = p->normal ? p->std * p->y[i]
                  : p->uniform
                      ? p->std * (2 * rng_uniform(rng_word(p->key, p->index0 + (uint64_t)i)) - 1)
                      : p->constant;
}

static void convert_segment(const kernel_convert_args *p, const kernel_segment *s)
{
    if (s->count == 0) return;                          // the arrays may be NULL
    if (p->src_type == p->dst_type && !p->accumulate) { // also where the elements are no numbers
        const size_t each = dtype_bytes(p->src_type);
        memmove((char *)p->dst + (size_t)s->dst * each,
                (const char *)p->src + (size_t)s->src * each, (size_t)s->count * each);
        return;
    }
    for (int64_t i = 0; i < s->count; i++) {
        ref_real value = ref_load(p->src, s->src + i, p->src_type);
        if (p->accumulate) value += ref_load(p->dst, s->dst + i, p->dst_type);
        ref_store(p->dst, s->dst + i, p->dst_type, value);
    }
}

void ref_convert(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_convert_args *p = args;
    const kernel_segment whole = {.count = p->count};
    if (!p->segment) convert_segment(p, &whole);
    for (int64_t s = 0; p->segment && s < p->segments; s++) convert_segment(p, &p->segment[s]);
}

void ref_copy_rows(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_copy_rows_args *p = args;
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t to = kernel_logical_row(&p->dst_rows, r) * p->dst_stride;
        int64_t from = kernel_logical_row(&p->src_rows, r) * p->src_stride;
        for (int64_t c = 0; c < p->cols; c++)
            ref_store(p->dst, to + c, p->type, ref_load(p->src, from + c, p->type));
    }
}

void ref_fill(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_fill_args *p = args;
    if (p->bytes > 0) memset(p->dst, 0, (size_t)p->bytes);
}
