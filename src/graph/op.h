// op.h -- what the graph must know of each op: one row of a table, filled in the op's own file.
#ifndef TRIREME_GRAPH_OP_H
#define TRIREME_GRAPH_OP_H

#include "graph/execute.h"
#include "graph/graph.h"

typedef struct graph_op_info {
    const char *name;
    // Appends gradient nodes to g->backward for forward node n, whose outputs' gradients are known,
    // and gives its inputs their gradients with grad_give. NULL for gradient ops.
    void (*derive)(graph *g, graph_node *n);
    // Launches the node's kernels and collectives.
    status (*run)(const graph_run *x, const graph_node *n, err *e);
    double (*flops)(const graph *g, const graph_node *n); // NULL: not counted
    // Output 0 must (not only may) live in the memory of this input; -1 none.
    int must_alias;
    // Output 0 may take over the memory of these inputs when they die here; bit i = input i.
    unsigned may_alias;
    // May be run again in the backward list: 0 never, 1 at every setting (it costs less than the
    // memory), 2 from selective on, 3 only under full.
    int recompute;
    bool is_view; // output 0 is input 0, under another name
    bool is_loss; // ends the graph: it needs no gradient from above
} graph_op_info;

const graph_op_info *graph_op_find(graph_op kind);

// derive: hands `dx` to v (v's first gradient), or appends an addition to the gradient that it has.
void grad_give(graph *g, graph_value *v, graph_value *dx);
// Does anybody want v's gradient?
bool grad_wanted(const graph_value *v);
// A gradient node of forward node n, appended to the backward list.
graph_node *grad_node(graph *g, graph_op kind, const graph_node *n);

extern const graph_op_info op_embedding, op_embedding_grad, op_linear, op_linear_grad_input,
    op_linear_grad_weight, op_norm, op_norm_grad, op_rope, op_attention, op_attention_grad,
    op_activation, op_activation_grad, op_glu, op_glu_grad, op_add, op_dropout, op_convert,
    op_copy_to_tp, op_reduce_from_tp, op_gather_from_sp, op_scatter_to_sp, op_linear_cross_entropy,
    op_linear_square_error;

#endif
