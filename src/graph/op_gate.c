// op_gate.c -- a gate on the columns of a value, and columns taken out of a value, such as the gates of attention that
// one linear layer computes with its queries, keys and values.
//   x, gate, y [rows, cols]   gain [head_dim]   rstd [rows, cols / head_dim] F32
//
//   gate                in x, gate, gain              out y, rstd
//   gate_grad           in dy, x, gate, gain, rstd    out dx, d_gate
//   take_columns        in x                          out taken, rest
//   take_columns_grad   in d_taken, d_rest            out dx
// The gain may be missing, and with it rstd. kernel_gate.h specifies the gate.
#include "graph/mixers.h"
#include "graph/op.h"

graph_value *build_gate(graph *g, graph_value *x, graph_value *gate, const graph_gate *form)
{
    const int64_t cols = graph_value_cols(x);
    if (graph_value_cols(gate) != cols || graph_value_rows(gate) != graph_value_rows(x) ||
        gate->sharding.cols != x->sharding.cols || gate->sharding.rows != x->sharding.rows)
        graph_misuse(g, "gate: %lld columns, %lld gates", (long long)cols,
                     (long long)graph_value_cols(gate));
    if (form->gain && (form->gain->dim[0] != form->head_dim || cols % form->head_dim))
        graph_misuse(g, "gate: heads of %lld in %lld columns, %lld gains",
                     (long long)form->head_dim, (long long)cols, (long long)form->gain->dim[0]);
    if (x->type != g->type || gate->type != g->type)
        graph_misuse(g, "gate: x and the gate must have the compute type");
    if (form->gain) graph_note_use(g, form->gain, x->sharding.rows | x->sharding.cols);
    graph_node *n = graph_new_node(g, OP_GATE);
    n->in[0] = x, n->in[1] = gate, n->in[2] = form->gain;
    n->attr.u.gate.head_dim = form->head_dim, n->attr.u.gate.eps = (float)form->eps;
    n->attr.u.gate.silu = form->silu;
    graph_set_output(n, 0, graph_new_like(g, "gated", x));
    if (form->gain)
        graph_set_output(n, 1,
                         graph_new_value(g, "rstd", F32, 2,
                                         (int64_t[]){graph_value_rows(x), cols / form->head_dim}));
    return n->out[0];
}

static kernel_gate_args gate_fill(const graph_run *run, const graph_node *n,
                                  const graph_value *const in[4])
{
    return (kernel_gate_args){.rows = graph_value_rows(in[0]),
                              .cols = graph_value_cols(in[0]),
                              .head_dim = n->attr.u.gate.head_dim,
                              .x = graph_run_ptr(run, in[0]),
                              .gate = graph_run_ptr(run, in[1]),
                              .gain = graph_run_ptr(run, in[2]),
                              .rstd = graph_run_ptr(run, in[3]),
                              .y = graph_run_ptr(run, n->out[0]),
                              .eps = n->attr.u.gate.eps,
                              .silu = n->attr.u.gate.silu,
                              .type = in[0]->type};
}

static void gate_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[0], n->in[1], n->in[2], n->out[1]};
    kernel_call c = {.kind = K_GATE, .u.gate = gate_fill(run, n, in)};
    graph_launch(run, n, &c);
}

static void gate_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_GATE_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = n->in[0], d->in[2] = n->in[1], d->in[3] = n->in[2];
    d->in[4] = n->out[1];
    d->param[0] = graph_trained_param(g, n->in[2]);
    graph_set_output(d, 0, graph_new_like(g, "gate dx", n->in[0]));
    graph_set_output(d, 1, graph_new_like(g, "d_gate", n->in[1]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
    graph_accumulate_grad(g, n->in[1], d->out[1]);
}

static void gate_grad_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[1], n->in[2], n->in[3], n->in[4]};
    kernel_call c = {.kind = K_GATE_GRAD, .u.gate = gate_fill(run, n, in)};
    kernel_gate_args *a = &c.u.gate;
    a->dy = graph_run_ptr(run, n->in[0]);
    a->d_gate = graph_run_ptr(run, n->out[1]);
    if (n->param[0] >= 0) a->d_gain = graph_run_grad(run, n->param[0], &a->accumulate_d_gain);
    graph_launch(run, n, &c);
}

graph_value *build_take_columns(graph *g, graph_value *x, int64_t first, int64_t cols,
                                graph_value **rest)
{
    const int64_t all = graph_value_cols(x), rows = graph_value_rows(x);
    const int ranks = graph_ranks(g, x->sharding.cols);
    first /= ranks, cols /= ranks;
    if (first <= 0 || first + cols > all)
        graph_misuse(g, "take_columns: columns %lld to %lld of %lld", (long long)first,
                     (long long)(first + cols - 1), (long long)all);
    graph_node *n = graph_new_node(g, OP_TAKE_COLUMNS);
    n->in[0] = x;
    n->attr.u.take.first = first, n->attr.u.take.cols = cols;
    graph_set_output(n, 0,
                     graph_new_value(g, "taken columns", x->type, 2, (int64_t[]){rows, cols}));
    graph_set_output(
        n, 1, graph_new_value(g, "other columns", x->type, 2, (int64_t[]){rows, all - cols}));
    for (int i = 0; i < 2; i++) n->out[i]->sharding = x->sharding;
    *rest = n->out[1];
    return n->out[0];
}

// A run of columns of a matrix.
typedef struct gate_part {
    const graph_value *value;
    int64_t first;
} gate_part;

static void copy_columns(const graph_run *run, const graph_node *n, gate_part from, gate_part to,
                         int64_t cols)
{
    const size_t item = dtype_bytes(from.value->type);
    const int64_t rows = graph_value_rows(from.value);
    kernel_call c = {.kind = K_COPY_ROWS};
    c.u.copy_rows = (kernel_copy_rows_args){
        .rows = rows,
        .cols = cols,
        .src = (const char *)graph_run_ptr(run, from.value) + (size_t)from.first * item,
        .dst = (char *)graph_run_ptr(run, to.value) + (size_t)to.first * item,
        .src_stride = graph_value_cols(from.value),
        .dst_stride = graph_value_cols(to.value),
        .src_rows = kernel_tokens_from(rows, 0),
        .dst_rows = kernel_tokens_from(rows, 0),
        .type = from.value->type};
    graph_launch(run, n, &c);
}

// Copies between x and its two parts: out of x, or into it.
static void copy_parts(const graph_run *run, const graph_node *n, const graph_value *x,
                       const graph_value *taken, const graph_value *rest, bool into)
{
    const int64_t first = n->attr.u.take.first, cols = n->attr.u.take.cols,
                  last = graph_value_cols(x) - first - cols;
    const gate_part whole[] = {{x, 0}, {x, first}, {x, first + cols}},
                    part[] = {{rest, 0}, {taken, 0}, {rest, first}};
    const int64_t count[] = {first, cols, last};
    for (int i = 0; i < 3; i++)
        if (count[i] > 0)
            copy_columns(run, n, into ? part[i] : whole[i], into ? whole[i] : part[i], count[i]);
}

static void take_columns_launch(const graph_run *run, const graph_node *n)
{
    copy_parts(run, n, n->in[0], n->out[0], n->out[1], false);
}

// The taken columns are a section of their own, between two others.
static int input_sections(const graph_node *n, int count, int64_t rows[PARAM_SECTIONS])
{
    int64_t before = 0;
    int at = 0;
    while (at < count && before < n->attr.u.take.first) before += rows[at++];
    if (before != n->attr.u.take.first || count == PARAM_SECTIONS) return 0;
    for (int i = count; i > at; i--) rows[i] = rows[i - 1];
    rows[at] = n->attr.u.take.cols;
    return count + 1;
}

static void take_columns_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_TAKE_COLUMNS_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = n->out[1]->grad;
    graph_set_output(d, 0, graph_new_like(g, "gradient of all columns", n->in[0]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

static void take_columns_grad_launch(const graph_run *run, const graph_node *n)
{
    copy_parts(run, n, n->out[0], n->in[0], n->in[1], true);
}

const graph_op_info op_gate = {.derive = gate_derive, .launch = gate_launch, .recompute = 1};
const graph_op_info op_gate_grad = {.launch = gate_grad_launch, .may_alias = 1};
const graph_op_info op_take_columns = {.derive = take_columns_derive,
                                       .launch = take_columns_launch,
                                       .input_sections = input_sections,
                                       .recompute = 1};
const graph_op_info op_take_columns_grad = {.launch = take_columns_grad_launch};
