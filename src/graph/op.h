// op.h -- the inside of graph/: what it must know of each op, one row of a table, which the op's own file
// fills; how ops are sharded; and the passes of graph_finish.
#ifndef TRIREME_GRAPH_OP_H
#define TRIREME_GRAPH_OP_H

#include "comm/call.h"
#include "graph/execute.h"
#include "graph/graph.h"

#include <stddef.h>

// The collective that a node issues, or the sum of those that it issues for chunks of its rows.
typedef struct graph_call {
    axis over;           // between the ranks of this axis
    comm_call_kind kind; // CALL_ALL_REDUCE, CALL_ALL_GATHER, CALL_REDUCE_SCATTER or CALL_ALL_TO_ALL
    dtype type;
    int64_t count; // elements that all ranks have together; of an all-reduce, that each has
    const comm_segment *segment; // [segments] the graph's; NULL: the elements are one run
    int segments;
    const size_t *in_counts, *out_counts; // of an all_to_all: [ranks] the graph's, as in comm_call
} graph_call;

// What the number of rows of a parameter limits.
typedef enum graph_limit {
    LIMIT_NONE,
    LIMIT_TOKENS,    // token ids
    LIMIT_CLASSES,   // class labels
    LIMIT_POSITIONS, // tokens of a sequence
    LIMITS
} graph_limit;

typedef struct graph_op_info {
    // Appends to the backward list the gradient nodes of forward node n, and gives the inputs of n that
    // require one their gradients with graph_accumulate_grad. The gradients of n's outputs are known.
    // Called where some input of n requires a gradient, or a parameter of n trains. NULL for gradient
    // ops.
    void (*derive)(graph *g, graph_node *n);
    // Launches the node's kernels. NULL: `run` does, which also issues its collectives. Both NULL: nothing runs.
    void (*launch)(const graph_run *run, const graph_node *n);
    status (*run)(const graph_run *run, const graph_node *n, err *e);
    double (*flops)(const graph *g, const graph_node *n); // NULL: not counted
    // The collective over attr.u.over.axis that makes output 0 of input 0; with attr.u.over.gives an all_to_all stands for
    // it. 0: none.
    comm_call_kind call;
    // Finds the collective of a node that makes another value; false: it makes none. NULL: `call` says all.
    bool (*find_call)(const graph *g, const graph_node *n, graph_call *out);
    // A node that computes output 0 of n from what else n computes; it runs where n may not run again. NULL:
    // n itself.
    graph_node (*again)(const graph_node *n);
    // Input 1 is the weight, in whose type the op computes, and input 2 a bias or a table of that type. A norm may have
    // no weight.
    bool has_weight;
    bool is_linear;      // with a weight: it is the matrix of a linear layer
    bool reads_residual; // with a weight: input 0 may be the F32 residual
    bool gives_residual; // with a weight: output 0 is the F32 residual, input 0 has no type
    bool sets_sections; // the builder says how its input is sharded, and output 0 has other columns
    bool keeps_cols;    // output 0 has the columns of input 0 in their places
    bool weight_by_column; // inputs 1 and 2 are parameters with a row for each column of output 0
    // The sections of input 0 from the `count` of output 1, in place; returns how many they are, or 0 where there are
    // none. NULL: the columns of the two have nothing to do with each other, unless keeps_cols says that they are equal.
    int (*input_sections)(const graph_node *n, int count, int64_t rows[PARAM_SECTIONS]);
    // Rows are tokens with a time axis: a row of an output depends on the row's position, or on earlier rows.
    bool has_time;
    // With has_time: the op keeps packed documents apart (graph_run_tokens). graph_finish refuses others.
    bool takes_documents;
    bool keeps_state; // GRAPH_DECODE: output 1 is a state, which lies in REGION_STATE
    // GRAPH_DECODE: input 0 lies in the cache, and a token sees so many rows of it, its own the last of them; 0: all
    // before it. NULL: no input lies in the cache.
    int64_t (*cache_window)(const graph_node *n);
    graph_limit limit[NODE_INPUTS]; // by input: what the rows of the parameter limit
    // Output 0 must live in the memory of this input: the op works in place. Bit i is input i.
    unsigned must_alias;
    // Output 0 may overwrite these inputs where no later node reads them.
    unsigned may_alias;
    // The same of output 3, which chooses first. The two never share memory.
    unsigned may_alias_3;
    // The settings of `recompute` under which the op may run again in the backward list:
    //   0 never   1 all, because it costs less than its memory   2 selective and full   3 full
    int recompute;
    bool is_view; // output 0 is input 0 under another name
    bool is_loss; // ends the graph; its gradient starts the backward
} graph_op_info;

const graph_op_info *graph_op_find(graph_op kind);
const char *graph_op_name(graph_op kind); // "embedding", …

// A table of a collective of a node: its segments or its counts. A graph owns the list of them.
typedef struct graph_table {
    struct graph_table *next;
    max_align_t memory[];
} graph_table;

// Returns whether node n issues a collective, and which one.
bool graph_call_of(const graph *g, const graph_node *n, graph_call *out);

// ---- For the build_* functions

// Appends a node to the forward list, or to list l. The caller fills it. Without memory it is
// g->tracing.no_node.
graph_node *graph_new_node(graph *g, graph_op kind);
graph_node *graph_add_node(graph *g, graph_node_list *l, graph_op kind);
// `name` is borrowed for the graph's life. Without memory it is g->tracing.no_value.
graph_value *graph_new_value(graph *g, const char *name, dtype type, int dims, const int64_t *dim);
graph_value *graph_new_like(graph *g, const char *name, const graph_value *v);
// Makes v output `output` of node n.
void graph_set_output(graph_node *n, int output, graph_value *v);
// Appends a node and owns it from now on. Without memory the node is freed.
void graph_node_list_add(graph *g, graph_node_list *l, graph_node *n);
// x converted to the compute type; x itself where it has that type.
graph_value *graph_as_compute(graph *g, graph_value *x);
// build_dropout of a graph that trains, whose columns may be equal shares of those of the full x.
graph_value *graph_drop(graph *g, graph_value *x, double p);
// Rows of one chunk of the loss, for a (local) vocabulary of that many tokens.
int64_t graph_loss_chunk_rows(const graph *g, int64_t vocab);

// ---- For graph_op_info.derive

// Adds dx to the gradient of v. The first dx becomes v's gradient; for a later one an addition is
// appended to the backward list.
void graph_accumulate_grad(graph *g, graph_value *v, graph_value *dx);
// Does the backward list need the gradient of v? NULL allowed.
bool graph_requires_grad(const graph_value *v);
// The index of parameter w, or -1 where its gradient is not wanted: w is NULL, frozen or constant.
int graph_trained_param(const graph *g, const graph_value *w);
// Appends a gradient node of forward node n to the backward list, with the attributes of n.
graph_node *graph_new_grad_node(graph *g, graph_op kind, const graph_node *n);
// Derives the gradient of x from dy, that of the activation of x that node n computes.
void graph_derive_activation(graph *g, const graph_node *n, graph_value *dy, graph_value *x);

// ---- Tensor parallelism (tensor_parallel.c, op_tensor_parallel.c)

// The axes over which dimension `dim` of parameter w is sharded.
mesh_axes graph_sharded_over(const graph *g, const graph_value *w, int dim);
// The number of ranks of a set of axes, and this rank's index among them; 1 and 0 without axes.
int graph_ranks(const graph *g, mesh_axes over);
int graph_rank(const graph *g, mesh_axes over);
// The row of the full parameter that is row 0 of this rank's w.
int64_t graph_first_row(const graph *g, const graph_value *w);
// x as every rank of the axis reads it before a weight that is sharded over it. Its gradient is the sum over the
// ranks. `over` has one axis.
graph_value *graph_copy_to(graph *g, graph_value *x, mesh_axes over);
// The sum of x over the ranks of the axis. Where the rows of a block are sharded over it, as with sequence
// parallelism, each rank gets its rows of the sum.
graph_value *graph_reduce_from(graph *g, graph_value *x, mesh_axes over);
// x comes from a linear layer whose output columns are a concatenation of sections. Each section is
// sharded by itself. `rows` [count] are the local sizes; `op_name` is for a message.
void graph_sections(graph *g, const graph_value *x, const char *op_name, int count,
                    const int64_t *rows);
// Has build_sections said how many heads the sections of x are?
bool graph_knows_heads(const graph *g, const graph_value *x);
// How many of `full_heads` heads x has on this rank: 1 where the ranks are a multiple of the heads.
int64_t graph_local_heads(const graph *g, const graph_value *x, int64_t full_heads);
// The same of the first `full_heads` heads of x: those of one section, or of several.
int64_t graph_local_first_heads(const graph *g, const graph_value *x, int64_t full_heads);
// Notes that a use of parameter w gives a summand of its gradient over the axes `partial`: those over which the
// rows of the op's input are sharded, and those whose ranks use w with different columns.
void graph_note_use(graph *g, const graph_value *w, mesh_axes partial);
// Keeps which size the ranks of an axis do not divide, instead of a misuse that may follow from it.
void graph_not_divisible(graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Writes the divisors of `count`: "1, 2, 4". Returns out.
const char *graph_divisors(int64_t count, char out[96]);

// Appends a node that the unsharded graph lacks. It takes no number, so that the other nodes have the
// numbers of the unsharded graph, and with them its random numbers.
graph_node *graph_new_axis_node(graph *g, graph_op kind, graph_value *x);

// The rows of this rank's shard of w that are in piece `piece`, and the first of them.
int64_t graph_piece_rows(graph *g, const graph_value *w, int piece, int64_t *first);

// ---- Adapters (op_low_rank.c)

// Adds the adapters of the pieces of w to y, the product of x and w or this rank's summand of it.
graph_value *graph_add_adapters(graph *g, graph_value *x, const graph_value *w, graph_value *y);
// Gives the factors with rows of a weight the sections of these rows, which are known.
void graph_shard_adapters(graph *g);

// ---- Context parallelism (op_context_parallel.c)

// Sets g->sequences. Where the ranks do not divide the sequences, g->first_error says so.
void graph_shard_sequences(graph *g, int64_t seq);
// Columns first_col … first_col+cols-1 of x of all tokens, in order of positions: the keys and values of qkv. With a
// window, those of tokens that no query of this rank sees are zeros.
//   -> [batch * full_seq, cols]
graph_value *graph_gather_from_cp(graph *g, graph_value *x, int64_t first_col, int64_t cols,
                                  int64_t window);
// Makes the gradient of x complete: dx has that of the columns that node `gather` did not gather, `gathered` this
// rank's summand of the gradient of those that it did.
graph_value *graph_scatter_to_cp(graph *g, const graph_node *gather, graph_value *gathered,
                                 graph_value *dx);

// The loss (op_loss_run.c).
status graph_run_loss(const graph_run *run, const graph_node *n, err *e);
bool graph_loss_gives_gradient(const graph_node *n);

// ---- The passes of graph_finish, in this order

// Settles the sections of sharded parameters, and checks that the ranks divide them.
void graph_check_shards(graph *g);
void graph_fuse(graph *g); // joins dropouts and sums (fuse.c)
// Adds conversions for parameters of another type than the graph's (param_types.c).
status graph_convert_params(graph *g, err *e);
void graph_fuse_linears(graph *g);     // joins linear layers and activations (fuse.c)
status graph_derive(graph *g, err *e); // makes the backward list (derive.c)
// Adds to the backward list the forward nodes that are recomputed (derive.c).
status graph_plan_recompute(graph *g, recompute_mode recompute, err *e);
// Orders the backward list as dgrad, then wgrad (dgrad_wgrad.c).
status graph_split_backward(graph *g, err *e);
void graph_fuse_lists(graph *g); // joins nodes of the complete lists (fuse.c)
// Gives every value its memory (layout.c). E_USAGE when an op that works in place cannot.
status graph_layout(graph *g, err *e);

#define GRAPH_ROW(kind, name) extern const graph_op_info op_##name;
GRAPH_OPS(GRAPH_ROW)
#undef GRAPH_ROW

#endif
