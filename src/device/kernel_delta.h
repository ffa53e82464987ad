// kernel_delta.h -- the specification of the gated delta rule (Yang et al. 2025) and of its gates: K_DELTA_GATES,
// K_DELTA_RULE and their gradients. A part of device/kernels.h, which has the conventions.
#ifndef TRIREME_DEVICE_KERNEL_DELTA_H
#define TRIREME_DEVICE_KERNEL_DELTA_H

#include "base/dtype.h"
#include "device/kernel_tokens.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    KERNEL_DELTA_CHUNK = 64, // tokens that the chunked forms take at once
    KERNEL_DELTA_DIM = 256   // columns of q, k or v of a head, at most
};

// K_DELTA_GATES        For each row and head, from b and a of x [rows, 2 H], which holds b of all heads, then a:
//                        beta = 1 / (1 + exp(-b))      g = -exp(log_decay) * log(1 + exp(a + a_bias))
//                      gates [rows, 2 H] holds beta of all heads, then g
// K_DELTA_GATES_GRAD   x is read; dx from the gradient d_gates of the gates
//                        d_log_decay, d_a_bias [H] (+)= sums over the rows
typedef struct kernel_delta_gates_args {
    int64_t rows, heads;            // heads: H
    const void *x;                  // [rows, 2 H] of `type`
    const void *log_decay, *a_bias; // [H] of `type`
    float *gates;                   // [rows, 2 H]; K_DELTA_GATES writes it
    const float *d_gates;           // [rows, 2 H]; read by the gradient only
    void *dx;                       // [rows, 2 H] of `type`; NULL: not wanted
    float *d_log_decay, *d_a_bias;  // [H]; each NULL: not wanted
    bool accumulate_d_log_decay, accumulate_d_a_bias;
    dtype type;
} kernel_delta_gates_args;

// A memory of each head, the state S [Dk, Dv], which begins with zeros in each sequence. For each token in order,
// with its q and k [Dk], v [Dv], and beta and g of the head:
//   S = exp(g) S;   S += k (beta (v - S^T k))^T;   o = scale * S^T q
//
// A row of x holds q of KH heads, k of KH heads and v of H heads. Head h reads head h / (H / KH) of q and k. With
// `normalize` q and k stand for q / sqrt(q^2 + eps) and k / sqrt(k^2 + eps). x and gates have full_seq tokens of each
// sequence; o has the rows of `rows` alone. Documents begin with a state of zeros; where they are given, the rows of o are
// all tokens.
//
// `state`: the state of each head before the first token, which the kernel replaces by that after the last one.
typedef struct kernel_delta_rule_args {
    int64_t batch, heads, key_heads, key_dim, value_dim; // B, H, KH, Dk, Dv
    kernel_tokens rows; // the tokens of the rows of o; first_row is 0
    const void *x;      // [B * full_seq, 2 KH Dk + H Dv] of `type`
    const float *gates; // [B * full_seq, 2 H], as K_DELTA_GATES writes it
    void *o;            // [B * rows.seq, H Dv] of `type`
    float *state;       // [B, H, Dk, Dv]; NULL: zeros, and not wanted
    float scale, eps;
    bool normalize;
    dtype type;
} kernel_delta_rule_args;

// The gradients of kernel_delta_rule_args without a state. o is not read. dx and d_gates are overwritten for all
// tokens; they have the summands of the rows of o alone. Sums over the heads that share a q and a k are in their order.
typedef struct kernel_delta_rule_grad_args {
    kernel_delta_rule_args fwd;
    const void *d_o; // [B * rows.seq, H Dv] of `type`
    void *dx;        // as x
    float *d_gates;  // as gates
} kernel_delta_rule_grad_args;

// The columns of x.
ON_DEVICE static inline int64_t kernel_delta_cols(const kernel_delta_rule_args *p)
{
    return 2 * p->key_heads * p->key_dim + p->heads * p->value_dim;
}

// The columns of a row of x at which q, k or v of a value head begin.
ON_DEVICE static inline int64_t kernel_delta_q(const kernel_delta_rule_args *p, int64_t head)
{
    return head / (p->heads / p->key_heads) * p->key_dim;
}
ON_DEVICE static inline int64_t kernel_delta_k(const kernel_delta_rule_args *p, int64_t head)
{
    return p->key_heads * p->key_dim + kernel_delta_q(p, head);
}
ON_DEVICE static inline int64_t kernel_delta_v(const kernel_delta_rule_args *p, int64_t head)
{
    return 2 * p->key_heads * p->key_dim + head * p->value_dim;
}

// The token of sequence b at which the document of token t begins. The token is one of full_seq, and no position.
ON_DEVICE static inline int64_t kernel_delta_document(const kernel_delta_rule_args *p, int64_t b,
                                                      int64_t t)
{
    return kernel_document_start(&p->rows, b * p->rows.seq + t);
}

// The row of o of token t of sequence b; -1: it has none. When decoding, token 0 stands at position start[0].
ON_DEVICE static inline int64_t kernel_delta_row(const kernel_delta_rule_args *p, int64_t b,
                                                 int64_t t)
{
    if (p->rows.seq == p->rows.full_seq) return b * p->rows.seq + t;
    const int64_t i = kernel_token_at(&p->rows, t);
    return i < 0 ? -1 : b * p->rows.seq + i;
}

// The chunks of a sequence, of which the last may be shorter.
ON_DEVICE static inline int64_t kernel_delta_chunks(const kernel_delta_rule_args *p)
{
    return (p->rows.full_seq + KERNEL_DELTA_CHUNK - 1) / KERNEL_DELTA_CHUNK;
}

#endif
