// kernel_attention.h -- the specification of K_ATTENTION and K_ATTENTION_GRAD. A part of device/kernels.h,
// which has the conventions.
#ifndef TRIREME_DEVICE_KERNEL_ATTENTION_H
#define TRIREME_DEVICE_KERNEL_ATTENTION_H

#include "base/dtype.h"
#include "device/kernel_step.h"
#include "device/kernel_tokens.h"

#include <stdbool.h>
#include <stdint.h>

// Limits of the scores. Zeros: none.
typedef struct kernel_attention_form {
    int64_t
        window; // keys that a query sees, its own the last of them; read where causal; 0: all before it
    float
        softcap; // a scaled score s becomes softcap * tanh(s / softcap), before the mask; 0: s stays
} kernel_attention_form;

// o = softmax(cap(scale * q · k^T) + mask) · v, for each batch and head
//   q, o   [B * Tq, H, D]     k, v   [B * Tk, KV, D]     lse   [B, H, Tq]     Tq = queries.seq
//
// Head h reads head h / (H/KV) of k and v. When causal, a query at position p sees the keys from
// kernel_attention_first_key(form, p), or from the start of its document where that comes later, to p.
// Documents are read where causal. The scores [Tq, Tk] are never stored. The sink of a head is one more
// score of each of its queries, which no cap changes and which has no value: it takes part in the maximum
// and the denominator of the softmax, and in lse.
//
// Dropout keeps the probability of (row r of q, head h, key j), and scales it by 1/(1-p), when
//   rng_uniform(rng_word(key, ((row0 + logical row of r) * A + head0 + h) * stride + j)) >= p
// where A = all_heads, or H if all_heads is 0, and key and row0 are kernel_draw_read(draw). So the
// random numbers depend on the logical position and not on the rank.
typedef struct kernel_attention_dropout {
    float p; // probability of a zero
    kernel_draw draw;
    uint64_t stride;   // random words of one row and head
    int64_t head0;     // logical head of head 0 here
    int64_t all_heads; // heads of the full layer; 0: H
} kernel_attention_dropout;
typedef struct kernel_attention_args {
    int64_t batch, tk, heads, kv_heads, head_dim;   // B, Tk, H, KV, D
    kernel_tokens queries;                          // the tokens of the rows of q; first_row is 0
    int64_t q_stride, k_stride, v_stride, o_stride; // elements from one row to the next
    int64_t k_batch, v_batch; // elements from one batch to the next; q and o are dense in B
    const void *q, *k, *v;    // of `type`
    void *o;                  // of `type`
    const void *sinks;        // [H] of `type`; NULL: none
    float *lse;               // natural logarithm of the sum of exponentials of the scores
    float scale;
    kernel_attention_form form;
    kernel_attention_dropout dropout;
    bool causal;
    dtype type;
} kernel_attention_args;

// The gradients of kernel_attention_args. dq, dk and dv are overwritten. dk and dv are sums over the
// query heads that share a head of keys, in order of the heads. They are zero for a key that no query
// sees. With p = exp(sink of h - lse), which is the probability of the sink:
//   d_sinks [H]  (+)= -sum over the rows of head h of p * delta
typedef struct kernel_attention_grad_args {
    kernel_attention_args fwd; // o and lse as the forward pass wrote them
    const void *d_o;           // [B * Tq, H, D], strides of o
    void *dq, *dk, *dv;        // strides and batch offsets of q, k and v
    float *delta;              // [B, H, Tq], scratch: sum over D of do * o
    float *d_sinks;            // [H]; NULL: not wanted
    bool accumulate_d_sinks;
    bool any_order; // of sums, so that two runs may give other bits
} kernel_attention_grad_args;

// The first key that a query at this position sees, where causal.
ON_DEVICE static inline int64_t kernel_attention_first_key(const kernel_attention_form *f,
                                                           int64_t position)
{
    return f->window > 0 && position >= f->window ? position - f->window + 1 : 0;
}

// The first key that the query of row r of q sees, where causal.
ON_DEVICE static inline int64_t kernel_attention_row_first_key(const kernel_attention_args *p,
                                                               int64_t r)
{
    const int64_t key = kernel_attention_first_key(&p->form, kernel_row_position(&p->queries, r));
    const int64_t document = kernel_document_start(&p->queries, r);
    return key > document ? key : document;
}

// Returns whether the call has no window, no cap, no sinks and no documents.
static inline bool kernel_attention_is_plain(const kernel_attention_args *p)
{
    return p->form.window == 0 && p->form.softcap == 0 && !p->sinks && !p->queries.documents;
}

#endif
