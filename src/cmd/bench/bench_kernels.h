// bench_kernels.h -- what the files of `trireme bench kernels` share: the calls that are measured, as
// data. bench_kernels_calls.c, bench_kernels_mixers.c and bench_kernels_rows.c describe them, and bench_kernels.c measures them.
#ifndef TRIREME_CMD_BENCH_KERNELS_H
#define TRIREME_CMD_BENCH_KERNELS_H

#include "device/device.h"
#include "device/kernels.h"

#include <stdio.h>

// The shapes of a model's blocks, for `tokens` tokens at a time.
typedef struct bench_model {
    const char *name; // as the flag --model takes it
    int64_t seq, cols, heads, kv_heads, head_dim, inner, vocab;
    bool is_llama; // RMS norm, rotary positions and gated MLP
} bench_model;

// The memory from which a call takes its arrays. With base NULL it counts their bytes only.
typedef struct bench_arena {
    device_stream *stream;
    char *base;
    size_t used;
    bool is_filled; // with numbers already: arrays are not drawn
    status result;  // of what wrote the arrays
    err failure;
} bench_arena;

// Bytes that the arena has beyond its arrays: room for random numbers before they are rounded.
enum { BENCH_RANDOM = 1 << 20, BENCH_SCRATCH_BYTES = BENCH_RANDOM * 4 };

typedef struct bench_call {
    kernel_call call;
    char shape[64];
} bench_call;

// The description of a call over arrays of the arena.
typedef struct bench_sizes {
    const bench_model *model;
    int64_t tokens; // rows of the calls
    dtype type;
} bench_sizes;
typedef void (*bench_describe)(bench_arena *m, const bench_sizes *q, bench_call *out);

// A row of the table: the kernel, and which models have it.
typedef struct bench_kernel_row {
    kernel_kind kind;
    bench_describe describe;
    bool gpt2, llama;
} bench_kernel_row;

extern const bench_kernel_row BENCH_ROWS[];
extern const int BENCH_ROW_COUNT;
extern const bench_model BENCH_MODELS[];
extern const int BENCH_MODEL_COUNT;

// An array of `count` random numbers of `type`: F32, BF16 or F16.
void *bench_array(bench_arena *m, int64_t count, dtype type);
// An array that holds a copy of the host's bytes.
void *bench_upload(bench_arena *m, const void *bytes, size_t count);

// Ids of a text, one for each token: low ones are frequent.
int32_t *bench_ids(bench_arena *m, const bench_sizes *q);

static inline dtype bench_residual_type(const bench_sizes *q)
{
    return kernel_residual_type(q->type, true);
}

static inline void bench_set_shape(bench_call *c, int64_t rows, int64_t cols)
{
    snprintf(c->shape, sizeof c->shape, "%lld x %lld", (long long)rows, (long long)cols);
}

static inline kernel_tokens bench_tokens(const bench_sizes *q)
{
    return kernel_tokens_from(q->model->seq, 0);
}

// The calls that bench_kernels_calls.c describes.
void bench_forward(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_dgrad(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_wgrad(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_bias_grad(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_embedding(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_embedding_grad(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_norm(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_norm_grad(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_qk_norm(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_rope(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_activation(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_glu(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_value_norm(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_xielu(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_add(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_dropout(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_copy_rows(bench_arena *m, const bench_sizes *q, bench_call *c);
// Those that bench_kernels_mixers.c describes.
void bench_causal_conv(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_delta_gates(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_delta_rule(bench_arena *m, const bench_sizes *q, bench_call *c);
void bench_gate(bench_arena *m, const bench_sizes *q, bench_call *c);
// Of bench_kernels_rows.c.
void bench_attention(bench_arena *m, const bench_sizes *q, bench_call *c);

#endif
