// kernel_norm.h -- the specification of the norms and of their gradients. A part of device/kernels.h, which
// has the conventions.
#ifndef TRIREME_DEVICE_KERNEL_NORM_H
#define TRIREME_DEVICE_KERNEL_NORM_H

#include "base/dtype.h"
#include "base/target.h"

#include <stdbool.h>
#include <stdint.h>

// Layer norm or RMS norm over the last dimension.
//   layer norm   y [rows, cols] = (x - mean) * rstd * gain + bias
//                mean = mean(x),  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
//   RMS norm     y [rows, cols] = x * rstd * gain (+ bias)
//                rstd = 1 / sqrt(mean(x^2) + eps)
// With `unit_offset`, gain stands for 1 + gain. Without a gain it stands for 1.
// With `addend`, x stands for sum = alpha * x + beta * addend, rounded to the residual's type, which is
// written too: one launch instead of K_ADD and K_NORM, with their bits. sum and y may each be x or the
// addend, where that has their type; not both the same.
typedef struct kernel_norm_args {
    int64_t rows, cols;
    const void *x;           // [rows, cols], the residual
    const void *addend;      // [rows, cols] of `type`; NULL: none
    void *sum;               // [rows, cols], the residual; with `addend`
    float alpha, beta;       // with `addend`
    const void *gain, *bias; // [cols] of `type`; each NULL: none
    void *y;                 // [rows, cols] of `type`
    float *mean, *rstd;      // [rows], written for the gradient; mean is NULL for RMS norm
    float eps;
    bool is_rms, unit_offset;
    dtype type;
    bool residual_fp32; // x and sum are F32
} kernel_norm_args;

// The gradients of kernel_norm_args. With g = dy * gain (unit_offset: dy * (1 + gain)) and x_hat = (x - mean) * rstd:
//   dx [rows, cols]  (+)= rstd * (g - mean(g) - x_hat * mean(g * x_hat))
//                    RMS norm leaves out mean(g).
//   dgain [cols]     (+)= sum over rows of dy * x_hat
//   dbias [cols]     (+)= sum over rows of dy
// An array that is NULL is left out; the bits of the others do not depend on it. gain is read for dx
// only; x, mean and rstd are read for dx and dgain only.
typedef struct kernel_norm_grad_args {
    int64_t rows, cols;
    const void *dy, *x, *gain; // [rows, cols] of `type`, [rows, cols] residual, [cols] of `type`
    const float *mean, *rstd;  // [rows], as kernel_norm_args wrote them
    void *dx;                  // [rows, cols], residual; may be dy when accumulate_dx is false
    float *dgain, *dbias;      // [cols]
    bool is_rms, unit_offset, accumulate_dx, accumulate_dgain, accumulate_dbias;
    dtype type;
    bool residual_fp32; // x and dx are F32
} kernel_norm_grad_args;

// Norms of queries and keys. A row of x holds H heads of queries, KV heads of keys and KV heads of
// values, of D columns each. Its queries and keys are groups of columns:
//   per head     each head is a group: H + KV groups, in order of the columns
//   full_width   all queries are group 0, and all keys are group 1
// The ranks of a tensor-parallel group may have shards of equal size of each group (full_width only). Norms are RMS
// norms. With `layer_norm`, per head, they subtract the mean of the group, and each head has gains of its own.
//
// K_QK_NORM        y = x * rstd * gain in each group; the values are copied. y may be x
//                  rstd = 1 / sqrt(sum / n + eps), for the n columns that all ranks have of the group
//                  sum = sum of x^2 over the group
// K_QK_NORM_GRAD   With g = dy * gain and x_hat = x * rstd:
//                  y = dx = rstd * (g - x_hat * sum / n); the gradient of the values is copied. dx may be dy
//                  sum = sum of g * x_hat over the group
//                  dq_gain, dk_gain (+)= sums of dy * x_hat over the rows, and per head over the heads
// K_QK_NORM_SUMS   sums = the sum of each group over the columns of this rank: of K_QK_NORM where dy is
//                  NULL, else of K_QK_NORM_GRAD
//
// With `layer_norm`, x stands for x - mean, and dx is less rstd * the mean of g over the group.
// With `unit_offset`, gain stands for 1 + gain. Without a gain it stands for 1.
typedef struct kernel_qk_norm_args {
    int64_t rows, heads, kv_heads, head_dim; // H, KV, D, of this rank
    int64_t ranks;                           // that have shards of each group
    const void *x, *dy; // [rows, (H + 2 KV) * D] of `type`; dy NULL: not the gradient
    const void *q_gain,
        *k_gain; // [D], with full_width or layer_norm [H * D] and [KV * D], of `type`; NULL: none
    void *y;     // [rows, (H + 2 KV) * D] of `type`: y or dx; dx NULL: not wanted
    float *rstd, *mean; // [rows, groups]; K_QK_NORM writes them; mean NULL without layer_norm
    float *sums;        // [rows, groups]; K_QK_NORM_SUMS writes it; NULL: the kernel computes them
    float *dq_gain, *dk_gain; // as q_gain and k_gain; NULL: not wanted
    float eps;
    bool full_width, layer_norm, unit_offset, accumulate_dq_gain, accumulate_dk_gain;
    dtype type;
} kernel_qk_norm_args;

// The groups of a row: how many there are, and how many columns this rank has of group `group`. Groups are
// runs of columns, one after the other.
ON_DEVICE static inline int64_t kernel_qk_norm_groups(const kernel_qk_norm_args *p)
{
    return p->full_width ? 2 : p->heads + p->kv_heads;
}
ON_DEVICE static inline int64_t kernel_qk_norm_cols(const kernel_qk_norm_args *p, int64_t group)
{
    return p->full_width ? (group == 0 ? p->heads : p->kv_heads) * p->head_dim : p->head_dim;
}
// The column of the group's first element.
ON_DEVICE static inline int64_t kernel_qk_norm_first(const kernel_qk_norm_args *p, int64_t group)
{
    return group * kernel_qk_norm_cols(p, 0);
}
// The columns of the gain of the queries, or of the keys.
ON_DEVICE static inline int64_t kernel_qk_norm_gains(const kernel_qk_norm_args *p, bool query)
{
    const int64_t heads = query ? p->heads : p->kv_heads;
    return p->full_width || p->layer_norm ? heads * p->head_dim : p->head_dim;
}
// The element of its gain that belongs to the group's first column.
ON_DEVICE static inline int64_t kernel_qk_norm_gain(const kernel_qk_norm_args *p, int64_t group)
{
    return p->layer_norm ? (group < p->heads ? group : group - p->heads) * p->head_dim : 0;
}
// Returns whether the group holds queries. Else it holds keys.
ON_DEVICE static inline bool kernel_qk_norm_is_query(const kernel_qk_norm_args *p, int64_t group)
{
    return group < (p->full_width ? 1 : p->heads);
}

// RMS norms of the values of attention, without a gain. A row of y holds H heads of queries, KV heads of keys and KV heads
// of values, of D columns each. A row of x holds the same, or, with `of_keys`, no values: then those of y are the
// norms of the keys.
//
// K_VALUE_NORM        y = x, but each head v of values is v * rstd
//                     rstd = 1 / sqrt(mean(v^2) + eps). y may be x without of_keys
// K_VALUE_NORM_GRAD   y = dx = dy, but with v_hat = v * rstd the gradient of v is
//                     rstd * (dv - v_hat * mean(dv * v_hat)), which of_keys adds to that of the keys.
//                     dx may be dy without of_keys
typedef struct kernel_value_norm_args {
    int64_t rows, heads, kv_heads, head_dim; // H, KV, D, of this rank
    const void *x;  // [rows, (H + 2 KV) * D] of `type`, with of_keys [rows, (H + KV) * D]
    const void *dy; // [rows, (H + 2 KV) * D] of `type`; the gradient alone reads it
    void *y;        // as dy, or in the gradient as x
    float *rstd;    // [rows, KV]; K_VALUE_NORM writes it
    float eps;
    bool of_keys;
    dtype type;
} kernel_value_norm_args;

// The columns of a row of x, and of one with values; the first column of the values, and that of what x has of them.
ON_DEVICE static inline int64_t kernel_value_norm_first(const kernel_value_norm_args *p)
{
    return (p->heads + p->kv_heads) * p->head_dim;
}
ON_DEVICE static inline int64_t kernel_value_norm_full_cols(const kernel_value_norm_args *p)
{
    return (p->heads + 2 * p->kv_heads) * p->head_dim;
}
ON_DEVICE static inline int64_t kernel_value_norm_cols(const kernel_value_norm_args *p)
{
    return p->of_keys ? kernel_value_norm_first(p) : kernel_value_norm_full_cols(p);
}
ON_DEVICE static inline int64_t kernel_value_norm_source(const kernel_value_norm_args *p)
{
    return p->of_keys ? p->heads * p->head_dim : kernel_value_norm_first(p);
}

#endif
