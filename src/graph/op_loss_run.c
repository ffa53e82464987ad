// op_loss_run.c -- runs the last linear layer and its loss, chunk by chunk of rows. See op_loss.c, which calls it through
// the table of ops.
//
// Where rows without a label are left out, a chunk's rows of x are copied to the scratch `packed`, and its gradients come
// back from there. Both copies are embeddings, whose ids are the places of rows; a row without a label has the id of no
// row, so its gradient is zero. Where all rows have a label, nothing is copied.
//
// The gradient of a preference loss needs the log-probabilities of whole documents. So its chunks run twice: for the
// losses of their rows, of which the sums of the documents and then a weight of each row are made, and for the gradient.
// One chunk keeps its logits.
#include "base/size.h"
#include "graph/op.h"

#include <math.h>

// Rows first … first+rows-1 of those that the run computes, and the addresses of what belongs to them.
typedef struct graph_loss_chunk {
    int64_t first, rows;
    void *x;      // [rows, cols]
    void *logits; // [rows, stride]
    void *dx;     // [rows, cols]; NULL: not wanted
} graph_loss_chunk;

// What a chunk's loss kernel does.
typedef enum loss_pass {
    PASS_BOTH,     // adds the losses, and gives the gradient where the op has one
    PASS_LOSSES,   // gives the losses of rows
    PASS_GRADIENT, // gives the gradient of weighted rows
} loss_pass;

// Of ranks that have the same rows, as tensor-parallel ones do, rank 0 adds their loss to the sums. Others, such
// as context-parallel ones, have different rows, and each adds its own.
static bool adds_loss(const graph_run *run)
{
    return graph_rank(run->g, AXES_GRAPH & ~run->g->labels->sharding.rows) == 0;
}

// The array of the labels that begins at an element; element 0: there is none.
static void *labels_array(const graph_run *run, const graph_node *n, int64_t element)
{
    if (element == 0) return NULL;
    if (graph_is_visited(run)) return graph_run_ptr(run, n->in[3]);
    return (int32_t *)graph_run_ptr(run, n->in[3]) + element;
}

// ---- Rows without a label

// A call that was only visited has packed rows where its graph can.
static bool is_packed(const graph_run *run)
{
    if (!run->g->loss.packs || (run->outputs && !run->outputs->documents)) return false;
    return graph_is_visited(run) || run->labelled.index != NULL;
}

static void launch_copy(const graph_run *run, const graph_node *n,
                        const kernel_embedding_args *copy)
{
    kernel_call c = {.kind = K_EMBEDDING};
    c.u.embedding = *copy;
    c.u.embedding.cols = graph_value_cols(n->in[0]);
    c.u.embedding.row_tokens = kernel_tokens_from(copy->rows > 0 ? copy->rows : 1, 0);
    c.u.embedding.scale = 1;
    c.u.embedding.type = n->in[0]->type;
    graph_launch(run, n, &c);
}

static void pack_rows(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk)
{
    const int32_t *index = labels_array(run, n, graph_loss_arrays_of(run->g).index);
    launch_copy(
        run, n,
        &(kernel_embedding_args){.rows = chunk->rows,
                                 .ids = graph_is_visited(run) ? index : index + chunk->first,
                                 .tokens = graph_run_ptr(run, n->in[0]),
                                 .y = chunk->x});
}

// The rows of dx that the chunk gives: those from its first row on, to that of the next chunk.
static void unpack_rows(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk,
                        int64_t count)
{
    const int32_t *index = run->labelled.index;
    const int32_t *inverse = labels_array(run, n, graph_loss_arrays_of(run->g).inverse);
    const int64_t next = chunk->first + chunk->rows;
    int64_t first = 0, end = graph_value_rows(n->in[0]);
    if (index && chunk->first > 0) first = index[chunk->first];
    if (index && next < count) end = index[next];
    if (graph_is_visited(run)) end = chunk->rows;
    const size_t row = (size_t)graph_value_cols(n->in[0]) * dtype_bytes(n->in[0]->type);
    char *dx = graph_run_ptr(run, n->out[0]);
    launch_copy(run, n,
                &(kernel_embedding_args){.rows = end - first,
                                         .first = chunk->first,
                                         .vocab = chunk->rows,
                                         .ids = inverse + first,
                                         .tokens = chunk->dx,
                                         .y = dx + (size_t)first * row});
}

// ---- The kernels of a chunk

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
        .dx = graph_loss_gives_gradient(n) ? chunk->logits : NULL,
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
                                 const graph_loss_chunk *chunk, loss_pass pass)
{
    const float *weights = labels_array(run, n, graph_loss_arrays_of(run->g).weights);
    double *losses = graph_run_ptr(run, n->out[5]);
    const bool adds = pass == PASS_BOTH && adds_loss(run);
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
        .weights = weights && pass != PASS_LOSSES ? weights + chunk->first : NULL,
        .losses = pass == PASS_LOSSES ? losses + chunk->first : NULL,
        .loss_sum = adds ? run->loss_sum : NULL,
        .count = adds ? run->loss_count : NULL,
        .scale = n->attr.u.loss.logits.scale,
        .softcap = n->attr.u.loss.logits.softcap,
        .step = run->step,
        .ignore = IGNORED_LABEL,
        .gradient = pass != PASS_LOSSES && graph_loss_gives_gradient(n),
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

static status chunk_logits(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk,
                           err *e)
{
    if (is_packed(run)) pack_rows(run, n, chunk);
    launch_logits(run, n, chunk);
    return n->out[2] ? gather_statistics(run, n, chunk, e) : OK;
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

// The loss kernel has replaced the logits by their gradient. `count` rows are computed.
static void chunk_backward(const graph_run *run, const graph_node *n, const graph_loss_chunk *chunk,
                           int64_t count)
{
    if (n->out[0]) launch_dx(run, n, chunk);
    if (n->out[0] && is_packed(run)) unpack_rows(run, n, chunk, count);
    if (n->param[0] >= 0) launch_weight_grad(run, n, chunk);
    if (n->param[1] >= 0) launch_bias_grad(run, n, chunk);
}

// ---- All chunks

// The rows that the run computes.
static int64_t run_rows(const graph_run *run, const graph_node *n)
{
    const int64_t rows = graph_value_rows(n->in[0]);
    if (!is_packed(run)) return rows;
    if (!graph_is_visited(run)) return run->labelled.count;
    const double share = run->visitor->typical ? run->g->loss.labelled : 0;
    if (share <= 0) return rows;
    return size_min(graph_loss_run_rows(run->g, (int64_t)ceil(share * (double)rows)), rows);
}

static graph_loss_chunk chunk_at(const graph_run *run, const graph_node *n, int64_t first,
                                 int64_t count)
{
    const int64_t most = n->out[1]->dim[0];
    const size_t row = (size_t)graph_value_cols(n->in[0]) * dtype_bytes(n->in[0]->type);
    const bool packed = is_packed(run);
    char *x = graph_run_ptr(run, n->in[0]), *dx = graph_run_ptr(run, n->out[0]);
    return (graph_loss_chunk){.first = first,
                              .rows = count - first < most ? count - first : most,
                              .x = packed ? graph_run_ptr(run, n->out[3]) : x + (size_t)first * row,
                              .logits = graph_run_ptr(run, n->out[1]),
                              .dx = !dx      ? NULL
                                    : packed ? graph_run_ptr(run, n->out[4])
                                             : dx + (size_t)first * row};
}

// Adds up the losses of rows by document, over the ranks that share them.
static status sum_documents(const graph_run *run, const graph_node *n, err *e)
{
    const graph_loss_arrays a = graph_loss_arrays_of(run->g);
    double *sums = graph_run_ptr(run, n->out[6]);
    kernel_call c = {.kind = K_DOCUMENT_SUMS};
    c.u.document_sums = (kernel_document_sums_args){.documents = a.documents,
                                                    .first = labels_array(run, n, a.first),
                                                    .losses = graph_run_ptr(run, n->out[5]),
                                                    .sums = sums};
    graph_launch(run, n, &c);
    if (graph_is_visited(run) || graph_ranks(run->g, MESH_AXIS(AXIS_CP)) == 1) return OK;
    return comm_all_reduce(run->comm[AXIS_CP], sums, (size_t)(2 * a.documents), F64, REDUCE_SUM,
                           run->stream, e);
}

// Every rank of a block has the sums of all documents now, so rank 0 adds the losses.
static void launch_preference(const graph_run *run, const graph_node *n)
{
    const graph_loss_arrays a = graph_loss_arrays_of(run->g);
    const bool adds = graph_rank(run->g, AXES_GRAPH) == 0;
    kernel_call c = {.kind = K_PREFERENCE};
    c.u.preference = (kernel_preference_args){
        .documents = a.documents,
        .form = run->g->loss.preference,
        .shared = run->preference_shared,
        .first = labels_array(run, n, a.first),
        .sums = graph_run_ptr(run, n->out[6]),
        .reference = labels_array(run, n, a.reference),
        .weights = graph_loss_gives_gradient(n) ? labels_array(run, n, a.weights) : NULL,
        .loss_sum = adds ? run->loss_sum : NULL,
        .count = adds ? run->loss_count : NULL,
        .metrics = adds ? run->preference_sums : NULL};
    graph_launch(run, n, &c);
}

// Hands the sums of documents to the caller.
static status take_documents(const graph_run *run, const graph_node *n, err *e)
{
    const graph_output_rows r = {.rows = n->out[6]->dim[0],
                                 .cols = 2,
                                 .stride = 2,
                                 .type = F64,
                                 .values = graph_run_ptr(run, n->out[6])};
    return run->outputs->take(run->outputs->arg, &r, e);
}

static status run_preference(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    const int64_t count = run_rows(run, n), most = n->out[1]->dim[0];
    graph_loss_chunk chunk;
    for (int64_t first = 0; first < count; first += most) {
        chunk = chunk_at(run, n, first, count);
        TRY(chunk_logits(run, n, &chunk, e));
        launch_cross_entropy(run, n, &chunk, PASS_LOSSES);
    }
    TRY(sum_documents(run, n, e));
    if (run->outputs) return take_documents(run, n, e);
    launch_preference(run, n);
    for (int64_t first = 0; graph_loss_gives_gradient(n) && first < count; first += most) {
        chunk = chunk_at(run, n, first, count);
        if (count > most) TRY(chunk_logits(run, n, &chunk, e));
        launch_cross_entropy(run, n, &chunk, PASS_GRADIENT);
        chunk_backward(run, n, &chunk, count);
    }
done:
    return result;
}

status graph_run_loss(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    const bool predicts = run->outputs && !run->outputs->documents;
    const int64_t count = run_rows(run, n), most = n->out[1]->dim[0];
    if (n->out[5] && !predicts) return run_preference(run, n, e);
    for (int64_t first = 0; first < count; first += most) {
        const graph_loss_chunk chunk = chunk_at(run, n, first, count);
        if (predicts) {
            TRY(chunk_predict(run, n, &chunk, e));
            continue;
        }
        TRY(chunk_logits(run, n, &chunk, e));
        if (n->attr.u.loss.squared)
            launch_square_error(run, n, &chunk);
        else
            launch_cross_entropy(run, n, &chunk, PASS_BOTH);
        chunk_backward(run, n, &chunk, count);
    }
done:
    return result;
}
