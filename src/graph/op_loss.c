// op_loss.c -- the last linear layer fused with its loss. The op works through the rows in chunks, so
// that the logits never exist for all rows at once. In training it computes a chunk's gradients right
// after the chunk's loss, while the logits are still there; only dx is saved for the backward. It
// computes those gradients that are wanted: dx where x requires one, those of the weight and the bias
// where they train.
//
//   x          [rows, cols]
//   w          [outputs, cols]
//   bias       [outputs] or none
//   labels     [rows] I32, or under squared error [rows, outputs] F32
//   dx         [rows, cols]          in training, where x requires a gradient
//   logits     [chunk, stride]       scratch; the kernels turn logits into their gradient in place. The
//                                    outputs are its first columns; the device chooses the stride
//   statistics [ranks, chunk, 3] F32 scratch, where the vocabulary is sharded
//
//   in x, w, bias, labels   out dx, logits, statistics
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
    int64_t rows = graph_value_rows(x), labels = rows;
    if (squared) labels = (int64_t)size_mul((uint64_t)rows, (uint64_t)w->dim[0]);
    g->labels = graph_new_value(g, "labels", squared ? F32 : I32, 1, (int64_t[]){labels});
    g->labels->region = REGION_LABELS;
    g->labels->sharding.rows = x->sharding.rows;
    graph_node *n = graph_new_node(g, kind);
    n->in[0] = x, n->in[1] = w, n->in[2] = bias, n->in[3] = g->labels;
    n->attr.u.loss.logits = logits, n->attr.u.loss.squared = squared;
    // dx exists in training only.
    n->out[0] = g->mode == GRAPH_TRAIN ? graph_new_like(g, "loss dx", x) : NULL;
    // All ranks take the chunks of rank 0, whose shard of the vocabulary is the largest.
    const graph_param *p = &g->param[w->param];
    int64_t most = graph_loss_chunk_rows(
        g, graph_shard(p->roles[0], p->dim[0], &g->position.mesh, (const int[AXES]){0}, NULL));
    n->out[1] =
        graph_new_value(g, "logits", g->type, 2, (int64_t[]){most, logits_stride(g, squared, w)});
    if (over)
        n->out[2] =
            graph_new_value(g, "statistics", F32, 3, (int64_t[]){graph_ranks(g, over), most, 3});
    for (int i = 0; i < 3; i++)
        if (n->out[i]) n->out[i]->producer = n;
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

static void loss_derive(graph *g, graph_node *n)
{
    n->param[0] = graph_trained_param(g, n->in[1]);
    n->param[1] = graph_trained_param(g, n->in[2]);
    if (graph_requires_grad(n->in[0]))
        graph_accumulate_grad(g, n->in[0], n->out[0]);
    else
        n->out[0] = NULL;
}

// Does the loss compute any gradient?
static bool gives_gradient(const graph_node *n)
{
    return n->out[0] || n->param[0] >= 0 || n->param[1] >= 0;
}

// Of ranks that have the same rows, as tensor-parallel ones do, rank 0 adds their loss to the sums. Others, such
// as context-parallel ones, have different rows, and each adds its own.
static bool adds_loss(const graph_run *run)
{
    return graph_rank(run->g, AXES_GRAPH & ~run->g->labels->sharding.rows) == 0;
}

// Rows first … first+rows-1, and the addresses of what belongs to them.
typedef struct graph_loss_chunk {
    int64_t first, rows;
    void *x;      // [rows, cols]
    void *logits; // [rows, stride]
    void *dx;     // [rows, cols]; NULL: not wanted
} graph_loss_chunk;

static void launch_square_error(const graph_run *run, const graph_node *n,
                                const graph_loss_chunk *chunk)
{
    const int64_t outputs = n->in[1]->dim[0];
    kernel_call c = {.kind = K_SQUARE_ERROR};
    c.u.square_error = (kernel_square_error_args){
        .rows = chunk->rows,
        .cols = outputs,
        .first = chunk->first,
        .filled = run->filled_rows,
        .x = chunk->logits,
        .target = (const float *)graph_run_ptr(run, n->in[3]) + chunk->first * outputs,
        .dx = gives_gradient(n) ? chunk->logits : NULL,
        .loss_sum = adds_loss(run) ? run->loss_sum : NULL,
        .total = adds_loss(run) ? run->loss_count : NULL,
        .step = run->step,
        .type = n->out[1]->type};
    graph_launch(run, n, &c);
}

// All-gathers the statistics of each rank's shard of a row's logits.
static status gather_statistics(const graph_run *run, const graph_node *n,
                                const graph_loss_chunk *chunk, err *e)
{
    const mesh_axes over = graph_sharded_over(run->g, n->in[1], 0);
    // [ranks, chunk->rows, 3]; this rank writes its own entry
    float *all = graph_run_ptr(run, n->out[2]),
          *local = all + graph_rank(run->g, over) * chunk->rows * 3;
    kernel_call c = {.kind = K_CROSS_ENTROPY_STATS};
    c.u.cross_entropy_stats = (kernel_cross_entropy_stats_args){
        .rows = chunk->rows,
        .cols = n->in[1]->dim[0],
        .first = graph_first_row(run->g, n->in[1]),
        .logits = chunk->logits,
        .stride = graph_value_cols(n->out[1]),
        .labels = (const int32_t *)graph_run_ptr(run, n->in[3]) + chunk->first,
        .stats = local,
        .scale = n->attr.u.loss.logits.scale,
        .softcap = n->attr.u.loss.logits.softcap,
        .ignore = IGNORED_LABEL,
        .type = n->out[1]->type};
    graph_launch(run, n, &c);
    if (graph_is_visited(run)) return OK;
    return comm_all_gather(run->comm[mesh_first_axis(over)], local, all, (size_t)chunk->rows * 3,
                           F32, run->stream, e);
}

static void launch_cross_entropy(const graph_run *run, const graph_node *n,
                                 const graph_loss_chunk *chunk)
{
    kernel_call c = {.kind = K_CROSS_ENTROPY};
    c.u.cross_entropy = (kernel_cross_entropy_args){
        .rows = chunk->rows,
        .cols = n->in[1]->dim[0],
        .logits = chunk->logits,
        .stride = graph_value_cols(n->out[1]),
        .labels = (const int32_t *)graph_run_ptr(run, n->in[3]) + chunk->first,
        .first = graph_first_row(run->g, n->in[1]),
        .stats = graph_run_ptr(run, n->out[2]),
        .shards = graph_ranks(run->g, graph_sharded_over(run->g, n->in[1], 0)),
        .loss_sum = adds_loss(run) ? run->loss_sum : NULL,
        .count = adds_loss(run) ? run->loss_count : NULL,
        .scale = n->attr.u.loss.logits.scale,
        .softcap = n->attr.u.loss.logits.softcap,
        .step = run->step,
        .ignore = IGNORED_LABEL,
        .gradient = gives_gradient(n),
        .type = n->out[1]->type};
    graph_launch(run, n, &c);
}

static void launch_logits(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk)
{
    const graph_value *w = n->in[1];
    int64_t cols = graph_value_cols(w), outputs = w->dim[0];
    kernel_call m = {.kind = K_MATMUL};
    m.u.matmul = (kernel_matmul_args){.m = chunk->rows,
                                      .n = outputs,
                                      .k = cols,
                                      .a = chunk->x,
                                      .lda = cols,
                                      .b = graph_run_ptr(run, w),
                                      .ldb = cols,
                                      .trans_b = true,
                                      .c = chunk->logits,
                                      .ldc = graph_value_cols(n->out[1]),
                                      .bias = graph_run_ptr(run, n->in[2]),
                                      .type = w->type,
                                      .c_type = n->out[1]->type};
    graph_launch(run, n, &m);
}

static status chunk_forward(const graph_run *run, const graph_node *n,
                            const graph_loss_chunk *chunk, err *e)
{
    status result = OK;
    launch_logits(run, n, chunk);
    if (n->out[2]) TRY(gather_statistics(run, n, chunk, e));
    if (n->attr.u.loss.squared)
        launch_square_error(run, n, chunk);
    else
        launch_cross_entropy(run, n, chunk);
done:
    return result;
}

// Hands the chunk's outputs to the caller instead of computing a loss.
static status chunk_predict(const graph_run *run, const graph_node *n,
                            const graph_loss_chunk *chunk, err *e)
{
    const bool vectors = run->outputs->vectors;
    const graph_value *w = n->in[1], *v = vectors ? n->in[0] : n->out[1];
    graph_output_rows r = {.first = chunk->first,
                           .rows = chunk->rows,
                           .cols = vectors ? graph_value_cols(v) : w->dim[0],
                           .stride = graph_value_cols(v),
                           .type = v->type,
                           .values = vectors ? chunk->x : chunk->logits,
                           .logits = {1, 0}};
    if (!vectors) {
        launch_logits(run, n, chunk);
        r.first_col = graph_first_row(run->g, w);
        r.logits = n->attr.u.loss.logits;
    }
    return run->outputs->take(run->outputs->arg, &r, e);
}

static void launch_dx(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk)
{
    const graph_value *w = n->in[1];
    int64_t cols = graph_value_cols(w), outputs = w->dim[0];
    kernel_call m = {.kind = K_MATMUL};
    m.u.matmul = (kernel_matmul_args){.m = chunk->rows,
                                      .n = cols,
                                      .k = outputs,
                                      .a = chunk->logits,
                                      .lda = graph_value_cols(n->out[1]),
                                      .b = graph_run_ptr(run, w),
                                      .ldb = cols,
                                      .c = chunk->dx,
                                      .ldc = cols,
                                      .type = w->type,
                                      .c_type = n->out[0]->type};
    graph_launch(run, n, &m);
}

static void launch_weight_grad(const graph_run *run, const graph_node *n,
                               const graph_loss_chunk *chunk)
{
    const graph_value *w = n->in[1];
    int64_t cols = graph_value_cols(w), outputs = w->dim[0];
    kernel_call m = {.kind = K_MATMUL};
    m.u.matmul = (kernel_matmul_args){.m = outputs,
                                      .n = cols,
                                      .k = chunk->rows,
                                      .a = chunk->logits,
                                      .lda = graph_value_cols(n->out[1]),
                                      .trans_a = true,
                                      .b = chunk->x,
                                      .ldb = cols,
                                      .ldc = cols,
                                      .type = w->type,
                                      .c_type = F32};
    m.u.matmul.c = graph_run_grad(run, n->param[0], &m.u.matmul.accumulate);
    graph_launch(run, n, &m);
}

static void launch_bias_grad(const graph_run *run, const graph_node *n,
                             const graph_loss_chunk *chunk)
{
    kernel_call b = {.kind = K_BIAS_GRAD};
    b.u.bias_grad = (kernel_bias_grad_args){.rows = chunk->rows,
                                            .cols = n->in[1]->dim[0],
                                            .dy = chunk->logits,
                                            .stride = graph_value_cols(n->out[1]),
                                            .type = n->out[1]->type};
    b.u.bias_grad.db = graph_run_grad(run, n->param[1], &b.u.bias_grad.accumulate);
    graph_launch(run, n, &b);
}

// The loss kernel has replaced the logits by their gradient.
static void chunk_backward(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk)
{
    if (n->out[0]) launch_dx(run, n, chunk);
    if (n->param[0] >= 0) launch_weight_grad(run, n, chunk);
    if (n->param[1] >= 0) launch_bias_grad(run, n, chunk);
}

static status loss_run(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    int64_t total = graph_value_rows(n->in[0]), most = n->out[1]->dim[0];
    size_t row = (size_t)graph_value_cols(n->in[0]) * dtype_bytes(n->in[0]->type);
    for (int64_t first = 0; first < total; first += most) {
        graph_loss_chunk chunk = {.first = first,
                                  .rows = total - first < most ? total - first : most};
        chunk.x = (char *)graph_run_ptr(run, n->in[0]) + (size_t)first * row;
        chunk.logits = graph_run_ptr(run, n->out[1]);
        if (n->out[0]) chunk.dx = (char *)graph_run_ptr(run, n->out[0]) + (size_t)first * row;
        if (run->outputs)
            TRY(chunk_predict(run, n, &chunk, e));
        else
            TRY(chunk_forward(run, n, &chunk, e));
        chunk_backward(run, n, &chunk);
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
                             .classes = !n->attr.u.loss.squared,
                             .outputs_sharded = graph_sharded_over(g, n->in[1], 0) != 0};
    return true;
}

// The ranks of a sharded vocabulary all-gather three statistics of every row.
static bool statistics_call(const graph *g, const graph_node *n, graph_call *out)
{
    const mesh_axes over = graph_sharded_over(g, n->in[1], 0);
    if (!over) return false;
    *out = (graph_call){.over = mesh_first_axis(over),
                        .kind = CALL_ALL_GATHER,
                        .type = F32,
                        .count = 3 * graph_value_rows(n->in[0]) * graph_ranks(g, over)};
    return true;
}

static double loss_flops(const graph *g, const graph_node *n)
{
    (void)g;
    const int products = 1 + (n->out[0] != NULL) + (n->param[0] >= 0);
    double one = 2.0 * (double)graph_value_rows(n->in[0]) * (double)graph_value_cols(n->in[0]) *
                 (double)n->in[1]->dim[0];
    return products * one;
}

const graph_op_info op_linear_cross_entropy = {.derive = loss_derive,
                                               .run = loss_run,
                                               .flops = loss_flops,
                                               .find_call = statistics_call,
                                               .has_weight = true,
                                               .limit = {[1] = LIMIT_CLASSES},
                                               .is_loss = true};
const graph_op_info op_linear_square_error = {.derive = loss_derive,
                                              .run = loss_run,
                                              .flops = loss_flops,
                                              .has_weight = true,
                                              .is_loss = true};
