// op.h -- what the graph must know of each op: one row of a table. Each op's own file fills its row.
#ifndef TRIREME_GRAPH_OP_H
#define TRIREME_GRAPH_OP_H

#include "graph/execute.h"
#include "graph/graph.h"

typedef struct graph_op_info {
    const char *name;
    // Appends to the backward list the gradient nodes of forward node n, and gives the inputs of n that
    // require one their gradients with graph_accumulate_grad. The gradients of n's outputs are known.
    // Called where some input of n requires a gradient, or a parameter of n trains. NULL for gradient
    // ops.
    void (*derive)(graph *g, graph_node *n);
    // Launches the node's kernels and collectives.
    status (*run)(const graph_run *run, const graph_node *n, err *e);
    double (*flops)(const graph *g, const graph_node *n); // NULL: not counted
    // Output 0 must live in the memory of this input: the op works in place. -1: it need not.
    int must_alias;
    // Output 0 may overwrite these inputs where no later node reads them; bit i is input i.
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

// Segments of a collective of a node. A graph owns the list of them.
typedef struct graph_segments {
    struct graph_segments *next;
    comm_segment segment[];
} graph_segments;

// The call over segments that a node issues to the context-parallel group, in place. Returns false where
// it issues none. The segments are the graph's.
typedef struct graph_cp_call {
    const comm_segment *segment; // [segments]
    int segments;
    bool gathers; // comm_all_gather_segments; if not, comm_reduce_scatter_segments
    dtype type;
} graph_cp_call;
bool graph_cp_call_of(const graph_node *n, graph_cp_call *out);

// ---- For graph_op_info.derive

// Adds dx to the gradient of v. The first dx becomes v's gradient; for a later one an addition is
// appended to the backward list.
void graph_accumulate_grad(graph *g, graph_value *v, graph_value *dx);
// Does the backward list need the gradient of v? NULL allowed.
bool graph_requires_grad(const graph_value *v);
// The index of parameter w, or -1 where its gradient is not wanted: w is NULL or frozen.
int graph_trained_param(const graph *g, const graph_value *w);
// Appends a gradient node of forward node n to the backward list, with the attributes of n.
graph_node *graph_new_grad_node(graph *g, graph_op kind, const graph_node *n);
// Derives the gradient of x from dy, that of the activation of x that node n computes.
void graph_derive_activation(graph *g, const graph_node *n, graph_value *dy, graph_value *x);

extern const graph_op_info op_embedding, op_embedding_grad, op_linear, op_linear_activation,
    op_linear_grad_input, op_linear_grad_weight, op_norm, op_add_norm, op_norm_grad, op_rope,
    op_attention, op_attention_grad, op_activation, op_activation_grad, op_glu, op_glu_grad, op_add,
    op_dropout, op_dropout_add, op_convert, op_copy_to_tp, op_reduce_from_tp, op_gather_from_sp,
    op_scatter_to_sp, op_gather_from_cp, op_scatter_to_cp, op_linear_cross_entropy,
    op_linear_square_error;

#endif
