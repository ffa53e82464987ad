// vec_value_norm.c -- vector form of the norms of values, with their gradient. Rows are independent.
#include "device/cpu/vec.h"

#include <math.h>
#include <string.h>

// Copies queries and keys of row r, unless they are there.
static void copy_columns(const kernel_value_norm_args *p, int64_t r, int64_t to_cols,
                         const void *from, int64_t from_cols)
{
    if (p->y == from) return;
    memcpy(vec_at(p->y, r * to_cols, p->type), vec_at(from, r * from_cols, p->type),
           dtype_bytes(p->type) * (size_t)kernel_value_norm_first(p));
}

// The sum of a[i] * b[i].
VEC_INLINE float sum_products(const void *a, const void *b, int64_t count, dtype type)
{
    vf sum = v_zero();
#define PRODUCT(i, n) sum += v_load_n(a, i, n, type) * v_load_n(b, i, n, type)
    V_EACH(i, 0, count, PRODUCT);
#undef PRODUCT
    return v_sum(sum);
}

VEC_INLINE void norm_rows(const kernel_value_norm_args *p, int64_t first, int64_t last, dtype type)
{
    const int64_t in = kernel_value_norm_cols(p), out = kernel_value_norm_full_cols(p),
                  d = p->head_dim;
    for (int64_t r = first; r < last; r++) {
        copy_columns(p, r, out, p->x, in);
        for (int64_t h = 0; h < p->kv_heads; h++) {
            const void *from = vec_at(p->x, r * in + kernel_value_norm_source(p) + h * d, type);
            void *to = vec_at(p->y, r * out + kernel_value_norm_first(p) + h * d, type);
            const float rstd = 1 / sqrtf(sum_products(from, from, d, type) / (float)d + p->eps);
            const vf s = v_set(rstd);
            p->rstd[r * p->kv_heads + h] = rstd;
#define NORM(c, n) v_store_n(to, c, n, type, v_load_n(from, c, n, type) * s)
            V_EACH(c, 0, d, NORM);
#undef NORM
        }
    }
}

VEC_INLINE void grad_rows(const kernel_value_norm_args *p, int64_t first, int64_t last, dtype type)
{
    const int64_t in = kernel_value_norm_cols(p), out = kernel_value_norm_full_cols(p),
                  d = p->head_dim;
    for (int64_t r = first; r < last; r++) {
        copy_columns(p, r, in, p->dy, out);
        for (int64_t h = 0; h < p->kv_heads; h++) {
            const int64_t here = r * in + kernel_value_norm_source(p) + h * d;
            const void *x = vec_at(p->x, here, type),
                       *dy = vec_at(p->dy, r * out + kernel_value_norm_first(p) + h * d, type);
            void *dx = vec_at(p->y, here, type);
            const float rstd = p->rstd[r * p->kv_heads + h];
            const vf s = v_set(rstd), mean = v_set(sum_products(dy, x, d, type) * rstd / (float)d);
#define GRAD(c, n)                                                                                 \
    do {                                                                                           \
        vf g = s * (v_load_n(dy, c, n, type) - v_load_n(x, c, n, type) * s * mean);                \
        if (p->of_keys) g += v_load_n(dx, c, n, type);                                             \
        v_store_n(dx, c, n, type, g);                                                              \
    } while (0)
            V_EACH(c, 0, d, GRAD);
#undef GRAD
        }
    }
}

static void norm_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_value_norm_args *p = args;
#define CALL(type) norm_rows(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

static void grad_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_value_norm_args *p = args;
#define CALL(type) grad_rows(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(value_norm)(const cpu_context *x, const void *args)
{
    const kernel_value_norm_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(kernel_value_norm_full_cols(p)), norm_part);
}

void VEC(value_norm_grad)(const cpu_context *x, const void *args)
{
    const kernel_value_norm_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(kernel_value_norm_full_cols(p)), grad_part);
}
