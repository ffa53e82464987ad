// halves.c -- the backward list in two halves: what the gradient of the input needs, then the rest,
// which gives the gradients of parameters only (Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism"). A value that is computed again goes to the half that reads it, to the first when
// both do.
//
// Called by graph_finish. What the second half reads of the first gets memory of its own in
// layout.c.
#include "graph/op.h"

#include <stdlib.h>

static bool is_needed(const node *n, const char *needed)
{
    for (int k = 0; k < NODE_OUTPUTS; k++)
        if (n->out[k] && needed[n->out[k]->id]) return true;
    return false;
}

static void copy_din(graph *g)
{
    value *din = g->input->grad;
    node none = {.number = 0};
    node *copy = grad_node(g, OP_ADD, &none);
    copy->in[0] = din;
    copy->attr.u.add.alpha = 1;
    copy->out[0] = graph_like(g, "input gradient", din);
    copy->out[0]->producer = copy;
    g->input->grad = copy->out[0];
}

static bool reads(const node *n, const value *v)
{
    for (int k = 0; k < NODE_INPUTS; k++)
        if (n->in[k] == v) return true;
    return false;
}

// Splits without changing the order inside a half. Returns false when the second half reads the
// gradient of the input, which is the block before's by then.
static bool split(graph *g)
{
    char *needed = calloc((size_t)g->values + 1, 1);
    bool *first = calloc((size_t)g->backward.count + 1, sizeof *first), apart = true;
    if (!needed || !first) abort();
    if (g->input) needed[g->input->grad->id] = 1;
    for (int i = g->backward.count - 1; i >= 0; i--) {
        const node *n = g->backward.at[i];
        first[i] = is_needed(n, needed);
        for (int k = 0; k < NODE_INPUTS && first[i]; k++)
            if (n->in[k]) needed[n->in[k]->id] = 1;
    }
    node_list halves = {0};
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < g->backward.count; i++)
            if (first[i] == (half == 0)) node_list_add(&halves, g->backward.at[i]);
        if (half == 0) g->input_half = halves.count;
    }
    free(g->backward.at);
    g->backward = halves;
    for (int i = g->input_half; i < g->backward.count && g->input; i++)
        if (reads(g->backward.at[i], g->input->grad)) apart = false;
    free(needed);
    free(first);
    return apart;
}

void graph_halve(graph *g)
{
    if (split(g)) return;
    copy_din(g);
    split(g);
}
