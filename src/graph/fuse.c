// fuse.c -- joins nodes whose results have no other use, so that one kernel does the work of two: a
// dropout and the sum that adds its result to the residual. The joined node computes the bits of the
// two, with the random numbers of the dropout.
//
// Called by graph_finish before anything is derived. So a family, and a program with its own model,
// writes the ops one by one. Does not know memory or kernels.
#include "graph/op.h"

#include <stdlib.h>

// The nodes that read v, and the block's output. Values in the memory of v count as readers.
static int count_readers(const graph *g, const graph_value *v)
{
    int readers = v == g->output;
    for (int i = 0; i < g->values.count; i++)
        readers += g->values.value[i] != v && g->values.value[i]->root == v;
    for (int i = 0; i < g->forward.count; i++)
        for (int k = 0; k < NODE_INPUTS; k++) readers += g->forward.node[i]->in[k] == v;
    return readers;
}

// Is `sum` the only reader of the result of `drop`, and does it add that result as it is?
static bool adds_dropped(const graph *g, const graph_node *drop, const graph_node *sum)
{
    return drop->op == OP_DROPOUT && sum->op == OP_ADD && sum->in[1] == drop->out[0] &&
           sum->attr.u.add.alpha == 1 && sum->attr.u.add.beta == 1 &&
           count_readers(g, drop->out[0]) == 1;
}

void graph_fuse(graph *g)
{
    int kept = 0;
    for (int i = 0; i < g->forward.count; i++) {
        graph_node *n = g->forward.node[i], *before = kept ? g->forward.node[kept - 1] : NULL;
        if (before && adds_dropped(g, before, n)) {
            n->op = OP_DROPOUT_ADD;
            n->in[1] = before->in[0];
            n->attr.u.dropout = before->attr.u.dropout;
            n->number = before->number; // keys the random numbers
            before->out[0]->producer = NULL;
            free(before);
            kept--;
        }
        g->forward.node[kept++] = n;
    }
    g->forward.count = kept;
}
