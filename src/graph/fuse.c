// fuse.c -- joins nodes that stand one after the other, so that one kernel does the work of two, with the
// bits of the two:
//   a dropout and the sum that adds its result to the residual, where nothing else reads that result
//   a linear layer and the activation of its result
//   a sum and the norm of it
//   the gradient of a linear layer's input, and the gradient of the activation that computed that input
//
// Called by graph_finish: the first two before anything is derived, the others when the lists are complete,
// so that the gradients, and what is saved and recomputed, are those of the two nodes. So a family, and a
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

// May the product of `linear` end with the activation? A summand of a sharded layer's result is not yet
// what the activation reads.
static bool activates(const graph_node *linear, const graph_node *act)
{
    return linear->op == OP_LINEAR && act->op == OP_ACTIVATION && act->in[0] == linear->out[0] &&
           !linear->attr.u.skip_bias && act->out[0]->type == linear->out[0]->type;
}

void graph_fuse_linears(graph *g)
{
    int kept = 0;
    for (int i = 0; i < g->forward.count; i++) {
        graph_node *n = g->forward.node[i], *before = kept ? g->forward.node[kept - 1] : NULL;
        if (before && activates(before, n)) {
            graph_value *z = before->out[0];
            // Without a backward list that reads z, it is not written.
            const bool keeps_z = g->mode == GRAPH_TRAIN || count_readers(g, z) > 1;
            before->op = OP_LINEAR_ACTIVATION;
            before->attr.u.act = n->attr.u.act;
            before->out[0] = n->out[0], before->out[1] = keeps_z ? z : NULL;
            before->out[0]->producer = before;
            z->producer = keeps_z ? before : NULL;
            free(n);
            continue;
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

// Does a node of the backward list but `except` read v, or is it the block's input gradient?
static bool has_other_reader(const graph *g, const graph_value *v, const graph_node *except)
{
    bool found = g->input && g->input->grad == v;
    for (int i = 0; i < g->backward.count; i++)
        for (int k = 0; k < NODE_INPUTS && g->backward.node[i] != except; k++)
            found = found || g->backward.node[i]->in[k] == v;
    return found;
}

// The product whose result only this gradient of an activation reads, or NULL.
static graph_node *product_of(const graph *g, const graph_node *act)
{
    graph_node *p = act->op == OP_ACTIVATION_GRAD ? act->in[0]->producer : NULL;
    const bool joins = p && p->op == OP_LINEAR_GRAD_INPUT && !p->in[2] &&
                       act->in[0]->type == act->out[0]->type &&
                       !has_other_reader(g, act->in[0], act);
    return joins ? p : NULL;
}

static void remove_backward(graph *g, const graph_node *n)
{
    graph_node_list *l = &g->backward;
    int i = 0;
    while (l->node[i] != n) i++;
    if (g->split.on && i < g->split.dgrad_nodes) g->split.dgrad_nodes--;
    for (l->count--; i < l->count; i++) l->node[i] = l->node[i + 1];
}

// The product moves to where the activation's gradient stands: what that reads may be recomputed in between.
static void join_gradients(graph *g)
{
    for (int i = 0; i < g->backward.count; i++) {
        graph_node *n = g->backward.node[i], *product = product_of(g, n);
        if (!product) continue;
        product->out[0]->producer = NULL;
        n->op = OP_LINEAR_GRAD_INPUT;
        n->in[3] = n->in[1];
        n->in[0] = product->in[0], n->in[1] = product->in[1];
        remove_backward(g, product);
        free(product);
        i--;
    }
}

void graph_fuse_lists(graph *g)
{
    int all = 0;
    join_gradients(g);
    join_norms(&g->forward, &all);
    join_norms(&g->backward, g->split.on ? &g->split.dgrad_nodes : &all);
}
