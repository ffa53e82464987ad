// ref.h -- the reference kernels in plain C (ref_*.c), and the access to single elements that they
// share.
//
// They are the executable form of device/kernels.h: one function a kernel, as direct as possible,
// on one thread. The table of kernels starts with them, and every other form is tested against
// them. The tests compile them once more with REF_REAL double, as the reference of other devices: what
// is computed in REF_REAL is then exact beside what such a device rounds.
#ifndef TRIREME_DEVICE_CPU_REF_H
#define TRIREME_DEVICE_CPU_REF_H

#include "device/cpu/cpu.h"

#include <math.h>

#ifndef REF_REAL
#define REF_REAL float
#endif
typedef REF_REAL ref_real;

// Element i of an F32, BF16 or F16 array.
static inline ref_real ref_load(const void *p, int64_t i, dtype type)
{
    if (type == F32) return ((const float *)p)[i];
    uint16_t half = ((const uint16_t *)p)[i];
    return type == BF16 ? bf16_to_float(half) : fp16_to_float(half);
}

static inline void ref_store(void *p, int64_t i, dtype type, ref_real value)
{
    if (type == F32) {
        ((float *)p)[i] = (float)value;
    } else {
        ((uint16_t *)p)[i] =
            type == BF16 ? float_to_bf16((float)value) : float_to_fp16((float)value);
    }
}

// x rounded to `type`.
static inline ref_real ref_round(ref_real x, dtype type)
{
    uint32_t element;
    ref_store(&element, 0, type, x);
    return ref_load(&element, 0, type);
}

// The factor of column i of a norm, whose gain may be NULL.
static inline double ref_gain(const void *gain, int64_t i, bool unit_offset, dtype type)
{
    if (!gain) return 1;
    return unit_offset ? 1 + (double)ref_load(gain, i, type) : (double)ref_load(gain, i, type);
}

// The address of element i of an F32, BF16 or F16 array.
static inline const void *ref_at(const void *p, int64_t i, dtype type)
{
    return (const unsigned char *)p + (type == F32 ? 4 : 2) * i;
}

// An update with the numbers of its step, which are read once a launch.
typedef struct ref_update_call {
    kernel_update_args p;
    kernel_step_group group;
    float grad_scale;
    bool applies;
} ref_update_call;

ref_update_call ref_update_read(const kernel_update_args *p);

// The update of one segment, as a call without a table. The vector form uses it too.
static inline ref_update_call ref_update_segment(const ref_update_call *all,
                                                 const kernel_segment *s)
{
    ref_update_call one = *all;
    kernel_update_args *p = &one.p;
    p->count = s->count;
    p->segment = NULL;
    p->g += s->src;
    p->w += p->low ? s->state : s->dst;
    p->m = (float *)kernel_element(p->m, s->state, F32);
    p->v = (float *)kernel_element(p->v, s->state, F32);
    p->average = (float *)kernel_element(p->average, s->state, F32);
    p->low = kernel_element(p->low, s->dst, p->low_type);
    if (!s->decays) p->weight_decay = 0;
    return one;
}

// The rows of a squared error that hold a sample.
static inline int64_t ref_filled_rows(const kernel_square_error_args *p)
{
    const int64_t filled = p->filled ? *p->filled - p->first : p->rows;
    return filled < 0 ? 0 : filled > p->rows ? p->rows : filled;
}

// f(x) and f'(x) of an activation, in double so that the reference adds no error of its own.
double ref_activate(kernel_activation act, double x);
double ref_activate_slope(kernel_activation act, double x);

// A logit: `scaled`, capped where there is a softcap. *slope is its derivative.
static inline double ref_cap(double scaled, double softcap, double *slope)
{
    const double t = softcap > 0 ? tanh(scaled / softcap) : 0;
    *slope = 1 - t * t;
    return softcap > 0 ? softcap * t : scaled;
}

// The totals of one row of logits over the full vocabulary.
typedef struct ref_row_total {
    double lse;   // logarithm of the sum of exponentials of the logits
    double label; // logit of the row's label
} ref_row_total;

// The totals of row r from p->stats, with the shards in order. The vector form uses it too.
ref_row_total ref_total_of_shards(const kernel_cross_entropy_args *p, int64_t r);

void ref_matmul(const cpu_context *x, const void *args);
void ref_bias_grad(const cpu_context *x, const void *args);
void ref_embedding(const cpu_context *x, const void *args);
void ref_embedding_grad(const cpu_context *x, const void *args);
void ref_norm(const cpu_context *x, const void *args);
void ref_norm_grad(const cpu_context *x, const void *args);
void ref_qk_norm(const cpu_context *x, const void *args);
void ref_qk_norm_sums(const cpu_context *x, const void *args);
void ref_qk_norm_grad(const cpu_context *x, const void *args);
void ref_value_norm(const cpu_context *x, const void *args);
void ref_value_norm_grad(const cpu_context *x, const void *args);
void ref_rope(const cpu_context *x, const void *args);
void ref_attention(const cpu_context *x, const void *args);
void ref_attention_grad(const cpu_context *x, const void *args);
void ref_causal_conv(const cpu_context *x, const void *args);
void ref_causal_conv_grad(const cpu_context *x, const void *args);
void ref_delta_gates(const cpu_context *x, const void *args);
void ref_delta_gates_grad(const cpu_context *x, const void *args);
void ref_delta_rule(const cpu_context *x, const void *args);
void ref_delta_rule_grad(const cpu_context *x, const void *args);
void ref_gate(const cpu_context *x, const void *args);
void ref_gate_grad(const cpu_context *x, const void *args);
void ref_activation(const cpu_context *x, const void *args);
void ref_activation_grad(const cpu_context *x, const void *args);
void ref_glu(const cpu_context *x, const void *args);
void ref_glu_grad(const cpu_context *x, const void *args);
void ref_xielu(const cpu_context *x, const void *args);
void ref_xielu_grad(const cpu_context *x, const void *args);
void ref_add(const cpu_context *x, const void *args);
void ref_dropout(const cpu_context *x, const void *args);
void ref_init(const cpu_context *x, const void *args);
void ref_cross_entropy(const cpu_context *x, const void *args);
void ref_cross_entropy_stats(const cpu_context *x, const void *args);
void ref_document_sums(const cpu_context *x, const void *args);
void ref_preference(const cpu_context *x, const void *args);
void ref_square_error(const cpu_context *x, const void *args);
void ref_sum_squares(const cpu_context *x, const void *args);
void ref_clip(const cpu_context *x, const void *args);
void ref_update(const cpu_context *x, const void *args);
void ref_convert(const cpu_context *x, const void *args);
void ref_unpack_nf4(const cpu_context *x, const void *args);
void ref_copy_rows(const cpu_context *x, const void *args);
void ref_fill(const cpu_context *x, const void *args);
void ref_digest(const cpu_context *x, const void *args);
void ref_orthogonalize(const cpu_context *x, const void *args);
void ref_reduce(const cpu_context *x, const void *args);

#endif
