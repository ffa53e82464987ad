// dgrad_wgrad.c -- orders the backward list as dgrad, then wgrad, so that a pipeline can run them
// apart (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"). dgrad is every node that the gradient
// of the block's input needs. wgrad is the rest: it computes gradients of parameters only. A
// recomputed node belongs to dgrad when both need it.
//
// Called by graph_finish. Does not know memory: layout.c gives the values that dgrad makes and wgrad
// reads memory of their own.
#include "graph/op.h"

#include "base/alloc.h"

#include <stdlib.h>

// Does the node compute a needed value? `needed` is indexed by the values' ids.
static bool is_needed(const graph_node *n, const char *needed)
{
    for (int k = 0; k < NODE_OUTPUTS; k++)
        if (n->out[k] && needed[n->out[k]->id]) return true;
    return false;
}

// Gives the input gradient a value of its own: dgrad ends with a copy.
static void copy_input_grad(graph *g)
{
    graph_value *input_grad = g->input->grad;
    graph_node none = {.number = 0};
    graph_node *copy = graph_new_grad_node(g, OP_ADD, &none);
    copy->in[0] = input_grad;
    copy->attr.u.add.alpha = 1;
    graph_set_output(copy, 0, graph_new_like(g, "input gradient", input_grad));
    g->input->grad = copy->out[0];
}

static bool reads(const graph_node *n, const graph_value *v)
{
    for (int k = 0; k < NODE_INPUTS; k++)
        if (n->in[k] == v) return true;
    return false;
}

// Moves the nodes of dgrad to the front; each of the two keeps its order. *apart is false when wgrad
// reads the input gradient, which the block before may have overwritten by then.
static status partition_backward(graph *g, bool *apart, err *e)
{
    status result = OK;
    char *needed = NULL;   // by value id: dgrad needs it
    bool *is_dgrad = NULL; // by number in the backward list
    TRY(alloc_zeroed(&needed, (size_t)g->values.count, 1, "a graph", e));
    TRY(alloc_zeroed(&is_dgrad, (size_t)g->backward.count, sizeof *is_dgrad, "a graph", e));
    *apart = true;
    const graph_value *input_grad = g->input ? g->input->grad : NULL;
    if (input_grad) needed[input_grad->id] = 1;
    for (int i = g->backward.count - 1; i >= 0; i--) {
        const graph_node *n = g->backward.node[i];
        is_dgrad[i] = is_needed(n, needed);
        for (int k = 0; k < NODE_INPUTS && is_dgrad[i]; k++)
            if (n->in[k]) needed[n->in[k]->id] = 1;
    }
    graph_node_list ordered = {0};
    for (int is_wgrad = 0; is_wgrad < 2; is_wgrad++) {
        for (int i = 0; i < g->backward.count; i++)
            if (is_dgrad[i] == !is_wgrad) graph_node_list_add(g, &ordered, g->backward.node[i]);
        if (!is_wgrad) g->split.dgrad_nodes = ordered.count;
    }
    free(g->backward.node);
    g->backward = ordered;
    TRY(graph_first_error(g, e));
    for (int i = g->split.dgrad_nodes; i < g->backward.count && input_grad; i++)
        if (reads(g->backward.node[i], input_grad)) *apart = false;
done:
    free(needed);
    free(is_dgrad);
    return result;
}

status graph_split_backward(graph *g, err *e)
{
    status result = OK;
    bool apart = true;
    TRY(partition_backward(g, &apart, e));
    if (apart) goto done;
    copy_input_grad(g);
    TRY(graph_first_error(g, e));
    TRY(partition_backward(g, &apart, e));
done:
    return result;
}
