// execute.h -- runs a finished graph's lists on a stream: each node fills a kernel_call with the
// addresses of its values and launches it. Called by train/ for one block and one micro-batch at a
// time. A run allocates nothing, and the host waits for nothing.
#ifndef TRIREME_GRAPH_RUN_H
#define TRIREME_GRAPH_RUN_H

#include "comm/comm.h"
#include "device/device.h"
#include "device/kernel_step.h"
#include "graph/graph.h"

// A chunk of rows of the model's outputs, in device memory.
typedef struct graph_output_rows {
    int64_t first, rows; // rows first … first+rows-1 of the micro-batch
    // Columns first_col … first_col+cols-1 of the full outputs. Where the vocabulary is sharded, a
    // rank has its shard of them.
    int64_t first_col, cols;
    int64_t stride; // elements from one row of `values` to the next
    dtype type;
    const void
        *values; // [rows, stride], of which the first cols columns; valid until `take` returns
    graph_logits logits; // the outputs are the logits of the values
} graph_output_rows;

// Asks a GRAPH_EVAL graph for the model's outputs instead of its loss.
typedef struct graph_run_outputs {
    // False: the logits, or under squared error the predictions. True: what the last linear layer
    // reads.
    bool vectors;
    // Instead of both: the sums of a preference loss's documents, [documents, 2] F64 on the device, in one call: the
    // log-probability of each document's labels, and their number. Context-parallel ranks have the same ones.
    bool documents;
    // Called once for each chunk of rows, after its kernels have been launched on the stream. It may
    // wait for them. An error ends the run.
    status (*take)(void *arg, const graph_output_rows *r, err *e);
    void *arg;
} graph_run_outputs;

// Receives each kernel call of a graph instead of a stream. Addresses in it are not real: a pointer is
// NULL, or not.
typedef struct graph_visitor {
    void (*take)(void *arg, const kernel_call *c);
    void *arg;
    bool
        typical; // of rows without a label as many as the data have (graph_loss_options.labelled); false: none
} graph_visitor;

// The rows of a cross-entropy that have a label, and which the run computes (graph_loss_run_rows).
typedef struct graph_labelled_rows {
    const int32_t
        *index; // [count] on the host: graph_loss_arrays.index; NULL: all rows, in their order
    int64_t count;
} graph_labelled_rows;

// What differs from one run of a block to the next. All memory is borrowed until the stream has
// passed the run. It is device memory, but for the tables of pointers, which are the host's.
typedef struct graph_run {
    const graph *g;
    const graph_visitor
        *visitor; // gets the kernel calls, which are then not launched; NULL: no one
    device_stream *stream;
    comm *comm[AXES]; // the process group of each axis that a graph is sharded over; NULL: one rank
    char *base[REGIONS];       // the start of each region; CACHE: of the cache's first row
    void *const *weight;       // [params] compute weights
    float *const *gradient;    // [params] F32 gradient accumulators
    bool *const *grad_written; // [params] has this step written the gradient? Set by the run
    // [rows of this rank] the position at which the row's document begins; where the graph has documents
    const int32_t *documents;
    // [rope.rows, rope.pairs, 2] cosines and sines of the graph's table; behind it, that of queries which grow
    const float *rope;
    double *loss_sum, *loss_count;
    double *preference_sums;         // [PREFERENCE_SUMS] of a preference loss
    const double *preference_shared; // device scalar: kernel_preference_args.shared
    graph_labelled_rows labelled;
    const int64_t
        *filled_rows;        // device scalar: the rows that hold a sample, from row 0 on; squared
                             // error skips the others; NULL: all rows
    const kernel_step *step; // keys dropout and scales the loss' gradient; NULL: as
                             // kernel_step_read says
    uint64_t seed;           // keys dropout
    int block;               // position in the model; keys dropout
    uint64_t row0;           // number of the first row of the full sequences among the rows of
                             // this rank's step; keys dropout
    const graph_run_outputs *outputs; // NULL: the loss is computed
    int64_t pos0;                     // GRAPH_DECODE: tokens that have run already
    int64_t cache_first;              // GRAPH_DECODE: the token in the cache's first row
} graph_run;

// Collective over run->comm: every rank calls the same functions in the same order. An error that the
// communicator finds at once is returned here; an error on the stream is returned by its sync.
status graph_run_forward(const graph_run *run, err *e);
status graph_run_backward(const graph_run *run, err *e);

// graph_run_backward in two calls, for a graph with splits_backward: dgrad computes the gradient of
// the input, wgrad those of the parameters. Together they give the bits of graph_run_backward,
// whatever runs between them. Until wgrad has run, the block's regions INPUT, IDS, SAVED and
// SAVED_FOR_WGRAD must stay as they are, and OUTPUT_GRAD where g->split.saves_output_grad.
// WORKSPACE may change. Collective over run->comm.
status graph_run_dgrad(const graph_run *run, err *e);
status graph_run_wgrad(const graph_run *run, err *e);

// The tokens by which the rows of a cache move are multiples of this: the keys that kernels do at a time. So they do
// the same keys at a time as if no row had moved.
enum { GRAPH_CACHE_STEP = 256 };

// Moves rows of the cache where the g->sequences.tokens.seq tokens of the run have no room behind those that it holds,
// and sets run->cache_first.
void graph_make_cache_room(graph_run *run);

// Hands the kernel calls of both lists, or of node n, to the visitor: those of a run of the largest size.
void graph_visit(const graph *g, const graph_visitor *v);
void graph_visit_node(const graph *g, const graph_node *n, const graph_visitor *v);
// Makes ready what the calls of the graph need on device d (device_ops.prepare), before the first run.
status graph_prepare(const graph *g, device *d, err *e);

// Makes logits of outputs x [count] of the last linear layer, in place.
void graph_finish_logits(const graph_logits *l, float *x, int64_t count);

// Bytes of the table of rotary positions that graph_run.rope points to; 0: the graph has none.
size_t graph_rope_bytes(const graph *g);
// Computes the table and copies it into `table`, device memory of graph_rope_bytes; waits for the
// stream. Angles are F32, as PyTorch computes them.
status graph_upload_rope(const graph *g, device_stream *stream, float *table, err *e);

// ---- For the files of the ops

// Launches a kernel of node n, with the node's workspace.
void graph_launch(const graph_run *run, const graph_node *n, kernel_call *c);
// Does a visitor take the calls? Then the op moves nothing to other ranks.
static inline bool graph_is_visited(const graph_run *run)
{
    return run->visitor != NULL;
}
// GRAPH_DECODE: the rows of earlier tokens in the cache.
static inline int64_t graph_run_cached(const graph_run *run)
{
    return run->pos0 - run->cache_first;
}
// The address of v in this run; NULL for NULL.
void *graph_run_ptr(const graph_run *run, const graph_value *v);
// Copies `from` to `to`, of equal size, unless they share their memory.
void graph_run_copy(const graph_run *run, const graph_value *to, const graph_value *from);
// The gradient of parameter p, which the caller writes now. *accumulate: the caller must add to it,
// because this step has written it before.
float *graph_run_grad(const graph_run *run, int p, bool *accumulate);
// The tokens that the rows of v are, and their documents.
kernel_tokens graph_run_tokens(const graph_run *run, const graph_value *v);
// The random numbers of node n.
kernel_draw graph_run_draw(const graph_run *run, const graph_node *n);

#endif
