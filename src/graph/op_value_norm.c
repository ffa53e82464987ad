// op_value_norm.c -- RMS norms of the values of attention, without a gain (Gemma team 2026). Queries and keys are copied. The
// values may be those of the linear layer, or the norms of its keys.
//   y, dy   [rows, (heads + 2 * kv_heads) * head_dim]   queries, then keys, then values
//   x, dx   the same, or without the values
//   rstd    [rows, kv_heads] F32
//
//   value_norm        in x             out y, rstd
//   value_norm_grad   in dy, x, rstd   out dx
#include "graph/op.h"

graph_value *build_value_norm(graph *g, graph_value *x, const graph_value_norm *form)
{
    const int64_t heads = graph_local_heads(g, x, form->heads),
                  kv_heads = graph_local_heads(g, x, form->kv_heads), d = form->head_dim;
    const int64_t rows = graph_value_rows(x), kv = kv_heads * d;
    const int sections = form->of_keys ? 2 : 3;
    if (heads <= 0 || kv_heads <= 0 || graph_value_cols(x) != heads * d + (sections - 1) * kv)
        graph_misuse(g, "value_norm: %lld heads, %lld key-value heads of %lld in %lld columns",
                     (long long)heads, (long long)kv_heads, (long long)d,
                     (long long)graph_value_cols(x));
    if (x->sharding.rows & MESH_AXIS(AXIS_TP) || x->type != g->type)
        graph_misuse(g, "value_norm: its input must come from a linear layer");
    graph_sections(g, x, "value_norm: queries, keys and values", sections,
                   (int64_t[]){heads * d, kv, kv});
    graph_node *n = graph_new_node(g, OP_VALUE_NORM);
    n->in[0] = x;
    n->attr.u.value_norm.heads = heads, n->attr.u.value_norm.kv_heads = kv_heads,
    n->attr.u.value_norm.head_dim = d, n->attr.u.value_norm.of_keys = form->of_keys,
    n->attr.u.value_norm.eps = (float)form->eps;
    graph_set_output(
        n, 0, graph_new_value(g, "value_norm", x->type, 2, (int64_t[]){rows, heads * d + 2 * kv}));
    graph_set_output(n, 1, graph_new_value(g, "rstd", F32, 2, (int64_t[]){rows, kv_heads}));
    n->out[0]->sharding = n->out[1]->sharding = x->sharding;
    return n->out[0];
}

static kernel_value_norm_args value_norm_fill(const graph_run *run, const graph_node *n,
                                              const graph_value *x, const graph_value *rstd)
{
    return (kernel_value_norm_args){.rows = graph_value_rows(x),
                                    .heads = n->attr.u.value_norm.heads,
                                    .kv_heads = n->attr.u.value_norm.kv_heads,
                                    .head_dim = n->attr.u.value_norm.head_dim,
                                    .x = graph_run_ptr(run, x),
                                    .y = graph_run_ptr(run, n->out[0]),
                                    .rstd = graph_run_ptr(run, rstd),
                                    .eps = n->attr.u.value_norm.eps,
                                    .of_keys = n->attr.u.value_norm.of_keys,
                                    .type = x->type};
}

static void value_norm_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_VALUE_NORM,
                     .u.value_norm = value_norm_fill(run, n, n->in[0], n->out[1])};
    graph_launch(run, n, &c);
}

static void value_norm_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_VALUE_NORM_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = n->in[0], d->in[2] = n->out[1];
    graph_set_output(d, 0, graph_new_like(g, "value_norm dx", n->in[0]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

static void value_norm_grad_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_VALUE_NORM_GRAD,
                     .u.value_norm = value_norm_fill(run, n, n->in[1], n->in[2])};
    c.u.value_norm.dy = graph_run_ptr(run, n->in[0]);
    graph_launch(run, n, &c);
}

const graph_op_info op_value_norm = {.derive = value_norm_derive,
                                     .launch = value_norm_launch,
                                     .sets_sections = true,
                                     .recompute = 3};
const graph_op_info op_value_norm_grad = {.launch = value_norm_grad_launch};
