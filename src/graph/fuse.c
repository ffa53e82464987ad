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
#include <string.h>

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

// Two nodes that one can replace: `second` reads the result of `first`, and becomes `joined`.
typedef struct graph_fusion {
    graph_op first, second, joined;
    bool apart; // other nodes may stand between the two
    bool (*may)(const graph *g, const graph_node *first, const graph_node *second);
    void (*join)(const graph *g, const graph_node *first, graph_node *second);
} graph_fusion;

// The position of the node that could be the first one for the node at `position`; -1: there is none.
static int find_first(const graph_fusion *f, const graph_node_list *l, int position, int border)
{
    int k = position - 1;
    if (f->apart)
        while (k >= 0 && l->node[k] != l->node[position]->in[0]->producer) k--;
    else if (position == border)
        return -1;
    return k >= 0 && l->node[k]->op == f->first ? k : -1;
}

// Joins nodes of a list, of which nodes 0 … *first_part-1 run apart from the others.
static void join_nodes(const graph *g, const graph_fusion *f, graph_node_list *l, int *first_part)
{
    for (int i = 0; i < l->count; i++) {
        graph_node *second = l->node[i];
        const int k = second->op == f->second ? find_first(f, l, i, *first_part) : -1;
        if (k < 0 || !f->may(g, l->node[k], second)) continue;
        graph_node *first = l->node[k];
        second->op = f->joined;
        f->join(g, first, second);
        free(first);
        l->count--;
        for (int j = k; j < l->count; j++) l->node[j] = l->node[j + 1];
        *first_part -= k < *first_part;
        i--;
    }
}

// ---- A dropout, and the sum that is the only reader of its result and adds it as it is

static bool adds_dropped(const graph *g, const graph_node *drop, const graph_node *sum)
{
    return sum->in[1] == drop->out[0] && sum->attr.u.add.alpha == 1 && sum->attr.u.add.beta == 1 &&
           count_readers(g, drop->out[0]) == 1;
}

static void join_dropout(const graph *g, const graph_node *drop, graph_node *sum)
{
    (void)g;
    sum->in[1] = drop->in[0];
    sum->attr.u.dropout = drop->attr.u.dropout;
    sum->number = drop->number; // keys the random numbers
    drop->out[0]->producer = NULL;
}

// ---- A linear layer and the activation of its result

// A summand of a sharded layer's result is not yet what the activation reads.
static bool activates(const graph *g, const graph_node *linear, const graph_node *act)
{
    (void)g;
    return act->in[0] == linear->out[0] && !linear->attr.u.skip_bias &&
           act->out[0]->type == linear->out[0]->type;
}

static void join_activation(const graph *g, const graph_node *linear, graph_node *act)
{
    graph_value *z = linear->out[0];
    // Without a backward list that reads z, it is not written.
    const bool keeps_z = g->mode == GRAPH_TRAIN || count_readers(g, z) > 1;
    memcpy(act->in, linear->in, sizeof act->in);
    act->number = linear->number;
    act->out[1] = keeps_z ? z : NULL;
    z->producer = keeps_z ? act : NULL;
}

// ---- A sum and the norm of it, where one kernel can do both

static bool norms_sum(const graph *g, const graph_node *sum, const graph_node *norm)
{
    (void)g;
    return norm->in[0] == sum->out[0] && sum->in[1] && sum->in[1]->type == norm->out[0]->type &&
           sum->recomputed == norm->recomputed;
}

static void join_norm(const graph *g, const graph_node *sum, graph_node *norm)
{
    (void)g;
    norm->in[0] = sum->in[0], norm->in[3] = sum->in[1];
    graph_set_output(norm, 3, sum->out[0]);
    norm->attr.u.norm.alpha = sum->attr.u.add.alpha;
    norm->attr.u.norm.beta = sum->attr.u.add.beta;
}

// ---- The gradients of a linear layer's input and of the activation that computed this input. The product
// moves to where the activation's gradient stands: what that reads may be recomputed in between.

// Does a node of the backward list but `except` read v, or is it the block's input gradient?
static bool has_other_reader(const graph *g, const graph_value *v, const graph_node *except)
{
    bool found = g->input && g->input->grad == v;
    for (int i = 0; i < g->backward.count; i++)
        for (int k = 0; k < NODE_INPUTS && g->backward.node[i] != except; k++)
            found = found || g->backward.node[i]->in[k] == v;
    return found;
}

static bool is_product_of(const graph *g, const graph_node *product, const graph_node *act)
{
    return !product->in[2] && act->in[0]->type == act->out[0]->type &&
           !has_other_reader(g, act->in[0], act);
}

static void join_product(const graph *g, const graph_node *product, graph_node *act)
{
    (void)g;
    product->out[0]->producer = NULL;
    act->in[3] = act->in[1];
    act->in[0] = product->in[0], act->in[1] = product->in[1];
}

static const graph_fusion DROPOUT = {OP_DROPOUT, OP_ADD,       OP_DROPOUT_ADD,
                                     false,      adds_dropped, join_dropout},
                          LINEAR = {OP_LINEAR, OP_ACTIVATION, OP_LINEAR_ACTIVATION,
                                    false,     activates,     join_activation},
                          NORM = {OP_ADD, OP_NORM, OP_ADD_NORM, false, norms_sum, join_norm},
                          PRODUCT = {OP_LINEAR_GRAD_INPUT, OP_ACTIVATION_GRAD,
                                     OP_LINEAR_GRAD_INPUT, true,
                                     is_product_of,        join_product};

void graph_fuse(graph *g)
{
    join_nodes(g, &DROPOUT, &g->forward, &(int){0});
}

void graph_fuse_linears(graph *g)
{
    join_nodes(g, &LINEAR, &g->forward, &(int){0});
}

void graph_fuse_lists(graph *g)
{
    int *dgrad = g->split.on ? &g->split.dgrad_nodes : &(int){0};
    join_nodes(g, &PRODUCT, &g->backward, dgrad);
    join_nodes(g, &NORM, &g->forward, &(int){0});
    join_nodes(g, &NORM, &g->backward, dgrad);
}
