// ref.h -- element access for the plain-C reference kernels (ref_*.c).
#ifndef TRIREME_DEVICE_CPU_REF_H
#define TRIREME_DEVICE_CPU_REF_H

#include "device/cpu/cpu.h"

// Element i of an F32, BF16 or F16 array.
static inline float ref_load(const void *p, int64_t i, dtype type)
{
    if (type == F32) return ((const float *)p)[i];
    uint16_t half = ((const uint16_t *)p)[i];
    return type == BF16 ? bf16_to_float(half) : fp16_to_float(half);
}

static inline void ref_store(void *p, int64_t i, dtype type, float value)
{
    if (type == F32) {
        ((float *)p)[i] = value;
    } else {
        ((uint16_t *)p)[i] = type == BF16 ? float_to_bf16(value) : float_to_fp16(value);
    }
}

// The address of element i, for handing on a row.
static inline const void *ref_at(const void *p, int64_t i, dtype type)
{
    return (const unsigned char *)p + (type == F32 ? 4 : 2) * i;
}

// y = f(x) and dy/dx, in double so that the reference adds no error of its own.
double ref_activate(kernel_activation act, double x);
double ref_activate_slope(kernel_activation act, double x);

// What a row's loss and gradient need of the whole vocabulary.
typedef struct row_total {
    double lse, label; // log-sum-exp of the scaled logits; the label's scaled logit
} row_total;

// Row r's, from p->stats, the parts in order. Every form uses this one.
row_total ref_total_of_parts(const kernel_cross_entropy_args *p, int64_t r);

void ref_matmul(const cpu_context *x, const void *args);
void ref_bias_grad(const cpu_context *x, const void *args);
void ref_embedding(const cpu_context *x, const void *args);
void ref_embedding_grad(const cpu_context *x, const void *args);
void ref_norm(const cpu_context *x, const void *args);
void ref_norm_grad(const cpu_context *x, const void *args);
void ref_rope(const cpu_context *x, const void *args);
void ref_attention(const cpu_context *x, const void *args);
void ref_attention_grad(const cpu_context *x, const void *args);
void ref_activation(const cpu_context *x, const void *args);
void ref_activation_grad(const cpu_context *x, const void *args);
void ref_glu(const cpu_context *x, const void *args);
void ref_glu_grad(const cpu_context *x, const void *args);
void ref_add(const cpu_context *x, const void *args);
void ref_dropout(const cpu_context *x, const void *args);
void ref_init(const cpu_context *x, const void *args);
void ref_cross_entropy(const cpu_context *x, const void *args);
void ref_cross_entropy_stats(const cpu_context *x, const void *args);
void ref_square_error(const cpu_context *x, const void *args);
void ref_sum_squares(const cpu_context *x, const void *args);
void ref_update(const cpu_context *x, const void *args);
void ref_convert(const cpu_context *x, const void *args);
void ref_fill(const cpu_context *x, const void *args);
void ref_digest(const cpu_context *x, const void *args);
void ref_orthogonalize(const cpu_context *x, const void *args);

#endif
