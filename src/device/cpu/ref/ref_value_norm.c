// ref_value_norm.c -- reference of the norms of values, with their gradient. Sums are taken in double.
#include "device/cpu/ref/ref.h"

static void copy_columns(void *to, int64_t to_cols, const void *from, int64_t from_cols,
                         const kernel_value_norm_args *p)
{
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < kernel_value_norm_first(p); c++)
            ref_store(to, r * to_cols + c, p->type, ref_load(from, r * from_cols + c, p->type));
}

void ref_value_norm(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_value_norm_args *p = args;
    const int64_t in = kernel_value_norm_cols(p), out = kernel_value_norm_full_cols(p);
    for (int64_t i = 0; i < p->rows * p->kv_heads; i++) {
        const int64_t r = i / p->kv_heads, head = i % p->kv_heads * p->head_dim;
        const int64_t from = r * in + kernel_value_norm_source(p) + head,
                      to = r * out + kernel_value_norm_first(p) + head;
        double sum = 0;
        for (int64_t c = 0; c < p->head_dim; c++) {
            const double v = ref_load(p->x, from + c, p->type);
            sum += v * v;
        }
        const double rstd = 1 / sqrt(sum / (double)p->head_dim + p->eps);
        for (int64_t c = 0; c < p->head_dim; c++)
            ref_store(p->y, to + c, p->type, (float)(ref_load(p->x, from + c, p->type) * rstd));
        p->rstd[i] = (float)rstd;
    }
    if (p->y != p->x) copy_columns(p->y, out, p->x, in, p);
}

void ref_value_norm_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_value_norm_args *p = args;
    const int64_t in = kernel_value_norm_cols(p), out = kernel_value_norm_full_cols(p);
    if (p->y != p->dy) copy_columns(p->y, in, p->dy, out, p);
    for (int64_t i = 0; i < p->rows * p->kv_heads; i++) {
        const int64_t r = i / p->kv_heads, head = i % p->kv_heads * p->head_dim;
        const int64_t from = r * in + kernel_value_norm_source(p) + head,
                      to = r * out + kernel_value_norm_first(p) + head;
        const double rstd = p->rstd[i];
        double along = 0;
        for (int64_t c = 0; c < p->head_dim; c++)
            along += (double)ref_load(p->dy, to + c, p->type) * ref_load(p->x, from + c, p->type);
        along *= rstd / (double)p->head_dim;
        for (int64_t c = 0; c < p->head_dim; c++) {
            const double hat = ref_load(p->x, from + c, p->type) * rstd,
                         earlier = p->of_keys ? ref_load(p->y, from + c, p->type) : 0;
            ref_store(p->y, from + c, p->type,
                      (float)(earlier + rstd * (ref_load(p->dy, to + c, p->type) - hat * along)));
        }
    }
}
