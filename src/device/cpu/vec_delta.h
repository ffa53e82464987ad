// vec_delta.h -- shared by the vector forms of the gated delta rule and its gradients: a chunk of tokens in scratch
// memory, and what both compute of it.
//
// For a chunk of n tokens, with G the sum of g from the chunk's first token on, S the state before the chunk and Γ the
// matrix exp(G_i - G_j) for j <= i in the document of i:
//
//   A = -beta Γ k k^T below the diagonal      P = Γ q k^T up to the diagonal
//   u = (1 - A)^-1 (beta (v - exp(G) k S))    what the tokens write
//   o = exp(G) q S + P u                      S = exp(G_n) S + (exp(G_n - G) k)^T u
//
// exp(G) is 0 where a document begins in the chunk before the token, exp(G_n - G) where one begins after it. Rows of tiles
// are padded to a multiple of VL floats, with zeros.
#ifndef TRIREME_DEVICE_CPU_VEC_DELTA_H
#define TRIREME_DEVICE_CPU_VEC_DELTA_H

#include "device/cpu/vec_math.h"
#include "device/cpu/vec_tile.h"

#include <math.h>

enum { CHUNK = KERNEL_DELTA_CHUNK };

typedef struct vec_delta {
    const kernel_delta_rule_args *p;
    int64_t group;    // value heads of a key head
    int64_t dkw, dvw; // Dk and Dv rounded up to VL
    int64_t b, key_head, head;
    int64_t t0, n, nw;     // tokens t0 … t0+n-1 of the sequence; n rounded up to VL
    float *kq;             // [2 n, dkw] k of the tokens, then q
    float *kt;             // [Dk, CHUNK] k transposed
    float *dots;           // [2 n, CHUNK] k k^T, then q k^T
    float *v, *u;          // [CHUNK, dvw]
    float *read;           // [2 n, dvw] k S, then q S
    float *gamma;          // [CHUNK, CHUNK] Γ
    float *a, *pm;         // [CHUNK, CHUNK] A and P
    float *kd_u;           // [CHUNK, dvw] exp(G_n - G) u
    float *memory, *spare; // the memory of these, and that behind them
    float k_factor[CHUNK], q_factor[CHUNK];                    // k and q are x times these
    float beta[CHUNK], sum_g[CHUNK], fade[CHUNK], rest[CHUNK]; // G, exp(G), exp(G_n - G)
    float keep;                                                // exp(G_n)
    int64_t hidden[CHUNK]; // tokens of the chunk before the document of the token
} vec_delta;

// The floats of a state, rows padded.
static inline int64_t delta_state_floats(const kernel_delta_rule_args *p, int64_t vl)
{
    return p->key_dim * (size_ceil_div(p->value_dim, vl) * vl);
}

// Sets the sizes, and lays the tiles out in `memory`. d->spare - d->memory floats are taken.
void VEC(delta_layout)(vec_delta *d, const kernel_delta_rule_args *p, float *memory);
// Loads k and q of a chunk, their products, and which tokens see which.
void VEC(delta_load_keys)(vec_delta *d, int64_t chunk);
// Loads v and the gates of d->head, and computes Γ, A, P and, from the state s [Dk, dvw], `read` and u. With `queries`
// `read` has the rows of q too. `error` [CHUNK, dvw] gets v - exp(G) k S; NULL: not wanted.
void VEC(delta_write)(vec_delta *d, const float *s, bool queries, float *error);
// Replaces the state before the chunk by that after it.
void VEC(delta_advance)(vec_delta *d, float *s);

// The row of x and of the gates of token i of the chunk.
static inline int64_t delta_row(const vec_delta *d, int64_t i)
{
    return d->b * d->p->rows.full_seq + d->t0 + i;
}

#endif
