// fuse.c -- joins nodes that stand one after the other, so that one kernel does the work of two, with the
// bits of the two:
//   a dropout and the sum that adds its result to the residual, where nothing else reads that result
//   a sum and the norm of it
//
// Called by graph_finish: the first before anything is derived, the second when the lists are complete, so
// that the gradients, and what is saved and recomputed, are those of the two nodes. So a family, and a
// program with its own model, writes the ops one by one. Does not know memory or kernels.
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

// Is `norm` the norm of what `sum` computes, and can one kernel do both?
static bool norms_sum(const graph_node *sum, const graph_node *norm)
{
    return sum->op == OP_ADD && norm->op == OP_NORM && norm->in[0] == sum->out[0] && sum->in[1] &&
           sum->in[1]->type == norm->out[0]->type && sum->recomputed == norm->recomputed;
}

// Joins the sums and norms of a list, of which nodes 0 … *first_part-1 run apart from the others.
static void join_norms(graph_node_list *l, int *first_part)
{
    int kept = 0;
    const int border = *first_part;
    for (int i = 0; i < l->count; i++) {
        graph_node *n = l->node[i], *before = kept && i != border ? l->node[kept - 1] : NULL;
        if (before && norms_sum(before, n)) {
            n->op = OP_ADD_NORM;
            n->in[0] = before->in[0], n->in[3] = before->in[1];
            n->out[3] = before->out[0];
            n->out[3]->producer = n;
            n->attr.u.norm.alpha = before->attr.u.add.alpha;
            n->attr.u.norm.beta = before->attr.u.add.beta;
            free(before);
            kept--;
            *first_part -= i < border;
        }
        l->node[kept++] = n;
    }
    l->count = kept;
}

void graph_fuse_norms(graph *g)
{
    int all = 0;
    join_norms(&g->forward, &all);
    join_norms(&g->backward, g->split.on ? &g->split.dgrad_nodes : &all);
}
