// op_loss.c -- the last linear layer together with its loss, in chunks of rows, so that neither the
// logits nor their probabilities exist for all positions at once. While training, a chunk's
// gradients (of x, the weight and the bias) are taken as soon as its loss is: nothing has to be
// kept for the backward but dx.
//   x [rows, C]   w [V, C]   labels [rows]   out: dx [rows, C], scratch [chunk, V] and,
//   where the vocabulary is split, [ranks, chunk, 3]
// Losses and gradients are sums over rows; the step divides once by the number of valid rows of all
// ranks and micro-batches.
#include "base/size.h"
#include "graph/op.h"

enum { IGNORED_LABEL = -100 };

static void check_loss(graph *g, graph_op kind, const graph_value *x, const graph_value *w,
                       const graph_value *bias)
{
    bool cut = graph_is_sharded(g, w, 0);
    if (graph_value_cols(x) != graph_value_cols(w) || (bias && bias->dim[0] != w->dim[0]))
        graph_misuse(g, "loss: %lld columns, the weight is [%lld, %lld], the bias has %lld",
                     (long long)graph_value_cols(x), (long long)w->dim[0],
                     (long long)graph_value_cols(w), (long long)(bias ? bias->dim[0] : 0));
    if (x->tp_sharding == TP_SHARD_COLS || graph_is_sharded(g, w, 1))
        graph_misuse(g, "loss: each rank of the cut has columns of its own");
    if (kind == OP_LINEAR_SQUARE_ERROR && cut)
        graph_misuse(g, "loss: squared error over a weight that is split");
    if (g->tp.sequence && !cut)
        graph_not_divisible(g, "parallel.sequence_parallel needs an output layer that is split");
}

static void loss_node(graph *g, graph_op kind, graph_value *x, graph_value *w, graph_value *bias,
                      dtype label_type, double scale)
{
    if (g->mode == GRAPH_DECODE) {
        g->logits = build_linear(g, build_last_row(g, x), w, bias);
        return;
    }
    bool cut = graph_is_sharded(g, w, 0);
    check_loss(g, kind, x, w, bias);
    x = graph_as_compute(g, x);
    if (cut) x = graph_copy_to_tp(g, x);
    graph_note_use(g, w, x);
    if (bias) graph_note_use(g, bias, x);
    int64_t rows = graph_value_rows(x), labels = rows;
    if (kind == OP_LINEAR_SQUARE_ERROR)
        labels = (int64_t)size_mul((uint64_t)rows, (uint64_t)w->dim[0]);
    g->labels = graph_new_value(g, "labels", label_type, 1, (int64_t[]){labels});
    g->labels->place = REGION_LABELS;
    graph_node *n = graph_new_node(g, kind);
    n->in[0] = x, n->in[1] = w, n->in[2] = bias, n->in[3] = g->labels;
    n->attr.u.scale = (float)scale;
    // Output 0 exists only while training.
    n->out[0] = g->mode == GRAPH_TRAIN ? graph_new_like(g, "loss dx", x) : NULL;
    // All ranks take the chunks of the first one, whose part of the vocabulary is the largest.
    int64_t most = graph_loss_chunk_rows(
        g,
        cut ? graph_shard(ROLE_VOCAB, g->param[w->param].dim[0], g->tp.ranks, 0, NULL) : w->dim[0]);
    n->out[1] = graph_new_value(g, "logits", g->type, 2, (int64_t[]){most, w->dim[0]});
    if (cut)
        n->out[2] = graph_new_value(g, "statistics", F32, 3, (int64_t[]){g->tp.ranks, most, 3});
    for (int i = 0; i < 3; i++)
        if (n->out[i]) n->out[i]->producer = n;
}

void build_linear_cross_entropy(graph *g, graph_value *x, graph_value *w, graph_value *bias,
                                double scale)
{
    loss_node(g, OP_LINEAR_CROSS_ENTROPY, x, w, bias, I32, scale);
}

void build_linear_square_error(graph *g, graph_value *x, graph_value *w, graph_value *bias)
{
    loss_node(g, OP_LINEAR_SQUARE_ERROR, x, w, bias, F32, 1);
}

graph_value *build_last_row(graph *g, graph_value *x)
{
    if (g->batch != 1) graph_misuse(g, "last row: decoding takes one sequence at a time");
    graph_value *v =
        graph_new_value(g, "last row", x->type, 2, (int64_t[]){1, graph_value_cols(x)});
    v->producer = x->producer;
    v->root = x;
    v->view = (size_t)((graph_value_rows(x) - 1) * graph_value_cols(x)) * dtype_bytes(x->type);
    return v;
}

static void loss_derive(graph *g, graph_node *n)
{
    grad_give(g, n->in[0], n->out[0]);
}

// One rank counts for all that have the same rows.
static bool counts(const graph_run *x)
{
    return x->g->tp.rank == 0;
}

static void launch_square_error(const graph_run *x, const graph_node *n, int64_t at, int64_t rows,
                                void *logits)
{
    int64_t v = n->in[1]->dim[0], filled = graph_value_rows(n->in[0]) - x->padding_rows - at;
    filled = filled < 0 ? 0 : filled > rows ? rows : filled;
    kernel_call c = {.kind = K_FILL};
    c.u.fill =
        (kernel_fill_args){(char *)logits + filled * v * (int64_t)dtype_bytes(n->out[1]->type),
                           (rows - filled) * v * (int64_t)dtype_bytes(n->out[1]->type)};
    if (filled < rows) device_launch(x->on, &c);
    if (filled == 0) return;
    c = (kernel_call){.kind = K_SQUARE_ERROR};
    c.u.square_error =
        (kernel_square_error_args){.count = filled * v,
                                   .x = logits,
                                   .target = (const float *)graph_run_ptr(x, n->in[3]) + at * v,
                                   .dx = n->out[0] ? logits : NULL,
                                   .loss_sum = counts(x) ? x->loss_sum : NULL,
                                   .total = counts(x) ? x->loss_count : NULL,
                                   .grad_scale = x->grad_scale,
                                   .type = n->out[1]->type};
    device_launch(x->on, &c);
}

// What each rank knows of a row's logits, brought to all of them.
static status share_statistics(const graph_run *x, const graph_node *n, int64_t at, int64_t rows,
                               const void *logits, err *e)
{
    float *all = graph_run_ptr(x, n->out[2]), *own = all + x->g->tp.rank * rows * 3;
    kernel_call c = {.kind = K_CROSS_ENTROPY_STATS};
    c.u.cross_entropy_stats = (kernel_cross_entropy_stats_args){
        .rows = rows,
        .cols = n->in[1]->dim[0],
        .first = graph_first_row(x->g, n->in[1]),
        .logits = logits,
        .labels = (const int32_t *)graph_run_ptr(x, n->in[3]) + at,
        .stats = own,
        .scale = n->attr.u.scale,
        .ignore = IGNORED_LABEL,
        .type = n->out[1]->type};
    device_launch(x->on, &c);
    return comm_all_gather(x->tp, own, all, (size_t)rows * 3, F32, x->on, e);
}

static void launch_cross_entropy(const graph_run *x, const graph_node *n, int64_t at, int64_t rows,
                                 void *logits)
{
    kernel_call c = {.kind = K_CROSS_ENTROPY};
    c.u.cross_entropy =
        (kernel_cross_entropy_args){.rows = rows,
                                    .cols = n->in[1]->dim[0],
                                    .logits = logits,
                                    .labels = (const int32_t *)graph_run_ptr(x, n->in[3]) + at,
                                    .first = graph_first_row(x->g, n->in[1]),
                                    .stats = graph_run_ptr(x, n->out[2]),
                                    .shards = x->g->tp.ranks,
                                    .loss_sum = counts(x) ? x->loss_sum : NULL,
                                    .count = counts(x) ? x->loss_count : NULL,
                                    .scale = n->attr.u.scale,
                                    .grad_scale = x->grad_scale,
                                    .ignore = IGNORED_LABEL,
                                    .gradient = n->out[0] != NULL,
                                    .type = n->out[1]->type};
    device_launch(x->on, &c);
}

// One chunk of rows: where its pieces lie.
typedef struct chunk {
    int64_t at, rows;
    void *x, *logits, *dx; // dx NULL when not training
} chunk;

static void launch_logits(const graph_run *x, const graph_node *n, const chunk *k)
{
    const graph_value *w = n->in[1];
    int64_t c = graph_value_cols(w), v = w->dim[0];
    kernel_call m = {.kind = K_MATMUL};
    m.u.matmul = (kernel_matmul_args){.m = k->rows,
                                      .n = v,
                                      .k = c,
                                      .a = k->x,
                                      .lda = c,
                                      .b = graph_run_ptr(x, w),
                                      .ldb = c,
                                      .trans_b = true,
                                      .c = k->logits,
                                      .ldc = v,
                                      .bias = graph_run_ptr(x, n->in[2]),
                                      .type = w->type,
                                      .c_type = n->out[1]->type};
    device_launch(x->on, &m);
}

static status chunk_forward(const graph_run *x, const graph_node *n, const chunk *k, err *e)
{
    status result = OK;
    launch_logits(x, n, k);
    if (n->out[2]) TRY(share_statistics(x, n, k->at, k->rows, k->logits, e));
    if (n->op == OP_LINEAR_SQUARE_ERROR)
        launch_square_error(x, n, k->at, k->rows, k->logits);
    else
        launch_cross_entropy(x, n, k->at, k->rows, k->logits);
done:
    return result;
}

// What is predicted, instead of how wrong it is.
static status chunk_give(const graph_run *x, const graph_node *n, const chunk *k, err *e)
{
    const bool vectors = x->outputs->vectors;
    const graph_value *w = n->in[1], *of = vectors ? n->in[0] : n->out[1];
    graph_output_rows r = {.first = k->at,
                           .rows = k->rows,
                           .cols = graph_value_cols(of),
                           .type = of->type,
                           .at = vectors ? k->x : k->logits,
                           .scale = 1};
    if (!vectors) {
        launch_logits(x, n, k);
        r.first_col = graph_is_sharded(x->g, w, 0) ? graph_first_row(x->g, w) : 0;
        r.scale = n->op == OP_LINEAR_CROSS_ENTROPY ? n->attr.u.scale : 1;
    }
    return x->outputs->take(x->outputs->arg, &r, e);
}

// The logits are their own gradient by now.
static void chunk_backward(const graph_run *x, const graph_node *n, const chunk *k)
{
    const graph_value *w = n->in[1], *bias = n->in[2];
    int64_t c = graph_value_cols(w), v = w->dim[0];
    kernel_call m = {.kind = K_MATMUL};
    m.u.matmul = (kernel_matmul_args){.m = k->rows,
                                      .n = c,
                                      .k = v,
                                      .a = k->logits,
                                      .lda = v,
                                      .b = graph_run_ptr(x, w),
                                      .ldb = c,
                                      .c = k->dx,
                                      .ldc = c,
                                      .type = w->type,
                                      .c_type = n->out[0]->type};
    device_launch(x->on, &m);
    m.u.matmul = (kernel_matmul_args){.m = v,
                                      .n = c,
                                      .k = k->rows,
                                      .a = k->logits,
                                      .lda = v,
                                      .trans_a = true,
                                      .b = k->x,
                                      .ldb = c,
                                      .ldc = c,
                                      .type = w->type,
                                      .c_type = F32};
    m.u.matmul.c = graph_run_grad(x, w->param, &m.u.matmul.accumulate);
    device_launch(x->on, &m);
    if (!bias) return;
    kernel_call b = {.kind = K_BIAS_GRAD};
    b.u.bias_grad = (kernel_bias_grad_args){
        .rows = k->rows, .cols = v, .dy = k->logits, .type = n->out[1]->type};
    b.u.bias_grad.db = graph_run_grad(x, bias->param, &b.u.bias_grad.accumulate);
    device_launch(x->on, &b);
}

static status loss_run(const graph_run *x, const graph_node *n, err *e)
{
    status result = OK;
    int64_t total = graph_value_rows(n->in[0]), most = n->out[1]->dim[0];
    size_t row = (size_t)graph_value_cols(n->in[0]) * dtype_bytes(n->in[0]->type);
    for (int64_t at = 0; at < total; at += most) {
        chunk k = {.at = at, .rows = total - at < most ? total - at : most};
        k.x = (char *)graph_run_ptr(x, n->in[0]) + (size_t)at * row;
        k.logits = graph_run_ptr(x, n->out[1]);
        if (n->out[0]) k.dx = (char *)graph_run_ptr(x, n->out[0]) + (size_t)at * row;
        if (x->outputs)
            TRY(chunk_give(x, n, &k, e));
        else
            TRY(chunk_forward(x, n, &k, e));
        if (n->out[0]) chunk_backward(x, n, &k);
    }
done:
    return result;
}

bool graph_loss_shape(const graph *g, graph_loss_dims *out)
{
    const graph_node *n = g->forward.count ? g->forward.node[g->forward.count - 1] : NULL;
    if (!n || !graph_op_find(n->op)->is_loss) return false;
    *out = (graph_loss_dims){.outputs = g->param[n->in[1]->param].dim[0],
                             .inputs = graph_value_cols(n->in[0]),
                             .classes = n->op == OP_LINEAR_CROSS_ENTROPY,
                             .outputs_split = graph_is_sharded(g, n->in[1], 0)};
    return true;
}

static double loss_flops(const graph *g, const graph_node *n)
{
    double one = 2.0 * (double)graph_value_rows(n->in[0]) * (double)graph_value_cols(n->in[0]) *
                 (double)n->in[1]->dim[0];
    return g->mode == GRAPH_TRAIN ? 3 * one : one;
}

const graph_op_info op_linear_cross_entropy = {.name = "linear_cross_entropy",
                                               .derive = loss_derive,
                                               .run = loss_run,
                                               .flops = loss_flops,
                                               .must_alias = -1,
                                               .is_loss = true};
const graph_op_info op_linear_square_error = {.name = "linear_square_error",
                                              .derive = loss_derive,
                                              .run = loss_run,
                                              .flops = loss_flops,
                                              .must_alias = -1,
                                              .is_loss = true};
