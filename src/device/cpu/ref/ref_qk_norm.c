// ref_qk_norm.c -- reference of the norms of queries and keys, with their gradients. Sums are taken in double.
// It does not know how the sums of several ranks were added.
#include "device/cpu/ref/ref.h"

static int64_t row_cols(const kernel_qk_norm_args *p)
{
    return (p->heads + 2 * p->kv_heads) * p->head_dim;
}

// The factor of column c of a group.
static double gain_of(const kernel_qk_norm_args *p, int64_t group, int64_t c)
{
    return ref_gain(kernel_qk_norm_is_query(p, group) ? p->q_gain : p->k_gain, c, p->unit_offset,
                    p->type);
}

// Element c of a group of row r, normalised.
static double hat_of(const kernel_qk_norm_args *p, int64_t r, int64_t group, int64_t c)
{
    const int64_t i = r * row_cols(p) + kernel_qk_norm_first(p, group) + c;
    return (double)ref_load(p->x, i, p->type) * p->rstd[r * kernel_qk_norm_groups(p) + group];
}

// Element c of a group of row r of dy.
static double dy_of(const kernel_qk_norm_args *p, int64_t r, int64_t group, int64_t c)
{
    return ref_load(p->dy, r * row_cols(p) + kernel_qk_norm_first(p, group) + c, p->type);
}

// The sum of a group, of x^2 or, where there is dy, of its gradient.
static double group_sum(const kernel_qk_norm_args *p, int64_t r, int64_t group)
{
    double sum = 0;
    for (int64_t c = 0; c < kernel_qk_norm_cols(p, group); c++) {
        const int64_t i = r * row_cols(p) + kernel_qk_norm_first(p, group) + c;
        const double x = ref_load(p->x, i, p->type);
        sum +=
            p->dy ? dy_of(p, r, group, c) * gain_of(p, group, c) * hat_of(p, r, group, c) : x * x;
    }
    return sum;
}

// The sum of a group over all ranks, divided by its columns.
static double group_mean(const kernel_qk_norm_args *p, int64_t r, int64_t group)
{
    const double sum =
        p->sums ? p->sums[r * kernel_qk_norm_groups(p) + group] : group_sum(p, r, group);
    return sum / (double)(kernel_qk_norm_cols(p, group) * p->ranks);
}

static void copy_values(const kernel_qk_norm_args *p, const void *from)
{
    const int64_t first = (p->heads + p->kv_heads) * p->head_dim;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = first; c < row_cols(p); c++) {
            const int64_t i = r * row_cols(p) + c;
            ref_store(p->y, i, p->type, ref_load(from, i, p->type));
        }
}

void ref_qk_norm(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_qk_norm_args *p = args;
    const int64_t groups = kernel_qk_norm_groups(p);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t g = 0; g < groups; g++) {
            const double rstd = 1 / sqrt(group_mean(p, r, g) + p->eps);
            for (int64_t c = 0; c < kernel_qk_norm_cols(p, g); c++) {
                const int64_t i = r * row_cols(p) + kernel_qk_norm_first(p, g) + c;
                const double y = (double)ref_load(p->x, i, p->type) * rstd * gain_of(p, g, c);
                ref_store(p->y, i, p->type, (float)y);
            }
            p->rstd[r * groups + g] = (float)rstd;
        }
    if (p->y != p->x) copy_values(p, p->x);
}

void ref_qk_norm_sums(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_qk_norm_args *p = args;
    const int64_t groups = kernel_qk_norm_groups(p);
    for (int64_t i = 0; i < p->rows * groups; i++)
        p->sums[i] = (float)group_sum(p, i / groups, i % groups);
}

// The gradient of the gain of the queries, or of the keys.
static void grad_gain(const kernel_qk_norm_args *p, bool query, float *to, bool accumulate)
{
    const int64_t groups = kernel_qk_norm_groups(p);
    const int64_t cols = kernel_qk_norm_cols(p, query ? 0 : groups - 1);
    for (int64_t c = 0; c < cols; c++) {
        double sum = 0;
        for (int64_t i = 0; i < p->rows * groups; i++)
            if (kernel_qk_norm_is_query(p, i % groups) == query)
                sum += dy_of(p, i / groups, i % groups, c) * hat_of(p, i / groups, i % groups, c);
        to[c] = (float)(sum + (accumulate ? to[c] : 0));
    }
}

void ref_qk_norm_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_qk_norm_args *p = args;
    // Before dx is written, because it may be dy.
    if (p->dq_gain) grad_gain(p, true, p->dq_gain, p->accumulate_dq_gain);
    if (p->dk_gain) grad_gain(p, false, p->dk_gain, p->accumulate_dk_gain);
    if (!p->y) return;
    const int64_t groups = kernel_qk_norm_groups(p);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t g = 0; g < groups; g++) {
            const double mean = group_mean(p, r, g), rstd = p->rstd[r * groups + g];
            for (int64_t c = 0; c < kernel_qk_norm_cols(p, g); c++) {
                const double along = dy_of(p, r, g, c) * gain_of(p, g, c);
                ref_store(p->y, r * row_cols(p) + kernel_qk_norm_first(p, g) + c, p->type,
                          (float)(rstd * (along - hat_of(p, r, g, c) * mean)));
            }
        }
    if (p->y != p->dy) copy_values(p, p->dy);
}
