// op_cut.c -- where a cut graph goes in and out of a tensor-parallel region: before a linear layer
// whose rows are split, and after one whose columns are (or a table of tokens). The builders of
// those layers put the ops; no family names them.
//
//               forward                          its gradient
//   ENTER       the value itself                 LEAVE
//   LEAVE       sum over the ranks, in place     the value itself
//   GATHER      all ranks' rows                  SCATTER
//   SCATTER     sum, of which own rows stay      GATHER
// ENTER and LEAVE without, GATHER and SCATTER with sequence parallelism (Korthikanti et al. 2022).
#include "graph/op.h"

// Numbers key random numbers: those of the other nodes are to be the whole graph's.
static node *cut_node(graph *g, op kind, value *x)
{
    node *n = graph_node(g, kind);
    g->numbered--;
    n->number = -1;
    n->in[0] = x;
    return n;
}

static value *with_rows(graph *g, const char *name, const value *x, int64_t rows, value_cut cut)
{
    value *v = graph_value(g, name, x->type, 2, (int64_t[]){rows, value_cols(x)});
    v->cut = cut;
    return v;
}

value *graph_enter(graph *g, value *x)
{
    // What nobody wants the gradient of is whole on every rank already.
    if (x->cut != CUT_ROWS && !grad_wanted(x)) return x;
    if (x->entered) return x->entered;
    bool gather = x->cut == CUT_ROWS;
    node *n = cut_node(g, gather ? OP_GATHER : OP_ENTER, x);
    n->out[0] =
        with_rows(g, "entered", x, gather ? value_rows(x) * g->cut.ranks : value_rows(x), CUT_NONE);
    n->out[0]->producer = n;
    return x->entered = n->out[0];
}

value *graph_leave(graph *g, value *x)
{
    int64_t rows = value_rows(x), ranks = g->cut.ranks;
    if (g->cut.sequence && rows % ranks)
        graph_uncuttable(g,
                         "with parallel.sequence_parallel the %lld tokens of a micro-batch must "
                         "divide over parallel.tp %lld",
                         (long long)rows, (long long)ranks);
    bool scatter = g->cut.sequence;
    node *n = cut_node(g, scatter ? OP_SCATTER : OP_LEAVE, x);
    n->out[0] = with_rows(g, "sum of parts", x, scatter ? rows / ranks : rows,
                          scatter ? CUT_ROWS : CUT_NONE);
    n->out[0]->producer = n;
    return n->out[0];
}

static size_t count_of(const value *v)
{
    return (size_t)(value_rows(v) * value_cols(v));
}

static status enter_run(const run_context *x, const node *n, err *e)
{
    (void)x, (void)n, (void)e;
    return OK;
}

static status leave_run(const run_context *x, const node *n, err *e)
{
    const value *in = n->in[0], *out = n->out[0];
    if (run_at(x, in) != run_at(x, out))
        x->on->device->ops->copy(x->on, run_at(x, out), run_at(x, in), value_bytes(out));
    return comm_all_reduce(x->tp, run_at(x, out), count_of(out), out->type, REDUCE_SUM, x->on, e);
}

static status gather_run(const run_context *x, const node *n, err *e)
{
    const value *in = n->in[0], *out = n->out[0];
    return comm_all_gather(x->tp, run_at(x, in), run_at(x, out), count_of(in), in->type, x->on, e);
}

static status scatter_run(const run_context *x, const node *n, err *e)
{
    const value *in = n->in[0], *out = n->out[0];
    return comm_reduce_scatter(x->tp, run_at(x, in), run_at(x, out), count_of(out), in->type,
                               REDUCE_SUM, x->on, e);
}

static double node_sent(const graph *g, const node *n)
{
    const double others = g->cut.ranks - 1, ranks = g->cut.ranks;
    switch (n->op) {
    case OP_LEAVE:
        return 2 * others / ranks * (double)value_bytes(n->out[0]);
    case OP_GATHER:
        return others * (double)value_bytes(n->in[0]);
    case OP_SCATTER:
        return others * (double)value_bytes(n->out[0]);
    case OP_LINEAR_CROSS_ENTROPY: // three fp32 numbers of every row
        return n->out[2] ? others * 12 * (double)value_rows(n->in[0]) : 0;
    default:
        return 0;
    }
}

double graph_sent_bytes(const graph *g, const node_list *l, int first, int last)
{
    double bytes = 0;
    for (int i = first; i < last && g->cut.ranks > 1; i++) bytes += node_sent(g, l->at[i]);
    return bytes;
}

static void derive_by(graph *g, node *n, op kind)
{
    node *d = grad_node(g, kind, n);
    d->in[0] = n->out[0]->grad;
    d->out[0] = graph_like(g, "gradient over ranks", n->in[0]);
    d->out[0]->producer = d;
    grad_give(g, n->in[0], d->out[0]);
}

static void enter_derive(graph *g, node *n)
{
    derive_by(g, n, OP_LEAVE);
}

static void leave_derive(graph *g, node *n)
{
    grad_give(g, n->in[0], n->out[0]->grad);
}

static void gather_derive(graph *g, node *n)
{
    derive_by(g, n, OP_SCATTER);
}

static void scatter_derive(graph *g, node *n)
{
    derive_by(g, n, OP_GATHER);
}

const op_info op_enter = {.name = "enter",
                          .derive = enter_derive,
                          .run = enter_run,
                          .must_alias = -1,
                          .is_view = true,
                          .recompute = 1};
const op_info op_leave = {.name = "leave",
                          .derive = leave_derive,
                          .run = leave_run,
                          .must_alias = -1,
                          .may_alias = 1,
                          .recompute = 3};
const op_info op_gather = {
    .name = "gather", .derive = gather_derive, .run = gather_run, .must_alias = -1, .recompute = 1};
const op_info op_scatter = {.name = "scatter",
                            .derive = scatter_derive,
                            .run = scatter_run,
                            .must_alias = -1,
                            .recompute = 3};
