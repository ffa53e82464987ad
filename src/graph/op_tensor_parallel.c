// op_tensor_parallel.c -- the collectives at both ends of a region in which the ranks of an axis have shards of
// the weights, such as a tensor-parallel one. A region starts before a linear layer whose weight is sharded by
// rows. It ends after a layer whose weight is sharded by columns, or after a sharded table of tokens. The build
// functions of those layers add the ops; no family names them.
//
//                     forward               backward
//   copy_to_tp        nothing               all-reduce
//   reduce_from_tp    all-reduce            nothing
//   gather_from_sp    all-gather of rows    reduce-scatter of rows
//   scatter_to_sp     reduce-scatter        all-gather
//
// The first two are used where each rank of the axis has all rows outside of the region, the last two where each
// has some of them, as with sequence parallelism (Korthikanti et al. 2022). The names are Megatron's.
#include "graph/op.h"

graph_node *graph_new_axis_node(graph *g, graph_op kind, graph_value *x)
{
    graph_node *n = graph_new_node(g, kind);
    g->tracing.next_number--;
    n->number = -1;
    n->in[0] = x;
    return n;
}

// Appends a node on axis `over` whose result has all columns.
static graph_value *new_over(graph *g, graph_op kind, const char *name, graph_value *x,
                             mesh_axes over, int64_t rows, mesh_axes row_sharding)
{
    graph_node *n = graph_new_axis_node(g, kind, x);
    n->attr.u.over.axis = mesh_first_axis(over);
    graph_set_output(n, 0,
                     graph_new_value(g, name, x->type, 2, (int64_t[]){rows, graph_value_cols(x)}));
    n->out[0]->sharding.rows = row_sharding;
    return n->out[0];
}

graph_value *graph_copy_to(graph *g, graph_value *x, mesh_axes over)
{
    graph_value **known = &x->copied_to[mesh_first_axis(over)];
    const bool gather = x->sharding.rows & over;
    // Every rank has all of the features already, and the backward has no sum to take for them.
    if (!gather && x->region == REGION_IDS) return x;
    if (!*known)
        *known = new_over(g, gather ? OP_GATHER_FROM_SP : OP_COPY_TO_TP, "copy for tp", x, over,
                          graph_value_rows(x) * (gather ? graph_ranks(g, over) : 1),
                          x->sharding.rows & ~over);
    return *known;
}

graph_value *graph_reduce_from(graph *g, graph_value *x, mesh_axes over)
{
    const int64_t rows = graph_value_rows(x), ranks = graph_ranks(g, over);
    const mesh_axes scatter = graph_row_sharding(g) & over;
    if (scatter && rows % ranks)
        graph_not_divisible(g,
                            "with parallel.sequence_parallel the %lld tokens of a micro-batch must "
                            "divide over parallel.tp %lld",
                            (long long)rows, (long long)ranks);
    return new_over(g, scatter ? OP_SCATTER_TO_SP : OP_REDUCE_FROM_TP, "sum over tp", x, over,
                    scatter ? rows / ranks : rows, x->sharding.rows | scatter);
}

static status reduce_from_tp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    graph_run_copy(run, out, in);
    if (graph_is_visited(run)) return OK;
    return comm_all_reduce(run->comm[n->attr.u.over.axis], graph_run_ptr(run, out),
                           (size_t)graph_value_count(out), out->type, REDUCE_SUM, run->stream, e);
}

static status gather_from_sp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    if (graph_is_visited(run)) return OK;
    return comm_all_gather(run->comm[n->attr.u.over.axis], graph_run_ptr(run, in),
                           graph_run_ptr(run, out), (size_t)graph_value_count(in), in->type,
                           run->stream, e);
}

static status scatter_to_sp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *in = n->in[0], *out = n->out[0];
    if (graph_is_visited(run)) return OK;
    return comm_reduce_scatter(run->comm[n->attr.u.over.axis], graph_run_ptr(run, in),
                               graph_run_ptr(run, out), (size_t)graph_value_count(out), in->type,
                               REDUCE_SUM, run->stream, e);
}

// The gradient of n is node `kind` on the gradient of its output.
static void derive_as(graph *g, graph_node *n, graph_op kind)
{
    graph_node *d = graph_new_grad_node(g, kind, n);
    d->in[0] = n->out[0]->grad;
    graph_set_output(d, 0, graph_new_like(g, "gradient over ranks", n->in[0]));
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

const graph_op_info op_copy_to_tp = {.derive = copy_to_tp_derive, .is_view = true, .recompute = 1};
const graph_op_info op_reduce_from_tp = {.derive = reduce_from_tp_derive,
                                         .run = reduce_from_tp_run,
                                         .call = CALL_ALL_REDUCE,
                                         .may_alias = 1,
                                         .recompute = 3};
const graph_op_info op_gather_from_sp = {.derive = gather_from_sp_derive,
                                         .run = gather_from_sp_run,
                                         .call = CALL_ALL_GATHER,
                                         .recompute = 1};
const graph_op_info op_scatter_to_sp = {.derive = scatter_to_sp_derive,
                                        .run = scatter_to_sp_run,
                                        .call = CALL_REDUCE_SCATTER,
                                        .recompute = 3};
