// op_attention.c -- rotary positions (Su et al. 2021), and causal attention with shared key-value
// heads (Ainslie et al. 2023) that never stores the matrix of scores (Dao et al. 2022). It may have a
// sliding window (Beltagy et al. 2020), a cap of the scores (Gemma Team 2024) and sinks (Xiao et al. 2023).
//
//   qkv   [rows, (heads + 2 * kv_heads) * head_dim]   queries, then keys, then values
//   o     [rows, heads * head_dim]
//   sinks [heads]                                     a score of each query that has no value; a parameter
//   lse   [batch, heads, seq] F32                     log-sum-exp of each query's scores
//   delta [batch, heads, seq] F32                     scratch of the backward
//   kv    [batch * full_seq, 2 * kv_heads * head_dim] keys and values of all tokens, under context
//                                                     parallelism (op_context_parallel.c) only
//
//   rope             in x                    out x, rotated in place
//   attention        in qkv, kv, sinks              out o, lse
//   attention_grad   in do, qkv, o, lse, kv, sinks  out dqkv, delta, d_kv
//
// Without kv the keys and values are those in qkv. With kv, dqkv has the gradient of the queries only.
//
// Where sequences are packed documents, positions count from the start of the token's document, and
// attention reads keys and values of that document only.
//
// When decoding, the rows of qkv are the last rows of the block's cache. Attention finds the keys and
// values of earlier tokens in the rows before them. Positions then count from the cache's first row, which is
// all that causality and windows depend on.
#include "graph/op.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool graph_rope_equal(const graph_rope *a, const graph_rope *b)
{
    return a->rows == b->rows && a->pairs == b->pairs && a->scale == b->scale &&
           a->queries == b->queries && a->growth == b->growth && a->period == b->period &&
           memcmp(a->frequency, b->frequency, (size_t)a->pairs * sizeof *a->frequency) == 0;
}

// Copies the table, unless the block has it already.
static void take_table(graph *g, const graph_rope *table)
{
    double *frequency = NULL;
    if (g->rope.frequency) {
        if (!graph_rope_equal(&g->rope, table))
            graph_misuse(g, "rope: two different tables in one block");
        return;
    }
    const size_t bytes = (size_t)table->pairs * sizeof *frequency;
    if (!graph_check(g, alloc_array(&frequency, bytes, 1, "", NULL))) return;
    memcpy(frequency, table->frequency, bytes);
    g->rope = *table;
    g->rope.frequency = frequency;
}

graph_value *build_rope(graph *g, graph_value *x, int64_t heads, int64_t head_dim,
                        const graph_rope *table, bool interleaved)
{
    heads = graph_local_first_heads(g, x, heads);
    if (x->sharding.rows & MESH_AXIS(AXIS_TP))
        graph_misuse(g, "rope: the rows of x are sharded over the tensor-parallel ranks");
    if (heads * head_dim > graph_value_cols(x) || 2 * table->pairs > head_dim)
        graph_misuse(g, "rope: %lld heads of %lld in %lld columns", (long long)heads,
                     (long long)head_dim, (long long)graph_value_cols(x));
    if (g->mode != GRAPH_DECODE && g->sequences.tokens.full_seq > table->rows)
        graph_misuse(g, "rope: %lld tokens, but %lld positions",
                     (long long)g->sequences.tokens.full_seq, (long long)table->rows);
    if (!(table->scale > 0)) graph_misuse(g, "rope: a scale of %g", table->scale);
    if (table->growth > 0 && (2 * table->pairs != head_dim || table->period < 1))
        graph_misuse(g, "rope: queries grow where all columns rotate, by a period of at least 1");
    take_table(g, table);
    graph_node *n = graph_new_node(g, OP_ROPE);
    n->in[0] = x;
    n->attr.u.rope.growing = table->growth > 0 ? graph_local_heads(g, x, table->queries) : 0;
    n->attr.u.rope.heads = heads, n->attr.u.rope.head_dim = head_dim,
    n->attr.u.rope.rot = 2 * table->pairs, n->attr.u.rope.interleaved = interleaved;
    graph_set_output(n, 0, graph_new_like(g, "rope", x));
    return n->out[0];
}

// Rotates heads first … last-1 by table number `table` of the block.
static void rotate_heads(const graph_run *run, const graph_node *n, int64_t first, int64_t last,
                         int table)
{
    const int64_t d = n->attr.u.rope.head_dim, rot = n->attr.u.rope.rot;
    char *const x = graph_run_ptr(run, n->out[0]);
    const float *const tables = run->rope;
    kernel_call c = {.kind = K_ROPE};
    c.u.rope = (kernel_rope_args){.rows = graph_value_rows(n->out[0]),
                                  .row_tokens = graph_run_tokens(run, n->out[0]),
                                  .heads = last - first,
                                  .head_dim = d,
                                  .rot = rot,
                                  .stride = graph_value_cols(n->out[0]),
                                  .x = x + (size_t)(first * d) * dtype_bytes(n->out[0]->type),
                                  .table = table ? tables + run->g->rope.rows * rot : tables,
                                  .interleaved = n->attr.u.rope.interleaved,
                                  .inverse = n->attr.u.rope.inverse,
                                  .type = n->out[0]->type};
    graph_launch(run, n, &c);
}

static void rope_launch(const graph_run *run, const graph_node *n)
{
    const int64_t growing = n->attr.u.rope.growing;
    if (growing) rotate_heads(run, n, 0, growing, 1);
    rotate_heads(run, n, growing, n->attr.u.rope.heads, 0);
}

static void rope_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_ROPE, n);
    d->in[0] = n->out[0]->grad;
    d->attr.u.rope.inverse = true;
    graph_set_output(d, 0, graph_new_like(g, "rope dx", n->in[0]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

// Can so many ranks share the heads? They divide the heads of queries. They divide those of keys and values, too, or,
// where the weights can have copies, each of these is had by as many ranks.
static bool divides_heads(int64_t ranks, int64_t heads, int64_t kv_heads, bool may_copy)
{
    return heads % ranks == 0 && (kv_heads % ranks == 0 || (may_copy && ranks % kv_heads == 0));
}

static void check_heads(graph *g, const graph_value *qkv, int64_t heads, int64_t kv_heads)
{
    if (qkv->sharding.rows & MESH_AXIS(AXIS_TP))
        graph_misuse(g, "attention: the rows of qkv are sharded over the tensor-parallel ranks");
    const int ranks = graph_ranks(g, qkv->sharding.cols);
    const bool may_copy = graph_knows_heads(g, qkv), shared = kv_heads != heads;
    if (kv_heads <= 0 || divides_heads(ranks, heads, kv_heads, may_copy)) return;
    char valid[96] = "";
    for (int64_t n = 1; n <= heads && strlen(valid) < 80; n++)
        if (divides_heads(n, heads, kv_heads, may_copy))
            snprintf(valid + strlen(valid), sizeof valid - strlen(valid), "%s%lld",
                     n > 1 ? ", " : "", (long long)n);
    graph_not_divisible(g, "%lld %s do not divide over parallel.%s %d; valid: %s",
                        (long long)(heads % ranks ? heads : kv_heads),
                        shared && heads % ranks == 0 ? "key-value heads" : "heads",
                        axis_name(mesh_first_axis(qkv->sharding.cols)), ranks, valid);
}

static void check_form(graph *g, const graph_attention *a, int64_t local_heads)
{
    if (a->window < 0 || a->softcap < 0)
        graph_misuse(g, "attention: a window of %lld and a cap of %g; valid: 0 or more",
                     (long long)a->window, a->softcap);
    if (!a->sinks) return;
    if (a->sinks->param < 0)
        graph_misuse(g, "attention: sinks must be a parameter");
    else if (graph_value_count(a->sinks) != local_heads)
        graph_misuse(g, "attention: %lld heads, %lld sinks", (long long)local_heads,
                     (long long)graph_value_count(a->sinks));
}

// A window that no sequence is longer than hides nothing. When decoding, a sequence may grow.
static kernel_attention_form form_of(const graph *g, const graph_attention *a)
{
    const bool hides = g->mode == GRAPH_DECODE || a->window < g->sequences.tokens.full_seq;
    return (kernel_attention_form){.window = hides ? a->window : 0, .softcap = (float)a->softcap};
}

graph_value *build_attention(graph *g, graph_value *qkv, const graph_attention *a)
{
    check_heads(g, qkv, a->heads, a->kv_heads);
    const int64_t heads = graph_local_heads(g, qkv, a->heads),
                  kv_heads = graph_local_heads(g, qkv, a->kv_heads), head_dim = a->head_dim;
    int64_t cols = (heads + 2 * kv_heads) * head_dim;
    graph_sections(g, qkv, "attention: queries, keys and values", 3,
                   (int64_t[]){heads * head_dim, kv_heads * head_dim, kv_heads * head_dim});
    if (heads <= 0 || kv_heads <= 0 || heads % kv_heads || graph_value_cols(qkv) != cols)
        graph_misuse(
            g, "attention: %lld heads, %lld key-value heads of %lld need %lld columns, found %lld",
            (long long)heads, (long long)kv_heads, (long long)head_dim, (long long)cols,
            (long long)graph_value_cols(qkv));
    if (qkv->type != g->type)
        graph_misuse(g, "attention: queries, keys and values must come from a linear layer");
    if (g->mode == GRAPH_DECODE && g->batch != 1)
        graph_misuse(g, "attention: decoding takes one sequence at a time");
    check_form(g, a, heads);
    graph_value *kv = NULL;
    if (qkv->sharding.rows & MESH_AXIS(AXIS_CP))
        kv = graph_gather_from_cp(g, qkv, heads * head_dim, 2 * kv_heads * head_dim,
                                  form_of(g, a).window);
    if (a->sinks && a->sinks->param >= 0) graph_note_use(g, a->sinks, qkv->sharding.rows);
    graph_node *n = graph_new_node(g, OP_ATTENTION);
    n->in[0] = qkv, n->in[1] = kv, n->in[2] = a->sinks;
    n->attr.u.attention.heads = heads, n->attr.u.attention.kv_heads = kv_heads,
    n->attr.u.attention.head_dim = head_dim;
    n->attr.u.attention.full_heads = a->heads;
    n->attr.u.attention.scale = (float)a->scale;
    n->attr.u.attention.dropout = g->mode == GRAPH_TRAIN ? (float)a->dropout : 0;
    n->attr.u.attention.form = form_of(g, a);
    n->out[0] = graph_new_value(g, "attention", g->type, 2,
                                (int64_t[]){graph_value_rows(qkv), heads * head_dim});
    n->out[1] =
        graph_new_value(g, "lse", F32, 3, (int64_t[]){g->batch, heads, g->sequences.tokens.seq});
    n->out[0]->producer = n->out[1]->producer = n;
    n->out[0]->sharding = qkv->sharding;
    return n->out[0];
}

// The addresses of the key of token 0 and of its value, and the strides of both.
typedef struct attention_keys {
    char *k, *v;
    int64_t stride, batch; // elements from one token, and from one sequence, to the next
} attention_keys;

// `in` holds queries, keys and values, or, with heads 0, keys and values.
static attention_keys attention_keys_in(const graph_run *run, const graph_value *in, int64_t heads,
                                        int64_t kv_heads, int64_t head_dim, int64_t tokens)
{
    const size_t item = dtype_bytes(in->type);
    const int64_t cols = graph_value_cols(in);
    // When decoding, earlier tokens stand in the rows before the first query.
    char *row = (char *)graph_run_ptr(run, in) - (size_t)(graph_run_cached(run) * cols) * item;
    return (attention_keys){.k = row + (size_t)(heads * head_dim) * item,
                            .v = row + (size_t)((heads + kv_heads) * head_dim) * item,
                            .stride = cols,
                            .batch = tokens * cols};
}

static attention_keys attention_find_keys(const graph_run *run, const graph_node *n,
                                          const graph_value *qkv, const graph_value *kv)
{
    const kernel_tokens *t = &run->g->sequences.tokens;
    const int64_t kv_heads = n->attr.u.attention.kv_heads, d = n->attr.u.attention.head_dim;
    return kv ? attention_keys_in(run, kv, 0, kv_heads, d, t->full_seq)
              : attention_keys_in(run, qkv, n->attr.u.attention.heads, kv_heads, d, t->seq);
}

static kernel_attention_args attention_fill(const graph_run *run, const graph_node *n,
                                            const graph_value *qkv, const graph_value *kv,
                                            const graph_value *sinks, const graph_value *o,
                                            const graph_value *lse)
{
    const int64_t d = n->attr.u.attention.head_dim, h = n->attr.u.attention.heads; // of this rank
    const int64_t full_seq = run->g->sequences.tokens.full_seq;
    const attention_keys keys = attention_find_keys(run, n, qkv, kv);
    kernel_tokens queries = graph_run_tokens(run, qkv);
    queries.start[0] -= run->cache_first;
    return (kernel_attention_args){.batch = run->g->batch,
                                   .tk = graph_run_cached(run) + full_seq,
                                   .heads = h,
                                   .kv_heads = n->attr.u.attention.kv_heads,
                                   .head_dim = d,
                                   .queries = queries,
                                   .q_stride = graph_value_cols(qkv),
                                   .k_stride = keys.stride,
                                   .v_stride = keys.stride,
                                   .o_stride = h * d,
                                   .k_batch = keys.batch,
                                   .v_batch = keys.batch,
                                   .q = graph_run_ptr(run, qkv),
                                   .k = keys.k,
                                   .v = keys.v,
                                   .o = graph_run_ptr(run, o),
                                   .sinks = graph_run_ptr(run, sinks),
                                   .lse = graph_run_ptr(run, lse),
                                   .scale = n->attr.u.attention.scale,
                                   .form = n->attr.u.attention.form,
                                   .dropout.p = n->attr.u.attention.dropout,
                                   .dropout.draw = graph_run_draw(run, n),
                                   .dropout.stride = (uint64_t)full_seq,
                                   .dropout.head0 = graph_rank(run->g, qkv->sharding.cols) * h,
                                   .dropout.all_heads = n->attr.u.attention.full_heads,
                                   .causal = true,
                                   .type = qkv->type};
}

static void attention_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_ATTENTION};
    c.u.attention = attention_fill(run, n, n->in[0], n->in[1], n->in[2], n->out[0], n->out[1]);
    graph_launch(run, n, &c);
}

static void attention_derive(graph *g, graph_node *n)
{
    graph_value *qkv = n->in[0], *kv = n->in[1];
    graph_node *d = graph_new_grad_node(g, OP_ATTENTION_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = qkv, d->in[2] = n->out[0], d->in[3] = n->out[1];
    d->in[4] = kv, d->in[5] = n->in[2];
    d->param[0] = graph_trained_param(g, n->in[2]);
    d->out[0] = graph_new_like(g, "attention dqkv", qkv);
    d->out[1] = graph_new_like(g, "delta", n->out[1]);
    d->out[0]->producer = d->out[1]->producer = d;
    graph_value *dqkv = d->out[0];
    if (kv) {
        graph_set_output(d, 2, graph_new_like(g, "gradient of gathered keys and values", kv));
        kv->grad = d->out[2];
        dqkv = graph_scatter_to_cp(g, kv->producer, d->out[2], dqkv);
    }
    graph_accumulate_grad(g, qkv, dqkv);
}

static void attention_grad_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_ATTENTION_GRAD};
    kernel_attention_grad_args *a = &c.u.attention_grad;
    a->fwd = attention_fill(run, n, n->in[1], n->in[4], n->in[5], n->in[2], n->in[3]);
    const attention_keys grads = attention_find_keys(run, n, n->out[0], n->out[2]);
    a->d_o = graph_run_ptr(run, n->in[0]);
    a->dq = graph_run_ptr(run, n->out[0]);
    a->dk = grads.k;
    a->dv = grads.v;
    a->delta = graph_run_ptr(run, n->out[1]);
    if (n->param[0] >= 0) a->d_sinks = graph_run_grad(run, n->param[0], &a->accumulate_d_sinks);
    graph_launch(run, n, &c);
}

// Two products: queries by keys, and probabilities by values. Causality and a window limit both, and
// context-parallel ranks share them equally. Packed documents limit them too; where those begin is not
// known, and a sequence counts as one document.
static double attention_flops(const graph *g, const graph_node *n)
{
    const double t = (double)g->sequences.tokens.full_seq,
                 window = (double)n->attr.u.attention.form.window;
    const double hidden =
        window > 0 && window < t ? t - window : 0; // tokens before the last's window
    return 4.0 * (double)g->batch * (double)n->attr.u.attention.heads *
           (double)n->attr.u.attention.head_dim * (t * (t + 1) - hidden * (hidden + 1)) / 2 /
           g->position.mesh.size[AXIS_CP];
}

// Five products: the scores again, and the gradients of values, probabilities, queries and keys.
static double attention_grad_flops(const graph *g, const graph_node *n)
{
    return 2.5 * attention_flops(g, n);
}

static int64_t attention_cache_window(const graph_node *n)
{
    return n->attr.u.attention.form.window;
}

const graph_op_info op_rope = {.derive = rope_derive,
                               .launch = rope_launch,
                               .must_alias = 1,
                               .has_time = true,
                               .takes_documents = true,
                               .keeps_cols = true,
                               .recompute = 3};
const graph_op_info op_attention = {.derive = attention_derive,
                                    .launch = attention_launch,
                                    .cache_window = attention_cache_window,
                                    .has_time = true,
                                    .takes_documents = true,
                                    .flops = attention_flops,
                                    .recompute = 2};
const graph_op_info op_attention_grad = {.launch = attention_grad_launch,
                                         .flops = attention_grad_flops};
