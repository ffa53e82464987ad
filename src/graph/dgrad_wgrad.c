// dgrad_wgrad.c -- the backward list in two halves: what the gradient of the input needs, then the rest,
// which gives the gradients of parameters only (Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism"). A value that is computed again goes to the half that reads it, to the first when
// both do.
//
// Called by graph_finish. What the second half reads of the first gets memory of its own in
// layout.c.
#include "graph/op.h"

#include "base/alloc.h"

#include <stdlib.h>

static bool is_needed(const graph_node *n, const char *needed)
{
    for (int k = 0; k < NODE_OUTPUTS; k++)
        if (n->out[k] && needed[n->out[k]->id]) return true;
    return false;
}

static void copy_din(graph *g)
{
    graph_value *input_grad = g->input->grad;
    graph_node none = {.number = 0};
    graph_node *copy = grad_node(g, OP_ADD, &none);
    copy->in[0] = input_grad;
    copy->attr.u.add.alpha = 1;
    copy->out[0] = graph_new_like(g, "input gradient", input_grad);
    copy->out[0]->producer = copy;
    g->input->grad = copy->out[0];
}

static bool reads(const graph_node *n, const graph_value *v)
{
    for (int k = 0; k < NODE_INPUTS; k++)
        if (n->in[k] == v) return true;
    return false;
}

// Splits without changing the order inside a half. *apart is false when the second half reads the
// gradient of the input, which is the block before's by then.
static status split(graph *g, bool *apart, err *e)
{
    status result = OK;
    char *needed = NULL;
    bool *first = NULL;
    TRY(alloc_zeroed(&needed, (size_t)g->values, 1, "a graph", e));
    TRY(alloc_zeroed(&first, (size_t)g->backward.count, sizeof *first, "a graph", e));
    *apart = true;
    if (g->input) needed[g->input->grad->id] = 1;
    for (int i = g->backward.count - 1; i >= 0; i--) {
        const graph_node *n = g->backward.node[i];
        first[i] = is_needed(n, needed);
        for (int k = 0; k < NODE_INPUTS && first[i]; k++)
            if (n->in[k]) needed[n->in[k]->id] = 1;
    }
    graph_node_list halves = {0};
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < g->backward.count; i++)
            if (first[i] == (half == 0)) graph_node_list_add(g, &halves, g->backward.node[i]);
        if (half == 0) g->dgrad_nodes = halves.count;
    }
    free(g->backward.node);
    g->backward = halves;
    TRY(graph_trouble(g, e));
    for (int i = g->dgrad_nodes; i < g->backward.count && g->input; i++)
        if (reads(g->backward.node[i], g->input->grad)) *apart = false;
done:
    free(needed);
    free(first);
    return result;
}

status graph_split_backward(graph *g, err *e)
{
    status result = OK;
    bool apart = true;
    TRY(split(g, &apart, e));
    if (apart) goto done;
    copy_din(g);
    TRY(graph_trouble(g, e));
    TRY(split(g, &apart, e));
done:
    return result;
}
