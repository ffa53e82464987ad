// bench_kernels_mixers.c -- calls of the kernels that mix tokens without attention: convolutions, the gated delta rule and its
// gates. Their heads are those of the model's attention. bench_kernels_rows.c lists them.
#include "cmd/bench/bench_kernels.h"

static kernel_tokens tokens_of(const bench_sizes *q, int64_t *batch)
{
    *batch = q->tokens < q->model->seq ? 1 : q->tokens / q->model->seq;
    return kernel_tokens_from(q->tokens / *batch, 0);
}

// Four taps with silu, of queries, keys and values.
void bench_causal_conv(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_CAUSAL_CONV_GRAD;
    const int64_t cols = 3 * q->model->heads * q->model->head_dim;
    kernel_causal_conv_args p = {
        .cols = cols, .width = 4, .x_stride = cols, .silu = true, .type = q->type};
    p.rows = tokens_of(q, &p.batch);
    p.x_batch = p.rows.seq * cols;
    const int64_t count = p.batch * p.x_batch;
    p.x = bench_array(m, count, q->type);
    p.w = bench_array(m, cols * p.width, q->type);
    if (!gradient) p.y = bench_array(m, count, q->type);
    bench_set_shape(c, p.batch * p.rows.seq, cols);
    if (!gradient) {
        c->call.u.causal_conv = p;
        return;
    }
    c->call.u.causal_conv_grad =
        (kernel_causal_conv_grad_args){.fwd = p,
                                       .dy = bench_array(m, count, q->type),
                                       .dx = bench_array(m, count, q->type),
                                       .dw = bench_array(m, cols * p.width, F32)};
}

void bench_delta_gates(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_DELTA_GATES_GRAD;
    const int64_t heads = q->model->heads, count = q->tokens * 2 * heads;
    float *gates = bench_array(m, count, F32);
    c->call.u.delta_gates =
        (kernel_delta_gates_args){.rows = q->tokens,
                                  .heads = heads,
                                  .x = bench_array(m, count, q->type),
                                  .log_decay = bench_array(m, heads, q->type),
                                  .a_bias = bench_array(m, heads, q->type),
                                  .gates = gates,
                                  .d_gates = gates,
                                  .dx = gradient ? bench_array(m, count, q->type) : NULL,
                                  .d_log_decay = gradient ? bench_array(m, heads, F32) : NULL,
                                  .d_a_bias = gradient ? bench_array(m, heads, F32) : NULL,
                                  .type = q->type};
    bench_set_shape(c, q->tokens, 2 * heads);
}

void bench_delta_rule(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_DELTA_RULE_GRAD;
    const bench_model *x = q->model;
    kernel_delta_rule_args p = {.heads = x->heads,
                                .key_heads = x->heads,
                                .key_dim = x->head_dim,
                                .value_dim = x->head_dim,
                                .scale = 1,
                                .eps = 1e-6f,
                                .normalize = true,
                                .type = q->type};
    p.rows = tokens_of(q, &p.batch);
    const int64_t rows = p.batch * p.rows.seq, cols = kernel_delta_cols(&p),
                  values = rows * p.heads * p.value_dim;
    p.x = bench_array(m, rows * cols, q->type);
    p.gates = bench_array(m, rows * 2 * p.heads, F32);
    if (!gradient) p.o = bench_array(m, values, q->type);
    snprintf(c->shape, sizeof c->shape, "%lld x %lld, %lld x %lld", (long long)p.batch,
             (long long)p.rows.seq, (long long)p.heads, (long long)p.key_dim);
    if (!gradient) {
        c->call.u.delta_rule = p;
        return;
    }
    c->call.u.delta_rule_grad =
        (kernel_delta_rule_grad_args){.fwd = p,
                                      .d_o = bench_array(m, values, q->type),
                                      .dx = bench_array(m, rows * cols, q->type),
                                      .d_gates = bench_array(m, rows * 2 * p.heads, F32)};
}

// The gates of a gated delta rule's output, with its norm.
void bench_gate(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bool gradient = c->call.kind == K_GATE_GRAD;
    const bench_model *x = q->model;
    const int64_t cols = x->heads * x->head_dim, count = q->tokens * cols;
    c->call.u.gate =
        (kernel_gate_args){.rows = q->tokens,
                           .cols = cols,
                           .head_dim = x->head_dim,
                           .x = bench_array(m, count, q->type),
                           .gate = bench_array(m, count, q->type),
                           .dy = gradient ? bench_array(m, count, q->type) : NULL,
                           .gain = bench_array(m, x->head_dim, q->type),
                           .y = bench_array(m, count, q->type),
                           .d_gate = gradient ? bench_array(m, count, q->type) : NULL,
                           .rstd = bench_array(m, q->tokens * x->heads, F32),
                           .d_gain = gradient ? bench_array(m, x->head_dim, F32) : NULL,
                           .eps = 1e-5f,
                           .silu = true,
                           .type = q->type};
    bench_set_shape(c, q->tokens, cols);
}
