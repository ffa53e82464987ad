// execute.h -- executes a finished graph's lists on a stream: each node fills a kernel_call from the
// places of its values and launches it. Nothing is allocated and nothing waits.
#ifndef TRIREME_GRAPH_RUN_H
#define TRIREME_GRAPH_RUN_H

#include "comm/comm.h"
#include "device/device.h"
#include "graph/graph.h"

// Rows of what a model computes, in device memory.
typedef struct graph_output_rows {
    int64_t first, rows;     // of the micro-batch
    int64_t first_col, cols; // of all columns: a rank of a cut vocabulary has its part
    dtype type;
    const void *at; // [rows, cols]; valid until `take` returns
    float scale;    // to be multiplied with
} graph_output_rows;

// Who wants the model's outputs instead of its loss (GRAPH_EVAL): the logits (under squared error
// the predictions), or with `vectors` what the last linear layer reads. `take` is called once for
// each chunk of rows, when it has been issued to the stream; it may wait for it.
typedef struct graph_run_outputs {
    bool vectors;
    status (*take)(void *arg, const graph_output_rows *r, err *e);
    void *arg;
} graph_run_outputs;

// Everything that differs from one run of a block to the next. All pointers are device memory,
// borrowed until the stream has passed the run.
typedef struct graph_run {
    const graph *g;
    device_stream *on;
    comm *tp;               // the ranks that the graph is cut over; NULL when it is not
    char *base[REGIONS];    // INPUT … LABELS; REGION_CACHE: the cache's first row
    void *const *weight;    // per parameter of the graph: compute weights
    float *const *gradient; // per parameter: fp32 accumulator
    bool *const
        *grad_written; // per parameter: has this step written its gradient yet? Set by the run
    const float *rope; // [rope_rows, rope_half, 2]
    double *loss_sum, *loss_count;
    int64_t padding_rows; // how many of the last rows hold no sample: no squared error counts there
    uint64_t seed, step;  // key of dropout
    float grad_scale;     // the loss' gradient is multiplied by it; 0 means 1
    int block;            // position in the model, key of dropout
    uint64_t row0;        // logical number of the first row in the step's stream of rows
    const graph_run_outputs *outputs; // NULL: the loss is computed
    int64_t cache_rows;               // GRAPH_DECODE: tokens that the cache has room for
    int64_t pos0;                     // GRAPH_DECODE: tokens already in the cache
} graph_run;

// Collective over x->tp, in the same order on every rank. What the communicator refuses is
// returned; what fails while the stream runs is returned by its sync.
status graph_run_forward(const graph_run *x, err *e);
status graph_run_backward(const graph_run *x, err *e);
// The two halves of a graph that was opened with halves: the gradient of the input, then those of
// the parameters. One after the other they do what graph_run_backward does, bit for bit, whatever
// runs in between. Until the second half has run, the block's INPUT, IDS, SAVED and HELD must stay
// as they are, and DOUT where g->output_grad_saved; WORK need not.
status graph_run_dgrad(const graph_run *x, err *e);
status graph_run_wgrad(const graph_run *x, err *e);

// For the op files: the address of a value in this run (NULL for NULL).
void *graph_run_ptr(const graph_run *x, const graph_value *v);
// The gradient of parameter p; *accumulate says whether to add, and from now on it will.
float *graph_run_grad(const graph_run *x, int p, bool *accumulate);
// The logical number of v's first row.
uint64_t graph_run_row0(const graph_run *x, const graph_value *v);
rng_key graph_run_key(const graph_run *x, const graph_node *n);

// cos and sin of the rotary table, on the host: [rows, half, 2], angles in fp32 as PyTorch computes
// them.
void rope_table_fill(const graph *g, float *out);

#endif
