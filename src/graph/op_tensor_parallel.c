// op_tensor_parallel.c -- the collectives at both ends of a tensor-parallel region. A region starts
// before a linear layer whose weight is sharded by rows. It ends after a layer whose weight is
// sharded by columns, or after a sharded table of tokens. The build functions of those layers add the
// ops; no family names them.
//
//                     forward               backward
//   copy_to_tp        nothing               all-reduce
//   reduce_from_tp    all-reduce            nothing
//   gather_from_sp    all-gather of rows    reduce-scatter of rows
//   scatter_to_sp     reduce-scatter        all-gather
//
// The first two are used without sequence parallelism, the last two with it (Korthikanti et al.
// 2022). The names are Megatron's.
#include "graph/op.h"

graph_node *graph_new_axis_node(graph *g, graph_op kind, graph_value *x)
{
    graph_node *n = graph_new_node(g, kind);
    g->tracing.next_number--;
    n->number = -1;
    n->in[0] = x;
    return n;
}

// A value with all columns.
static graph_value *new_tp_value(graph *g, const char *name, const graph_value *x, int64_t rows,
                                 unsigned row_sharding)
{
    graph_value *v = graph_new_value(g, name, x->type, 2, (int64_t[]){rows, graph_value_cols(x)});
    v->sharding.rows = row_sharding;
    return v;
}

graph_value *graph_copy_to_tp(graph *g, graph_value *x)
{
    // Every rank has all of the features already, and the backward has no sum to take for them.
    if (!(x->sharding.rows & GRAPH_TP) && x->region == REGION_IDS) return x;
    if (x->copied_to_tp) return x->copied_to_tp;
    bool gather = x->sharding.rows & GRAPH_TP;
    graph_node *n = graph_new_axis_node(g, gather ? OP_GATHER_FROM_SP : OP_COPY_TO_TP, x);
    n->out[0] = new_tp_value(g, "copy for tp", x,
                             gather ? graph_value_rows(x) * g->tp.ranks : graph_value_rows(x),
                             x->sharding.rows & ~(unsigned)GRAPH_TP);
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
    graph_node *n = graph_new_axis_node(g, scatter ? OP_SCATTER_TO_SP : OP_REDUCE_FROM_TP, x);
    n->out[0] = new_tp_value(g, "sum over tp", x, scatter ? rows / ranks : rows,
                             x->sharding.rows | (scatter ? GRAPH_TP : 0));
    n->out[0]->producer = n;
    return n->out[0];
}

static status copy_to_tp_run(const graph_run *run, const graph_node *n, err *e)
{
    (void)run, (void)n, (void)e;
    return OK;
}

static status reduce_from_tp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    graph_run_copy(run, out, in);
    if (graph_is_visited(run)) return OK;
    return comm_all_reduce(run->tp, graph_run_ptr(run, out), (size_t)graph_value_count(out),
                           out->type, REDUCE_SUM, run->stream, e);
}

static status gather_from_sp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    if (graph_is_visited(run)) return OK;
    return comm_all_gather(run->tp, graph_run_ptr(run, in), graph_run_ptr(run, out),
                           (size_t)graph_value_count(in), in->type, run->stream, e);
}

static status scatter_to_sp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    if (graph_is_visited(run)) return OK;
    return comm_reduce_scatter(run->tp, graph_run_ptr(run, in), graph_run_ptr(run, out),
                               (size_t)graph_value_count(out), in->type, REDUCE_SUM, run->stream,
                               e);
}

static double tp_sent(const graph *g, const graph_node *n)
{
    const double others = g->tp.ranks - 1, ranks = g->tp.ranks;
    switch (n->op) {
    case OP_REDUCE_FROM_TP:
        return 2 * others / ranks * (double)graph_value_bytes(n->out[0]);
    case OP_GATHER_FROM_SP:
        return others * (double)graph_value_bytes(n->in[0]);
    case OP_SCATTER_TO_SP:
        return others * (double)graph_value_bytes(n->out[0]);
    case OP_LINEAR_CROSS_ENTROPY: // all-gathers three F32 statistics of every row
        return n->out[2] ? others * 12 * (double)graph_value_rows(n->in[0]) : 0;
    default:
        return 0;
    }
}

double graph_sent_bytes(const graph *g, graph_axis axis, const graph_node_list *l, int first,
                        int last)
{
    double bytes = 0;
    for (int i = first; i < last; i++)
        bytes += axis == GRAPH_TP ? tp_sent(g, l->node[i]) : graph_cp_sent(g, l->node[i]);
    return bytes;
}

// The gradient of n is node `kind` on the gradient of its output.
static void derive_as(graph *g, graph_node *n, graph_op kind)
{
    graph_node *d = graph_new_grad_node(g, kind, n);
    d->in[0] = n->out[0]->grad;
    d->out[0] = graph_new_like(g, "gradient over ranks", n->in[0]);
    d->out[0]->producer = d;
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

static void copy_to_tp_derive(graph *g, graph_node *n)
{
    derive_as(g, n, OP_REDUCE_FROM_TP);
}

static void reduce_from_tp_derive(graph *g, graph_node *n)
{
    graph_accumulate_grad(g, n->in[0], n->out[0]->grad);
}

static void gather_from_sp_derive(graph *g, graph_node *n)
{
    derive_as(g, n, OP_SCATTER_TO_SP);
}

static void scatter_to_sp_derive(graph *g, graph_node *n)
{
    derive_as(g, n, OP_GATHER_FROM_SP);
}

const graph_op_info op_copy_to_tp = {.name = "copy_to_tp",
                                     .derive = copy_to_tp_derive,
                                     .run = copy_to_tp_run,
                                     .must_alias = -1,
                                     .is_view = true,
                                     .recompute = 1};
const graph_op_info op_reduce_from_tp = {.name = "reduce_from_tp",
                                         .derive = reduce_from_tp_derive,
                                         .run = reduce_from_tp_run,
                                         .must_alias = -1,
                                         .may_alias = 1,
                                         .recompute = 3};
const graph_op_info op_gather_from_sp = {.name = "gather_from_sp",
                                         .derive = gather_from_sp_derive,
                                         .run = gather_from_sp_run,
                                         .must_alias = -1,
                                         .recompute = 1};
const graph_op_info op_scatter_to_sp = {.name = "scatter_to_sp",
                                        .derive = scatter_to_sp_derive,
                                        .run = scatter_to_sp_run,
                                        .must_alias = -1,
                                        .recompute = 3};
