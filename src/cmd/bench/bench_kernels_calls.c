// bench_kernels_calls.c -- the arrays of `trireme bench kernels`, and the calls of a block's kernels except
// attention. It does not measure, and does not print.
#include "cmd/bench/bench_kernels.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- Arrays

static void *take(bench_arena *m, size_t bytes)
{
    const size_t offset = m->used;
    m->used += (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
    // While bytes are counted, the address is not used.
    return m->base ? m->base + offset : (char *)(uintptr_t)(DEVICE_ALIGN + offset);
}

void *bench_array(bench_arena *m, int64_t count, dtype type)
{
    char *out = take(m, dtype_bytes(type) * (size_t)count);
    if (m->is_filled) return out;
    bench_arena scratch = *m; // behind the array; the next array may take it
    float *random = take(&scratch, sizeof(float) * BENCH_RANDOM);
    if (!m->base) return out;
    for (int64_t i = 0; i < count; i += BENCH_RANDOM) {
        const int64_t n = count - i < BENCH_RANDOM ? count - i : BENCH_RANDOM;
        kernel_call draw = {.kind = K_INIT};
        kernel_call round = {.kind = K_CONVERT};
        draw.u.init = (kernel_init_args){.count = n,
                                         .y = random,
                                         .key = rng_key_make(1, RNG_MOCK, m->used, 0),
                                         .index0 = (uint64_t)i,
                                         .std = 0.5f,
                                         .normal = true};
        round.u.convert = (kernel_convert_args){.count = n,
                                                .src = random,
                                                .dst = out + dtype_bytes(type) * (size_t)i,
                                                .src_type = F32,
                                                .dst_type = type};
        device_launch(m->stream, &draw);
        device_launch(m->stream, &round);
    }
    return out;
}

void *bench_upload(bench_arena *m, const void *bytes, size_t count)
{
    void *out = take(m, count);
    if (m->base && m->result == OK)
        m->result = device_upload(m->stream, out, bytes, count, &m->failure);
    return out;
}

int32_t *bench_ids(bench_arena *m, const bench_sizes *q)
{
    int32_t *host = NULL;
    const rng_key key = rng_key_make(2, RNG_MOCK, 0, 0);
    if (m->result == OK)
        m->result =
            alloc_zeroed(&host, (size_t)q->tokens, sizeof *host, "bench kernels", &m->failure);
    for (int64_t i = 0; host && i < q->tokens; i++) {
        const double u = rng_uniform(rng_word(key, (uint64_t)i));
        host[i] = (int32_t)(u * u * u * u * (double)q->model->vocab);
    }
    int32_t *out = host ? bench_upload(m, host, sizeof *host * (size_t)q->tokens) : NULL;
    free(host);
    return out;
}

// ---- Matrix products

static void set_product(bench_call *c, const kernel_matmul_args *a)
{
    c->call = (kernel_call){.kind = K_MATMUL, .u.matmul = *a};
    snprintf(c->shape, sizeof c->shape, "%lld x %lld x %lld", (long long)a->m, (long long)a->n,
             (long long)a->k);
}

// The first layer of the MLP, the gradient of its input and the gradient of its weights.
void bench_forward(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, in = q->model->cols, out = q->model->inner;
    set_product(c, &(kernel_matmul_args){.m = rows,
                                         .n = out,
                                         .k = in,
                                         .a = bench_array(m, rows * in, q->type),
                                         .b = bench_array(m, out * in, q->type),
                                         .c = bench_array(m, rows * out, q->type),
                                         .lda = in,
                                         .ldb = in,
                                         .ldc = out,
                                         .type = q->type,
                                         .c_type = q->type,
                                         .trans_b = true});
}

void bench_dgrad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, in = q->model->cols, out = q->model->inner;
    set_product(c, &(kernel_matmul_args){.m = rows,
                                         .n = in,
                                         .k = out,
                                         .a = bench_array(m, rows * out, q->type),
                                         .b = bench_array(m, out * in, q->type),
                                         .c = bench_array(m, rows * in, q->type),
                                         .lda = out,
                                         .ldb = in,
                                         .ldc = in,
                                         .type = q->type,
                                         .c_type = q->type});
}

void bench_wgrad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, in = q->model->cols, out = q->model->inner;
    set_product(c, &(kernel_matmul_args){.m = out,
                                         .n = in,
                                         .k = rows,
                                         .a = bench_array(m, rows * out, q->type),
                                         .b = bench_array(m, rows * in, q->type),
                                         .c = bench_array(m, out * in, F32),
                                         .lda = out,
                                         .ldb = in,
                                         .ldc = in,
                                         .type = q->type,
                                         .c_type = F32,
                                         .trans_a = true});
}

void bench_bias_grad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, cols = q->model->inner;
    c->call.u.bias_grad = (kernel_bias_grad_args){.rows = rows,
                                                  .cols = cols,
                                                  .dy = bench_array(m, rows * cols, q->type),
                                                  .db = bench_array(m, cols, F32),
                                                  .type = q->type};
    bench_set_shape(c, rows, cols);
}

// ---- Embedding

void bench_embedding(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    const int64_t rows = q->tokens, cols = x->cols;
    c->call.u.embedding = (kernel_embedding_args){
        .rows = rows,
        .cols = cols,
        .row_tokens = bench_tokens(q),
        .ids = bench_ids(m, q),
        .tokens = bench_array(m, x->vocab * cols, q->type),
        .positions = x->is_llama ? NULL : bench_array(m, x->seq * cols, q->type),
        .y = bench_array(m, rows * cols, bench_residual_type(q)),
        .scale = 1,
        .type = q->type,
        .residual_fp32 = true};
    bench_set_shape(c, rows, cols);
}

// It adds to the gradient, as in every micro-batch after the first.
void bench_embedding_grad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    const int64_t rows = q->tokens, cols = x->cols;
    kernel_embedding_grad_args *a = &c->call.u.embedding_grad;
    *a = (kernel_embedding_grad_args){.rows = rows,
                                      .cols = cols,
                                      .vocab = x->vocab,
                                      .max_seq = x->seq,
                                      .row_tokens = bench_tokens(q),
                                      .ids = bench_ids(m, q),
                                      .dy = bench_array(m, rows * cols, bench_residual_type(q)),
                                      .d_tokens = bench_array(m, x->vocab * cols, F32),
                                      .scale = 1,
                                      .type = q->type,
                                      .accumulate_tokens = true,
                                      .accumulate_positions = true,
                                      .residual_fp32 = true};
    if (!x->is_llama) a->d_positions = bench_array(m, x->seq * cols, F32);
    bench_set_shape(c, rows, cols);
}

// ---- Norms, activations and elements

static kernel_norm_args norm_of(bench_arena *m, const bench_sizes *q)
{
    const int64_t rows = q->tokens, cols = q->model->cols;
    const bool rms = q->model->is_llama;
    return (kernel_norm_args){.rows = rows,
                              .cols = cols,
                              .x = bench_array(m, rows * cols, bench_residual_type(q)),
                              .gain = bench_array(m, cols, q->type),
                              .bias = rms ? NULL : bench_array(m, cols, q->type),
                              .y = bench_array(m, rows * cols, q->type),
                              .mean = rms ? NULL : bench_array(m, rows, F32),
                              .rstd = bench_array(m, rows, F32),
                              .eps = 1e-5f,
                              .is_rms = rms,
                              .type = q->type,
                              .residual_fp32 = true};
}

void bench_norm(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    c->call.u.norm = norm_of(m, q);
    bench_set_shape(c, q->tokens, q->model->cols);
}

void bench_norm_grad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const kernel_norm_args n = norm_of(m, q);
    const int64_t count = n.rows * n.cols;
    c->call.u.norm_grad =
        (kernel_norm_grad_args){.rows = n.rows,
                                .cols = n.cols,
                                .dy = n.y,
                                .x = n.x,
                                .gain = n.gain,
                                .mean = n.mean,
                                .rstd = n.rstd,
                                .dx = bench_array(m, count, bench_residual_type(q)),
                                .dgain = bench_array(m, n.cols, F32),
                                .is_rms = n.is_rms,
                                .accumulate_dx = true,
                                .type = q->type,
                                .residual_fp32 = true};
    if (!n.is_rms) c->call.u.norm_grad.dbias = bench_array(m, n.cols, F32);
    bench_set_shape(c, n.rows, n.cols);
}

// Per head; the sums are those that ranks add at full width.
void bench_qk_norm(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    const bool sums = c->call.kind == K_QK_NORM_SUMS, gradient = c->call.kind == K_QK_NORM_GRAD;
    const int64_t cols = (x->heads + 2 * x->kv_heads) * x->head_dim, count = q->tokens * cols,
                  gains = sums ? x->heads * x->head_dim : x->head_dim;
    c->call.u.qk_norm =
        (kernel_qk_norm_args){.rows = q->tokens,
                              .heads = x->heads,
                              .kv_heads = x->kv_heads,
                              .head_dim = x->head_dim,
                              .ranks = 1,
                              .x = bench_array(m, count, q->type),
                              .dy = gradient ? bench_array(m, count, q->type) : NULL,
                              .q_gain = bench_array(m, gains, q->type),
                              .k_gain = bench_array(m, gains, q->type),
                              .y = sums ? NULL : bench_array(m, count, q->type),
                              .rstd = bench_array(m, q->tokens * (x->heads + x->kv_heads), F32),
                              .sums = sums ? bench_array(m, 2 * q->tokens, F32) : NULL,
                              .dq_gain = gradient ? bench_array(m, x->head_dim, F32) : NULL,
                              .dk_gain = gradient ? bench_array(m, x->head_dim, F32) : NULL,
                              .eps = 1e-5f,
                              .full_width = sums,
                              .type = q->type};
    bench_set_shape(c, q->tokens, cols);
}

void bench_value_norm(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    const bool gradient = c->call.kind == K_VALUE_NORM_GRAD;
    const int64_t cols = (x->heads + 2 * x->kv_heads) * x->head_dim, count = q->tokens * cols;
    c->call.u.value_norm =
        (kernel_value_norm_args){.rows = q->tokens,
                                 .heads = x->heads,
                                 .kv_heads = x->kv_heads,
                                 .head_dim = x->head_dim,
                                 .x = bench_array(m, count, q->type),
                                 .dy = gradient ? bench_array(m, count, q->type) : NULL,
                                 .y = bench_array(m, count, q->type),
                                 .rstd = bench_array(m, q->tokens * x->kv_heads, F32),
                                 .eps = 1e-5f,
                                 .type = q->type};
    bench_set_shape(c, q->tokens, cols);
}

void bench_rope(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    const int64_t cols = x->heads * x->head_dim;
    c->call.u.rope = (kernel_rope_args){.rows = q->tokens,
                                        .row_tokens = bench_tokens(q),
                                        .heads = x->heads,
                                        .head_dim = x->head_dim,
                                        .rot = x->head_dim,
                                        .stride = cols,
                                        .x = bench_array(m, q->tokens * cols, q->type),
                                        .table = bench_array(m, x->seq * x->head_dim, F32),
                                        .type = q->type};
    bench_set_shape(c, q->tokens, cols);
}

void bench_activation(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_ACTIVATION_GRAD;
    const int64_t count = q->tokens * q->model->inner;
    void *dy = gradient ? bench_array(m, count, q->type) : NULL;
    c->call.u.activation =
        (kernel_activation_args){.count = count,
                                 .x = bench_array(m, count, q->type),
                                 .dy = dy,
                                 .y = gradient ? dy : bench_array(m, count, q->type),
                                 .act = ACT_GELU_TANH,
                                 .type = q->type};
    bench_set_shape(c, q->tokens, q->model->inner);
}

void bench_glu(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_GLU_GRAD;
    const int64_t rows = q->tokens, cols = q->model->inner, count = rows * cols;
    void *x = bench_array(m, 2 * count, q->type);
    c->call.u.glu = (kernel_glu_args){.rows = rows,
                                      .cols = cols,
                                      .x = x,
                                      .dy = gradient ? bench_array(m, count, q->type) : NULL,
                                      .y = gradient ? x : bench_array(m, count, q->type),
                                      .act = ACT_SILU,
                                      .type = q->type};
    bench_set_shape(c, rows, cols);
}

void bench_xielu(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_XIELU_GRAD;
    const int64_t count = q->tokens * q->model->inner;
    void *dy = gradient ? bench_array(m, count, q->type) : NULL;
    const void *number = bench_array(m, 1, q->type);
    c->call.u.xielu = (kernel_xielu_args){.count = count,
                                          .x = bench_array(m, count, q->type),
                                          .dy = dy,
                                          .alpha_p = number,
                                          .alpha_n = number,
                                          .beta = number,
                                          .eps = number,
                                          .y = gradient ? dy : bench_array(m, count, q->type),
                                          .d_alpha_p = gradient ? bench_array(m, 1, F32) : NULL,
                                          .d_alpha_n = gradient ? bench_array(m, 1, F32) : NULL,
                                          .type = q->type};
    bench_set_shape(c, q->tokens, q->model->inner);
}

void bench_add(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t count = q->tokens * q->model->cols;
    void *y = bench_array(m, count, bench_residual_type(q));
    c->call.u.add = (kernel_add_args){.count = count,
                                      .a = y,
                                      .b = bench_array(m, count, q->type),
                                      .y = y,
                                      .alpha = 1,
                                      .beta = 1,
                                      .type = q->type,
                                      .residual_fp32 = true};
    bench_set_shape(c, q->tokens, q->model->cols);
}

void bench_dropout(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, cols = q->model->cols, count = rows * cols;
    void *y = bench_array(m, count, bench_residual_type(q));
    c->call.u.dropout = (kernel_dropout_args){.rows = rows,
                                              .cols = cols,
                                              .row_tokens = bench_tokens(q),
                                              .x = bench_array(m, count, q->type),
                                              .residual = y,
                                              .y = y,
                                              .p = 0.1f,
                                              .draw = {.seed = 3, .node = 4},
                                              .type = q->type,
                                              .residual_fp32 = true};
    bench_set_shape(c, rows, cols);
}

void bench_copy_rows(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, cols = q->model->cols;
    c->call.u.copy_rows = (kernel_copy_rows_args){.rows = rows,
                                                  .cols = cols,
                                                  .src = bench_array(m, rows * 3 * cols, q->type),
                                                  .dst = bench_array(m, rows * cols, q->type),
                                                  .src_stride = 3 * cols,
                                                  .dst_stride = cols,
                                                  .src_rows = kernel_tokens_from(rows, 0),
                                                  .dst_rows = kernel_tokens_from(rows, 0),
                                                  .type = q->type};
    bench_set_shape(c, rows, cols);
}
