// op_tensor_parallel.c -- where a cut graph goes in and out of a tensor-parallel region: before a linear layer
// whose rows are split, and after one whose columns are (or a table of tokens). The builders of
// those layers put the ops; no family names them.
//
//               forward                          its gradient
//   ENTER       the value itself                 LEAVE
//   LEAVE       sum over the ranks, in place     the value itself
//   UNSHARD      all ranks' rows                  SCATTER
//   SCATTER     sum, of which own rows stay      UNSHARD
// ENTER and LEAVE without, UNSHARD and SCATTER with sequence parallelism (Korthikanti et al. 2022).
#include "graph/op.h"

// Numbers key random numbers: those of the other nodes are to be the whole graph's.
static graph_node *cut_node(graph *g, graph_op kind, graph_value *x)
{
    graph_node *n = graph_new_node(g, kind);
    g->numbered--;
    n->number = -1;
    n->in[0] = x;
    return n;
}

static graph_value *with_rows(graph *g, const char *name, const graph_value *x, int64_t rows,
                              graph_tp_sharding cut)
{
    graph_value *v = graph_new_value(g, name, x->type, 2, (int64_t[]){rows, graph_value_cols(x)});
    v->tp_sharding = cut;
    return v;
}

graph_value *graph_copy_to_tp(graph *g, graph_value *x)
{
    // What nobody wants the gradient of is whole on every rank already.
    if (x->tp_sharding != TP_SHARD_ROWS && !grad_wanted(x)) return x;
    if (x->copied_to_tp) return x->copied_to_tp;
    bool gather = x->tp_sharding == TP_SHARD_ROWS;
    graph_node *n = cut_node(g, gather ? OP_GATHER_FROM_SP : OP_COPY_TO_TP, x);
    n->out[0] =
        with_rows(g, "entered", x, gather ? graph_value_rows(x) * g->tp.ranks : graph_value_rows(x),
                  TP_REPLICATE);
    n->out[0]->producer = n;
    return x->copied_to_tp = n->out[0];
}

graph_value *graph_reduce_from_tp(graph *g, graph_value *x)
{
    int64_t rows = graph_value_rows(x), ranks = g->tp.ranks;
    if (g->tp.sequence && rows % ranks)
        graph_not_divisible(g,
                            "with parallel.sequence_parallel the %lld tokens of a micro-batch must "
                            "divide over parallel.tp %lld",
                            (long long)rows, (long long)ranks);
    bool scatter = g->tp.sequence;
    graph_node *n = cut_node(g, scatter ? OP_SCATTER_TO_SP : OP_REDUCE_FROM_TP, x);
    n->out[0] = with_rows(g, "sum of parts", x, scatter ? rows / ranks : rows,
                          scatter ? TP_SHARD_ROWS : TP_REPLICATE);
    n->out[0]->producer = n;
    return n->out[0];
}

static size_t count_of(const graph_value *v)
{
    return (size_t)(graph_value_rows(v) * graph_value_cols(v));
}

static status enter_run(const graph_run *x, const graph_node *n, err *e)
{
    (void)x, (void)n, (void)e;
    return OK;
}

static status leave_run(const graph_run *x, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    if (graph_run_ptr(x, in) != graph_run_ptr(x, out))
        x->on->device->ops->copy(x->on, graph_run_ptr(x, out), graph_run_ptr(x, in),
                                 graph_value_bytes(out));
    return comm_all_reduce(x->tp, graph_run_ptr(x, out), count_of(out), out->type, REDUCE_SUM,
                           x->on, e);
}

static status gather_run(const graph_run *x, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    return comm_all_gather(x->tp, graph_run_ptr(x, in), graph_run_ptr(x, out), count_of(in),
                           in->type, x->on, e);
}

static status scatter_run(const graph_run *x, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    return comm_reduce_scatter(x->tp, graph_run_ptr(x, in), graph_run_ptr(x, out), count_of(out),
                               in->type, REDUCE_SUM, x->on, e);
}

static double node_sent(const graph *g, const graph_node *n)
{
    const double others = g->tp.ranks - 1, ranks = g->tp.ranks;
    switch (n->op) {
    case OP_REDUCE_FROM_TP:
        return 2 * others / ranks * (double)graph_value_bytes(n->out[0]);
    case OP_GATHER_FROM_SP:
        return others * (double)graph_value_bytes(n->in[0]);
    case OP_SCATTER_TO_SP:
        return others * (double)graph_value_bytes(n->out[0]);
    case OP_LINEAR_CROSS_ENTROPY: // three fp32 numbers of every row
        return n->out[2] ? others * 12 * (double)graph_value_rows(n->in[0]) : 0;
    default:
        return 0;
    }
}

double graph_sent_bytes(const graph *g, const graph_node_list *l, int first, int last)
{
    double bytes = 0;
    for (int i = first; i < last && g->tp.ranks > 1; i++) bytes += node_sent(g, l->node[i]);
    return bytes;
}

static void derive_by(graph *g, graph_node *n, graph_op kind)
{
    graph_node *d = grad_node(g, kind, n);
    d->in[0] = n->out[0]->grad;
    d->out[0] = graph_new_like(g, "gradient over ranks", n->in[0]);
    d->out[0]->producer = d;
    grad_give(g, n->in[0], d->out[0]);
}

static void enter_derive(graph *g, graph_node *n)
{
    derive_by(g, n, OP_REDUCE_FROM_TP);
}

static void leave_derive(graph *g, graph_node *n)
{
    grad_give(g, n->in[0], n->out[0]->grad);
}

static void gather_derive(graph *g, graph_node *n)
{
    derive_by(g, n, OP_SCATTER_TO_SP);
}

static void scatter_derive(graph *g, graph_node *n)
{
    derive_by(g, n, OP_GATHER_FROM_SP);
}

const graph_op_info op_copy_to_tp = {.name = "enter",
                                     .derive = enter_derive,
                                     .run = enter_run,
                                     .must_alias = -1,
                                     .is_view = true,
                                     .recompute = 1};
const graph_op_info op_reduce_from_tp = {.name = "leave",
                                         .derive = leave_derive,
                                         .run = leave_run,
                                         .must_alias = -1,
                                         .may_alias = 1,
                                         .recompute = 3};
const graph_op_info op_gather_from_sp = {
    .name = "gather", .derive = gather_derive, .run = gather_run, .must_alias = -1, .recompute = 1};
const graph_op_info op_scatter_to_sp = {.name = "scatter",
                                        .derive = scatter_derive,
                                        .run = scatter_run,
                                        .must_alias = -1,
                                        .recompute = 3};
