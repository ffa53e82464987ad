// op_loss.c -- the last linear layer fused with its loss. The op works through the rows in chunks, so
// that the logits never exist for all rows at once. In training it computes a chunk's gradients right
// after the chunk's loss, while the logits are still there; only dx is saved for the backward. It
// computes those gradients that are wanted: dx where x requires one, those of the weight and the bias
// where they train. This file builds and describes the op; op_loss_run.c runs it.
//
//   x          [rows, cols]
//   w          [outputs, cols]
//   bias       [outputs] or none
//   labels     the arrays of graph_loss_arrays, or under squared error [rows, outputs] F32
//   dx         [rows, cols]          in training, where x requires a gradient
//   logits     [chunk, stride]       scratch; the kernels turn logits into their gradient in place. The
//                                    outputs are its first columns; the device chooses the stride
//   statistics [ranks, chunk, 3] F32 scratch, where the vocabulary is sharded
//   packed     [chunk, cols]         scratch, where rows without a label are left out: rows of x
//   packed dx  [chunk, cols]         scratch, the same of dx
//   losses     [packed rows] F64     scratch of a preference loss: the cross-entropy of each row
//   sums       [documents, 2] F64    scratch of a preference loss
//
//   in x, w, bias, labels   out dx, logits, statistics, packed, packed dx, losses, sums
//
// Losses and gradients are sums over rows. The step divides once, by the number of valid rows of all
// ranks and micro-batches. Called through the table of ops; does not know that number.
#include "base/size.h"
#include "graph/op.h"

static void check_loss(graph *g, bool squared, const graph_value *x, const graph_value *w,
                       const graph_value *bias)
{
    const mesh_axes over = graph_sharded_over(g, w, 0);
    if (graph_value_cols(x) != graph_value_cols(w) || (bias && bias->dim[0] != w->dim[0]))
        graph_misuse(g, "loss: %lld columns, the weight is [%lld, %lld], the bias has %lld",
                     (long long)graph_value_cols(x), (long long)w->dim[0],
                     (long long)graph_value_cols(w), (long long)(bias ? bias->dim[0] : 0));
    if (x->sharding.cols || graph_sharded_over(g, w, 1))
        graph_misuse(g, "loss: the columns of x are sharded over the tensor-parallel ranks");
    if (squared && over) graph_misuse(g, "loss: squared error over a weight that is sharded");
    if (g->position.sequence_parallel && !over)
        graph_not_divisible(g, "parallel.sequence_parallel needs an output layer that is sharded");
}

// Elements from one row of the logits to the next. Squared error takes its predictions as one run.
static int64_t logits_stride(const graph *g, bool squared, const graph_value *w)
{
    const int64_t align = g->needs ? g->needs->logits_align : 0;
    if (align <= 1 || squared) return w->dim[0];
    return (int64_t)size_mul((uint64_t)size_ceil_div(w->dim[0], align), (uint64_t)align);
}

// The scratch of rows that are packed, and of preferences.
static void add_packed(graph *g, graph_node *n, int64_t most)
{
    const graph_loss_arrays a = graph_loss_arrays_of(g);
    const graph_value *x = n->in[0];
    if (!g->loss.packs) return;
    n->out[3] = graph_new_value(g, "packed", x->type, 2, (int64_t[]){most, graph_value_cols(x)});
    if (n->out[0])
        n->out[4] =
            graph_new_value(g, "packed dx", x->type, 2, (int64_t[]){most, graph_value_cols(x)});
    if (g->loss.preference.kind == PREFERENCE_NONE) return;
    n->out[5] = graph_new_value(g, "losses", F64, 1, (int64_t[]){a.packed});
    n->out[6] = graph_new_value(g, "sums", F64, 2, (int64_t[]){a.documents, 2});
}

static void add_scratch(graph *g, graph_node *n, bool squared)
{
    const graph_value *w = n->in[1];
    const mesh_axes over = graph_sharded_over(g, w, 0);
    // All ranks take the chunks of rank 0, whose shard of the vocabulary is the largest.
    const graph_param *p = &g->param[w->param];
    int64_t most = graph_loss_chunk_rows(
        g, graph_shard(p->roles[0], p->dim[0], &g->position.mesh, (const int[AXES]){0}, NULL));
    n->out[1] =
        graph_new_value(g, "logits", g->type, 2, (int64_t[]){most, logits_stride(g, squared, w)});
    if (over)
        n->out[2] =
            graph_new_value(g, "statistics", F32, 3, (int64_t[]){graph_ranks(g, over), most, 3});
    if (!squared) add_packed(g, n, most);
    for (int i = 0; i < NODE_OUTPUTS; i++)
        if (n->out[i]) n->out[i]->producer = n;
}

static int64_t place(graph_loss_arrays *a, bool has, int64_t elements)
{
    const int64_t at = a->elements;
    if (!has) return 0;
    a->elements = (int64_t)size_add((size_t)at, (size_t)elements);
    return at;
}

graph_loss_arrays graph_loss_arrays_of(const graph *g)
{
    const graph_loss_options *o = &g->loss;
    const bool pairs = o->preference.kind != PREFERENCE_NONE;
    const int64_t rows = graph_rows(g);
    graph_loss_arrays a = {.elements = rows, .packed = rows};
    if (!o->packs) return a;
    a.packed = a.elements = (int64_t)size_align((uint64_t)rows, LOSS_ROWS_ALIGN);
    // A document has one token or more. Padding may be one more document.
    a.parts = kernel_preference_parts(&o->preference);
    if (pairs) a.each = (g->sequences.tokens.full_seq / 2 * 2 + 2) * a.parts;
    a.documents = (int64_t)size_mul((uint64_t)a.each, (uint64_t)g->batch);
    a.index = place(&a, true, a.packed);
    a.inverse = place(&a, true, rows);
    a.weights = place(&a, o->weighted || pairs, a.packed);
    a.first = place(&a, pairs, a.documents + 1);
    a.reference = place(&a, pairs, 2 * a.documents);
    return a;
}

int64_t graph_loss_run_rows(const graph *g, int64_t labelled)
{
    const graph_node *n = g->forward.node[g->forward.count - 1];
    const int64_t rows = graph_value_rows(n->in[0]), most = n->out[1]->dim[0];
    // A device that prepares its products knows those of full chunks only.
    const int64_t part = g->needs && g->needs->loss_rows > 0 ? most : LOSS_ROWS_ALIGN;
    const int64_t least = labelled > 0 ? labelled : 1;
    const int64_t run = (int64_t)size_align((uint64_t)least, (uint64_t)part);
    if (part == LOSS_ROWS_ALIGN) return run;
    return run < rows ? run : rows;
}

static void loss_node(graph *g, graph_op kind, graph_value *x, graph_value *w, graph_value *bias,
                      bool squared, graph_logits logits)
{
    if (g->mode == GRAPH_DECODE) {
        g->logits = build_linear(g, build_last_row(g, x), w, bias);
        g->logits_of = logits;
        return;
    }
    const mesh_axes over = graph_sharded_over(g, w, 0);
    check_loss(g, squared, x, w, bias);
    x = graph_as_compute(g, x);
    if (over) x = graph_copy_to(g, x, over);
    graph_note_use(g, w, x->sharding.rows);
    if (bias) graph_note_use(g, bias, x->sharding.rows);
    int64_t rows = graph_value_rows(x), labels = graph_loss_arrays_of(g).elements;
    if (squared) labels = (int64_t)size_mul((uint64_t)rows, (uint64_t)w->dim[0]);
    g->labels = graph_new_value(g, "labels", squared ? F32 : I32, 1, (int64_t[]){labels});
    g->labels->region = REGION_LABELS;
    g->labels->sharding.rows = x->sharding.rows;
    graph_node *n = graph_new_node(g, kind);
    n->in[0] = x, n->in[1] = w, n->in[2] = bias, n->in[3] = g->labels;
    n->attr.u.loss.logits = logits, n->attr.u.loss.squared = squared;
    // dx exists in training only.
    n->out[0] = g->mode == GRAPH_TRAIN ? graph_new_like(g, "loss dx", x) : NULL;
    add_scratch(g, n, squared);
}

void build_linear_cross_entropy(graph *g, graph_value *x, graph_value *w, graph_value *bias,
                                double scale, double softcap)
{
    loss_node(g, OP_LINEAR_CROSS_ENTROPY, x, w, bias, false,
              (graph_logits){(float)scale, (float)softcap});
}

void build_linear_square_error(graph *g, graph_value *x, graph_value *w, graph_value *bias)
{
    loss_node(g, OP_LINEAR_SQUARE_ERROR, x, w, bias, true, (graph_logits){1, 0});
}

graph_value *build_last_row(graph *g, graph_value *x)
{
    if (g->batch != 1) graph_misuse(g, "last row: decoding takes one sequence at a time");
    graph_value *v =
        graph_new_value(g, "last row", x->type, 2, (int64_t[]){1, graph_value_cols(x)});
    v->producer = x->producer;
    v->root = x;
    v->view_offset =
        (size_t)((graph_value_rows(x) - 1) * graph_value_cols(x)) * dtype_bytes(x->type);
    return v;
}

bool graph_loss_gives_gradient(const graph_node *n)
{
    return n->out[0] || n->param[0] >= 0 || n->param[1] >= 0;
}

static void loss_derive(graph *g, graph_node *n)
{
    n->param[0] = graph_trained_param(g, n->in[1]);
    n->param[1] = graph_trained_param(g, n->in[2]);
    if (graph_requires_grad(n->in[0]))
        graph_accumulate_grad(g, n->in[0], n->out[0]);
    else
        n->out[0] = n->out[4] = NULL;
}

bool graph_loss_shape(const graph *g, graph_loss_dims *out)
{
    const graph_node *n = g->forward.count ? g->forward.node[g->forward.count - 1] : NULL;
    if (!n || !graph_op_find(n->op)->is_loss) return false;
    *out = (graph_loss_dims){.outputs = g->param[n->in[1]->param].dim[0],
                             .inputs = graph_value_cols(n->in[0]),
                             .classes = !n->attr.u.loss.squared,
                             .outputs_sharded = graph_sharded_over(g, n->in[1], 0) != 0};
    return true;
}

// The ranks of a sharded vocabulary all-gather three statistics of every row; where the loss is of preferences, once for
// the loss and once for the gradient. Ranks that share documents add the sums of these; where the vocabulary is sharded,
// too, this smaller call is not told.
static bool loss_call(const graph *g, const graph_node *n, graph_call *out)
{
    const mesh_axes over = graph_sharded_over(g, n->in[1], 0);
    const int64_t passes = n->out[5] && graph_loss_gives_gradient(n) ? 2 : 1;
    if (over)
        *out =
            (graph_call){.over = mesh_first_axis(over),
                         .kind = CALL_ALL_GATHER,
                         .type = F32,
                         .count = passes * 3 * graph_value_rows(n->in[0]) * graph_ranks(g, over)};
    else if (n->out[6] && graph_ranks(g, MESH_AXIS(AXIS_CP)) > 1)
        *out = (graph_call){
            .over = AXIS_CP, .kind = CALL_ALL_REDUCE, .type = F64, .count = 2 * n->out[6]->dim[0]};
    else
        return false;
    return true;
}

static double loss_flops(const graph *g, const graph_node *n)
{
    (void)g;
    const int passes = n->out[5] && graph_loss_gives_gradient(n) ? 2 : 1;
    const int products = passes + (n->out[0] != NULL) + (n->param[0] >= 0);
    double one = 2.0 * (double)graph_value_rows(n->in[0]) * (double)graph_value_cols(n->in[0]) *
                 (double)n->in[1]->dim[0];
    return products * one;
}

const graph_op_info op_linear_cross_entropy = {.derive = loss_derive,
                                               .run = graph_run_loss,
                                               .flops = loss_flops,
                                               .find_call = loss_call,
                                               .has_weight = true,
                                               .limit = {[1] = LIMIT_CLASSES},
                                               .is_loss = true};
const graph_op_info op_linear_square_error = {.derive = loss_derive,
                                              .run = graph_run_loss,
                                              .flops = loss_flops,
                                              .has_weight = true,
                                              .is_loss = true};
