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
    return ref_gain(kernel_qk_norm_is_query(p, group) ? p->q_gain : p->k_gain,
                    kernel_qk_norm_gain(p, group) + c, p->unit_offset, p->type);
}

// Element c of a group of row r, less the mean with layer_norm.
static double x_of(const kernel_qk_norm_args *p, int64_t r, int64_t group, int64_t c, double mean)
{
    return ref_load(p->x, r * row_cols(p) + kernel_qk_norm_first(p, group) + c, p->type) - mean;
}

// Element c of a group of row r, normalised.
static double hat_of(const kernel_qk_norm_args *p, int64_t r, int64_t group, int64_t c)
{
    const int64_t stat = r * kernel_qk_norm_groups(p) + group;
    return x_of(p, r, group, c, p->layer_norm ? p->mean[stat] : 0) * p->rstd[stat];
}

// Element c of a group of row r of dy.
static double dy_of(const kernel_qk_norm_args *p, int64_t r, int64_t group, int64_t c)
{
    return ref_load(p->dy, r * row_cols(p) + kernel_qk_norm_first(p, group) + c, p->type);
}

// The sum of a group, of x^2 or, where there is dy, of its gradient.
static double group_sum(const kernel_qk_norm_args *p, int64_t r, int64_t group, double mean)
{
    double sum = 0;
    for (int64_t c = 0; c < kernel_qk_norm_cols(p, group); c++) {
        const double x = x_of(p, r, group, c, mean);
        sum +=
            p->dy ? dy_of(p, r, group, c) * gain_of(p, group, c) * hat_of(p, r, group, c) : x * x;
    }
    return sum;
}

// The mean of a group with layer_norm, of x or, where there is dy, of dy * gain. Else 0.
static double group_shift(const kernel_qk_norm_args *p, int64_t r, int64_t group)
{
    double sum = 0;
    for (int64_t c = 0; p->layer_norm && c < p->head_dim; c++)
        sum += p->dy ? dy_of(p, r, group, c) * gain_of(p, group, c) : x_of(p, r, group, c, 0);
    return sum / (double)p->head_dim;
}

// The sum of a group over all ranks, divided by its columns.
static double group_mean(const kernel_qk_norm_args *p, int64_t r, int64_t group, double mean)
{
    const double sum =
        p->sums ? p->sums[r * kernel_qk_norm_groups(p) + group] : group_sum(p, r, group, mean);
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
            const double mean = group_shift(p, r, g),
                         rstd = 1 / sqrt(group_mean(p, r, g, mean) + p->eps);
            for (int64_t c = 0; c < kernel_qk_norm_cols(p, g); c++) {
                const int64_t i = r * row_cols(p) + kernel_qk_norm_first(p, g) + c;
                const double y = x_of(p, r, g, c, mean) * rstd * gain_of(p, g, c);
                ref_store(p->y, i, p->type, (float)y);
            }
            p->rstd[r * groups + g] = (float)rstd;
            if (p->layer_norm) p->mean[r * groups + g] = (float)mean;
        }
    if (p->y != p->x) copy_values(p, p->x);
}

void ref_qk_norm_sums(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_qk_norm_args *p = args;
    const int64_t groups = kernel_qk_norm_groups(p);
    for (int64_t i = 0; i < p->rows * groups; i++)
        p->sums[i] = (float)group_sum(p, i / groups, i % groups, 0);
}

// The gradient of the gain of the queries, or of the keys.
static void grad_gain(const kernel_qk_norm_args *p, bool query, float *to, bool accumulate)
{
    const int64_t groups = kernel_qk_norm_groups(p);
    for (int64_t k = 0; k < kernel_qk_norm_gains(p, query); k++) {
        double sum = 0;
        for (int64_t i = 0; i < p->rows * groups; i++) {
            const int64_t r = i / groups, g = i % groups, c = k - kernel_qk_norm_gain(p, g);
            if (kernel_qk_norm_is_query(p, g) == query && c >= 0 && c < kernel_qk_norm_cols(p, g))
                sum += dy_of(p, r, g, c) * hat_of(p, r, g, c);
        }
        to[k] = (float)(sum + (accumulate ? to[k] : 0));
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
            const double shift = group_shift(p, r, g), mean = group_mean(p, r, g, 0),
                         rstd = p->rstd[r * groups + g];
            for (int64_t c = 0; c < kernel_qk_norm_cols(p, g); c++) {
                const double along = dy_of(p, r, g, c) * gain_of(p, g, c);
                ref_store(p->y, r * row_cols(p) + kernel_qk_norm_first(p, g) + c, p->type,
                          (float)(rstd * (along - shift - hat_of(p, r, g, c) * mean)));
            }
        }
    if (p->y != p->dy) copy_values(p, p->dy);
}
