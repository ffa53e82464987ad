// kernels.h -- every kernel that a device must have, as data: a kernel is launched by filling one
// kernel_call and handing it to device_launch. This file is the written specification; the plain-C
// reference in device/cpu/ref_*.c is its executable form, and other forms are checked against it.
//
// Conventions. All pointers are device memory unless they say host. Matrices are row-major and
// dense unless a stride (in elements) is given. B batch, T tokens, C width, H heads, D head width,
// V vocabulary, F inner width. `type` is the type of activations and compute weights: F32, BF16 or
// F16; arithmetic is fp32 inside every kernel, and what is written is rounded to nearest, ties to
// even (F16: beyond 65504 to Inf). Gradients of parameters are F32 always, and `accumulate` says
// whether to add to them (true) or overwrite. Results do not depend on the number of threads.
#ifndef TRIREME_DEVICE_KERNELS_H
#define TRIREME_DEVICE_KERNELS_H

#include "base/dtype.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// `wide` (with type BF16 or F16): the residual stream that the kernel reads or writes is F32, as
// each field's comment says, while everything else is of `type`.
typedef enum kernel_kind {
    K_MATMUL,
    K_BIAS_GRAD,
    K_EMBEDDING,
    K_EMBEDDING_GRAD,
    K_NORM,
    K_NORM_GRAD,
    K_ROPE,
    K_ATTENTION,
    K_ATTENTION_GRAD,
    K_ACTIVATION,
    K_ACTIVATION_GRAD,
    K_GLU,
    K_GLU_GRAD,
    K_ADD,
    K_DROPOUT,
    K_INIT,
    K_CROSS_ENTROPY,
    K_CROSS_ENTROPY_STATS,
    K_SQUARE_ERROR,
    K_SUM_SQUARES,
    K_UPDATE,
    K_CONVERT,
    K_FILL,
    K_DIGEST,
    K_ORTHOGONALIZE,
    KERNELS
} kernel_kind;

typedef enum kernel_activation {
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_RELU,
    ACT_SILU,
    ACT_TANH,
    ACTIVATIONS
} kernel_activation;

// C[M,N] = op(A) op(B) (+ bias) (+ C).  op(A): [M,K], op(B): [K,N].
// trans_a: A is stored [K,M]; trans_b: B is stored [N,K]. lda, ldb, ldc: row strides as stored.
// a, b and bias are of `type`; c is of `c_type` (F32, or `type`).
typedef struct kernel_matmul_args {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    const void *bias; // [N], NULL for none
    int64_t lda, ldb, ldc;
    dtype type, c_type;
    bool trans_a, trans_b, accumulate;
} kernel_matmul_args;

// db[C] (+)= sum over rows of dy[rows, C].
typedef struct kernel_bias_grad_args {
    int64_t rows, cols;
    const void *dy;
    float *db;
    dtype type;
    bool accumulate;
} kernel_bias_grad_args;

// y[r,:] = scale * tokens[ids[r] - first] + positions[pos0 + r % seq]   for r in 0 … rows-1. With
// `vocab` the table holds rows first … first+vocab-1 of the whole one only, and an id outside adds
// nothing for its token; vocab 0 means no limit: every id is in the table.
typedef struct kernel_embedding_args {
    int64_t rows, seq, cols, pos0;
    int64_t first, vocab;
    const int32_t *ids;    // [rows]
    const void *tokens;    // [vocab, C]
    const void *positions; // [>= pos0+seq, C]; NULL for none
    void *y;               // [rows, C]
    float scale;
    dtype type;
    bool wide; // y is F32
} kernel_embedding_args;

// d_tokens[id - first,:] += the sum of scale * dy[r,:] over the rows r with ids[r] == id, in row
// order; d_positions[r % seq,:] (+)= dy[r,:], row by row. The token's half leaves out ids outside
// first … first+vocab-1. With accumulate false the whole of d_tokens [vocab, C] (d_positions
// [max_seq, C]) is zeroed first. With d_tokens NULL (d_positions NULL) that half is left out.
typedef struct kernel_embedding_grad_args {
    int64_t rows, seq, cols, first, vocab, max_seq;
    const int32_t *ids;
    const void *dy;
    float *d_tokens, *d_positions;
    float scale;
    dtype type;
    bool accumulate_tokens, accumulate_positions;
    bool wide; // dy is F32
} kernel_embedding_grad_args;

// Layer norm (bias or mean given) or RMS norm (is_rms) over the last dim.
//   layer: y = (x - mean) * rstd * gain + bias     rms: y = x * rstd * gain,  rstd =
//   1/sqrt(mean(x^2) + eps)
// x, y: [rows, C]; gain, bias: [C] of `type`, bias NULL for none; mean (NULL for rms), rstd: [rows]
// F32.
typedef struct kernel_norm_args {
    int64_t rows, cols;
    const void *x, *gain, *bias;
    void *y;
    float *mean, *rstd;
    float eps;
    bool is_rms;
    dtype type;
    bool wide; // x is F32
} kernel_norm_args;

// dx (+)= …; dgain, dbias (+)= …  dx may alias dy when accumulate_dx is false.
typedef struct kernel_norm_grad_args {
    int64_t rows, cols;
    const void *dy, *x, *gain;
    const float *mean, *rstd;
    void *dx;
    float *dgain, *dbias; // dbias NULL for none
    bool is_rms, accumulate_dx, accumulate_dgain, accumulate_dbias;
    dtype type;
    bool wide; // x and dx are F32
} kernel_norm_grad_args;

// Rotary position embedding, in place, rotate-half layout: for each row r, head h < heads and
// i < rot/2:  (x[i], x[i+rot/2]) <- (x[i] cos - x[i+rot/2] sin, x[i+rot/2] cos + x[i] sin)
// with cos, sin = table[(pos0 + r % seq)][i]; `inverse` rotates back (the gradient).
typedef struct kernel_rope_args {
    int64_t rows, seq, pos0, heads, head_dim, rot, stride; // stride between rows of x, in elements
    void *x;                                               // first head of row 0
    const float *table;                                    // [max_seq, rot/2, 2] cos then sin
    bool inverse;
    dtype type;
} kernel_rope_args;

// o = softmax(scale * q k^T + causal mask) v, per batch and head, with dropout on the
// probabilities. q: [B*Tq] rows of stride q_stride holding H heads of D; k, v: [B*Tk] rows of
// strides k_stride, v_stride holding KV heads of D (head h reads h / (H/KV)). Query t sees keys 0 …
// t + Tk - Tq when causal. Batch b's keys start k_batch (v_batch) elements after batch b-1's; q and
// o are dense in B. lse: [B, H, Tq] F32, natural log of the sum of exponentials of scaled scores.
// Never stores Tq x Tk. Dropout keeps the probability of (row q, head h, key j) when
// rng_uniform(rng_word(key, ((row0 + b*Tq + q) * A + head0 + h) * drop_stride + j)) >= p and scales
// it by 1/(1-p); row0 is the logical row of the first query, head0 the logical head of the first
// head here, and A = all_heads (0: H) the number of heads of the whole layer.
typedef struct kernel_attention_args {
    int64_t batch, tq, tk, heads, kv_heads, head_dim;
    int64_t q_stride, k_stride, v_stride, o_stride, k_batch, v_batch;
    const void *q, *k, *v;
    void *o;
    float *lse;
    float scale, dropout;
    rng_key key;
    uint64_t row0, drop_stride;
    int64_t head0, all_heads;
    bool causal;
    dtype type;
} kernel_attention_args;

// The gradient. dq, dk, dv are overwritten (strides and batch offsets as q, k, v; Tq == Tk).
// `delta`: [B, H, T] F32 scratch. dk, dv are summed over the query heads that share them, in order.
typedef struct kernel_attention_grad_args {
    kernel_attention_args fwd; // o and lse as written by the forward
    const void *d_o;           // strided as o
    void *dq, *dk, *dv;
    float *delta;
} kernel_attention_grad_args;

// y = f(x) elementwise; grad: dx = f'(x) * dy. dx may alias dy.
typedef struct kernel_activation_args {
    int64_t count;
    const void *x, *dy;
    void *y; // y, or dx in the gradient
    kernel_activation act;
    dtype type;
} kernel_activation_args;

// x: [rows, 2F] holding gate then up; y[rows, F] = f(gate) * up.
// grad: dx[rows, 2F] from dy[rows, F] and x; dx may alias x.
typedef struct kernel_glu_args {
    int64_t rows, cols; // cols = F
    const void *x, *dy;
    void *y; // y, or dx in the gradient
    kernel_activation act;
    dtype type;
} kernel_glu_args;

// y = alpha * a + beta * b; y may alias a or b.
typedef struct kernel_add_args {
    int64_t count;
    const void *a, *b; // b NULL: y = alpha * a
    void *y;
    float alpha, beta;
    dtype type;
    bool wide; // a and y are F32
} kernel_add_args;

// y[i] = keep(i) ? x[i] / (1-p) : 0 with keep(i) = rng_uniform(rng_word(key, index0 + i)) >= p.
// The gradient is the same call on dy. y may alias x.
typedef struct kernel_dropout_args {
    int64_t count;
    const void *x;
    void *y;
    float p;
    rng_key key;
    uint64_t index0;
    dtype type;
} kernel_dropout_args;

// Initial values of elements index0 … index0+count-1 of a parameter: y[i] = std times the standard
// normal number of element index0+i of `key` (rng_normal, the same bits on every device) where
// `normal`, else `constant`.
typedef struct kernel_init_args {
    int64_t count;
    float *y;
    rng_key key;
    uint64_t index0;
    float std, constant;
    bool normal;
} kernel_init_args;

// The label of a row without a target, as PyTorch's ignore_index.
enum { IGNORED_LABEL = -100 };

// Per row: loss = logsumexp(s*x) - s*x[label] with s = scale. Rows whose label is `ignore` add
// nothing and get zero gradient. *loss_sum += sum of losses (F64), *count += rows that are not
// ignored (F64); each may be NULL. With `gradient`, logits are replaced by grad_scale * s *
// (softmax(s*x) - onehot(label)) (not divided by anything); grad_scale 0 means 1.
// Column 0 of the logits is entry `first` of the vocabulary. Without `stats` the columns are the
// whole vocabulary, every label that is not ignored among them. With `stats`, what
// K_CROSS_ENTROPY_STATS gave for each of `parts` parts of the vocabulary, a row's logsumexp and
// label logit are taken from there, the parts in order, and the columns may be any part.
typedef struct kernel_cross_entropy_args {
    int64_t rows, cols, first;
    void *logits; // [rows, V]
    const int32_t *labels;
    const float *stats; // [parts, rows, 3], NULL for none
    int parts;
    double *loss_sum, *count; // device scalars
    float scale, grad_scale;
    int32_t ignore;
    bool gradient;
    dtype type;
} kernel_cross_entropy_args;

// Per row of a part of the vocabulary, columns `first` … first+cols-1 of it: stats[r,:] = maximum
// of s*x; sum of exp(s*x - maximum); s*x[label] if the label is here, else 0. A row whose label is
// `ignore` gets three zeros. cols 0 gives (-Inf, 0, 0).
typedef struct kernel_cross_entropy_stats_args {
    int64_t rows, cols, first;
    const void *logits; // [rows, V]
    const int32_t *labels;
    float *stats; // [rows, 3]
    float scale;
    int32_t ignore;
    dtype type;
} kernel_cross_entropy_stats_args;

// Mean-squared-error pieces: *loss_sum += sum (x-y)^2, *total += count (each may be NULL); dx =
// grad_scale * 2 (x-y) when dx is not NULL, grad_scale 0 meaning 1. target is F32. dx may alias x.
typedef struct kernel_square_error_args {
    int64_t count;
    const void *x;
    const float *target;
    void *dx;
    double *loss_sum, *total;
    float grad_scale;
    dtype type;
} kernel_square_error_args;

// *sum += sum of squares in F64 (NaN or Inf when any element is). F32, BF16 or F16 input.
typedef struct kernel_sum_squares_args {
    int64_t count;
    const void *x;
    double *sum;
    dtype type;
} kernel_sum_squares_args;

typedef enum kernel_update_rule {
    UPDATE_ADAMW,
    UPDATE_ADAM,
    UPDATE_SGD,
    UPDATE_LION,
    UPDATE_RULES
} kernel_update_rule;

// One optimizer step on a flat range. w, m, v: F32. g is multiplied by grad_scale first.
//   adamw  w -= lr*wd*w; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr * (m/c1) / (sqrt(v/c2)
//   + eps) adam   g += wd*w, then as adamw without the decay (torch.optim.Adam) sgd    g += wd*w; m
//   = b1 m + g (m = g on the first step); w -= lr * m   (torch.optim.SGD; b1 = 0: w -= lr * g) lion
//   w -= lr*wd*w; w -= lr * sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g
// c1 = 1 - b1^t and c2 = 1 - b2^t are given. m or v are NULL where the rule has none.
// `low` (NULL allowed) receives w rounded to low_type.
typedef struct kernel_update_args {
    int64_t count;
    float *w, *m, *v;
    const float *g;
    void *low;
    dtype low_type;
    kernel_update_rule rule;
    bool first; // sgd: m is not yet set
    float lr, beta1, beta2, eps, weight_decay, grad_scale, c1, c2;
} kernel_update_args;

// dst[i] = src[i] between F32, BF16, F16.
typedef struct kernel_convert_args {
    int64_t count;
    const void *src;
    void *dst;
    dtype src_type, dst_type;
} kernel_convert_args;

// Sets `bytes` bytes to zero.
typedef struct kernel_fill_args {
    void *dst;
    int64_t bytes;
} kernel_fill_args;

// *digest += sum over 32-bit words i of mix64(word | (uint64_t)(index0 + i) << 32), modulo 2^64,
// where mix64 is the finaliser of splitmix64. Independent of order and partition. bytes is a
// multiple of 2; a last half word is zero-extended.
typedef struct kernel_digest_args {
    int64_t bytes;
    const void *x;
    uint64_t index0;
    uint64_t *digest;
} kernel_digest_args;

// Makes the columns of x [rows, cols] orthonormal, in place, by modified Gram-Schmidt: for each
// column in order: divide it by (its norm + eps), then take its part out of every later column.
// Sums run in double. A column that depends on those before it ends as rounding noise of no
// meaning, one of zeros as zeros where eps > 0.
typedef struct kernel_orthogonalize_args {
    int64_t rows, cols;
    float *x;
    float eps;
} kernel_orthogonalize_args;

typedef struct kernel_call {
    kernel_kind kind;
    union {
        kernel_matmul_args matmul;
        kernel_bias_grad_args bias_grad;
        kernel_embedding_args embedding;
        kernel_embedding_grad_args embedding_grad;
        kernel_norm_args norm;
        kernel_norm_grad_args norm_grad;
        kernel_rope_args rope;
        kernel_attention_args attention;
        kernel_attention_grad_args attention_grad;
        kernel_activation_args activation; // K_ACTIVATION, K_ACTIVATION_GRAD
        kernel_glu_args glu;               // K_GLU, K_GLU_GRAD
        kernel_add_args add;
        kernel_dropout_args dropout;
        kernel_init_args init;
        kernel_cross_entropy_args cross_entropy;
        kernel_cross_entropy_stats_args cross_entropy_stats;
        kernel_square_error_args square_error;
        kernel_sum_squares_args sum_squares;
        kernel_update_args update;
        kernel_convert_args convert;
        kernel_fill_args fill;
        kernel_digest_args digest;
        kernel_orthogonalize_args orthogonalize;
    } u;
} kernel_call;

// The type of what `wide` speaks of.
static inline dtype wide_type(dtype type, bool wide)
{
    return wide ? F32 : type;
}

// The factor that a gradient's `grad_scale` stands for.
static inline float grad_factor(float grad_scale)
{
    return grad_scale == 0 ? 1 : grad_scale;
}

const char *kernel_name(kernel_kind k); // "matmul", …

#endif
