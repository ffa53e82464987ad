// op_conv.c -- a causal convolution along the tokens of each sequence, in which every column has taps of its own.
//   x [rows, cols], or [rows, 3 * cols] where gated   w [cols, width]   bias [cols]   y [rows, cols]
//   gathered   [batch * full_seq, columns of x]   x of all tokens, under context parallelism only
//
//   causal_conv        in x, w, bias, gathered       out y
//   causal_conv_grad   in dy, x, w, bias, gathered   out dx, d_gathered
// kernel_conv.h specifies both. The bias may be missing. There is no dx where x requires no gradient.
//
// A context-parallel rank gathers x of the tokens that its taps reach, as attention with a window gathers keys and
// values, and computes its own rows. When decoding, x lies in the block's cache, and the taps find earlier tokens in
// the rows before; positions then count from the cache's first row.
#include "graph/mixers.h"
#include "graph/op.h"

static int64_t check(graph *g, const graph_value *x, const graph_conv *form)
{
    const int64_t parts = form->gated ? 3 : 1, cols = graph_value_cols(x) / parts,
                  width = graph_value_cols(form->w);
    if (x->sharding.rows & MESH_AXIS(AXIS_TP))
        graph_misuse(g, "causal_conv: the rows of x are sharded over the tensor-parallel ranks");
    if (form->w->dims != 2 || form->w->dim[0] != cols || graph_value_cols(x) % parts)
        graph_misuse(g, "causal_conv: %lld columns, taps for %lld", (long long)graph_value_cols(x),
                     (long long)form->w->dim[0]);
    if (width > KERNEL_CONV_WIDTH)
        graph_misuse(g, "causal_conv: %lld taps; valid: at most %d", (long long)width,
                     KERNEL_CONV_WIDTH);
    if (form->gated && form->silu) graph_misuse(g, "causal_conv: both a gate and silu");
    if (x->type != g->type) graph_misuse(g, "causal_conv: x must come from a linear layer");
    if (g->mode == GRAPH_DECODE && g->batch != 1)
        graph_misuse(g, "causal_conv: decoding takes one sequence at a time");
    return cols;
}

graph_value *build_causal_conv(graph *g, graph_value *x, const graph_conv *form)
{
    const int64_t cols = check(g, x, form);
    graph_value *gathered = NULL;
    if (form->gated)
        graph_sections(g, x, "causal_conv: gates and x", 3, (int64_t[]){cols, cols, cols});
    if (x->sharding.rows & MESH_AXIS(AXIS_CP))
        gathered = graph_gather_from_cp(g, x, 0, graph_value_cols(x), graph_value_cols(form->w));
    graph_note_use(g, form->w, x->sharding.rows);
    if (form->bias) graph_note_use(g, form->bias, x->sharding.rows);
    graph_node *n = graph_new_node(g, OP_CAUSAL_CONV);
    n->in[0] = x, n->in[1] = form->w, n->in[2] = form->bias, n->in[3] = gathered;
    n->attr.u.conv.gated = form->gated, n->attr.u.conv.silu = form->silu;
    graph_set_output(
        n, 0,
        graph_new_value(g, "causal_conv", g->type, 2, (int64_t[]){graph_value_rows(x), cols}));
    n->out[0]->sharding = x->sharding;
    return n->out[0];
}

// The address of the first token of the sequence, or of the cache when decoding. `x` holds the tokens of the graph's
// sequences, or those that a rank has.
static char *first_token(const graph_run *run, const graph_value *x)
{
    return (char *)graph_run_ptr(run, x) -
           (size_t)(graph_run_cached(run) * graph_value_cols(x)) * dtype_bytes(x->type);
}

static kernel_causal_conv_args conv_fill(const graph_run *run, const graph_node *n,
                                         const graph_value *const in[4], const graph_value *y)
{
    const graph_value *x = in[0], *w = in[1], *bias = in[2], *gathered = in[3],
                      *read = gathered ? gathered : x;
    kernel_tokens rows = graph_run_tokens(run, x);
    rows.start[0] -= run->cache_first;
    return (kernel_causal_conv_args){.batch = run->g->batch,
                                     .cols = w->dim[0],
                                     .width = graph_value_cols(w),
                                     .rows = rows,
                                     .x_stride = graph_value_cols(read),
                                     .x_batch = graph_value_cols(read) * rows.full_seq,
                                     .x = first_token(run, read),
                                     .w = graph_run_ptr(run, w),
                                     .bias = graph_run_ptr(run, bias),
                                     .y = graph_run_ptr(run, y),
                                     .gated = n->attr.u.conv.gated,
                                     .silu = n->attr.u.conv.silu,
                                     .type = x->type};
}

static void conv_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[0], n->in[1], n->in[2], n->in[3]};
    kernel_call c = {.kind = K_CAUSAL_CONV, .u.causal_conv = conv_fill(run, n, in, n->out[0])};
    graph_launch(run, n, &c);
}

static void conv_derive(graph *g, graph_node *n)
{
    graph_value *x = n->in[0], *gathered = n->in[3];
    graph_node *d = graph_new_grad_node(g, OP_CAUSAL_CONV_GRAD, n);
    d->in[0] = n->out[0]->grad;
    for (int i = 0; i < 4; i++) d->in[1 + i] = n->in[i];
    d->param[0] = graph_trained_param(g, n->in[1]);
    d->param[1] = graph_trained_param(g, n->in[2]);
    if (!graph_requires_grad(x)) return;
    graph_set_output(d, 0, graph_new_like(g, "causal_conv dx", x));
    graph_value *dx = d->out[0];
    if (gathered) {
        graph_set_output(d, 1, graph_new_like(g, "gradient of gathered x", gathered));
        gathered->grad = d->out[1];
        dx = graph_scatter_to_cp(g, gathered->producer, d->out[1], dx);
    }
    graph_accumulate_grad(g, x, dx);
}

static void conv_grad_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[1], n->in[2], n->in[3], n->in[4]};
    kernel_call c = {.kind = K_CAUSAL_CONV_GRAD};
    kernel_causal_conv_grad_args *a = &c.u.causal_conv_grad;
    a->fwd = conv_fill(run, n, in, NULL);
    a->dy = graph_run_ptr(run, n->in[0]);
    a->dx = graph_run_ptr(run, n->out[1] ? n->out[1] : n->out[0]);
    if (n->param[0] >= 0) a->dw = graph_run_grad(run, n->param[0], &a->accumulate_dw);
    if (n->param[1] >= 0) a->dbias = graph_run_grad(run, n->param[1], &a->accumulate_dbias);
    graph_launch(run, n, &c);
}

static int64_t conv_cache_window(const graph_node *n)
{
    return graph_value_cols(n->in[1]);
}

const graph_op_info op_causal_conv = {.derive = conv_derive,
                                      .launch = conv_launch,
                                      .keeps_cols = true,
                                      .weight_by_column = true,
                                      .cache_window = conv_cache_window,
                                      .has_time = true,
                                      .takes_documents = true,
                                      .recompute = 1};
const graph_op_info op_causal_conv_grad = {.launch = conv_grad_launch};
