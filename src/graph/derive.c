// derive.c -- makes the backward list by reverse-mode differentiation of the forward list (Griewank
// and Walther, "Evaluating Derivatives"), and chooses which forward values are saved and which are
// recomputed.
//
// Called by graph_finish. Does not know the gradient of an op, which stands in the op's own file.
#include "graph/op.h"

#include <stdlib.h>

bool graph_requires_grad(const graph_value *v)
{
    return v && (v->producer || v->region == REGION_INPUT);
}

graph_node *graph_new_grad_node(graph *g, graph_op kind, const graph_node *n)
{
    graph_node *d = graph_new_node(g, kind);
    // graph_new_node appends to the forward list, but this node belongs to the backward list.
    g->forward.count--, g->next_number--;
    d->attr = n->attr;
    d->number = n->number;
    graph_node_list_add(&g->backward, d);
    return d;
}

void graph_accumulate_grad(graph *g, graph_value *v, graph_value *dx)
{
    if (!graph_requires_grad(v)) return;
    if (!v->grad) {
        v->grad = dx;
        return;
    }
    graph_node none = {.number = 0};
    graph_node *sum = graph_new_grad_node(g, OP_ADD, &none);
    sum->in[0] = v->grad, sum->in[1] = dx;
    sum->attr.u.add.alpha = sum->attr.u.add.beta = 1;
    sum->out[0] = graph_new_like(g, "gradient sum", v);
    sum->out[0]->producer = sum;
    v->grad = sum->out[0];
}

status graph_derive(graph *g, err *e)
{
    if (g->output) {
        g->output->grad = graph_new_like(g, "output gradient", g->output);
        g->output->grad->region = REGION_OUTPUT_GRAD;
    }
    for (int i = g->forward.count - 1; i >= 0; i--) {
        graph_node *n = g->forward.node[i];
        const graph_op_info *o = graph_op_find(n->op);
        if (!o->is_loss && !n->out[0]->grad)
            return err_set(e, E_USAGE, "model graph: the result of %s (node %d) is never used",
                           o->name, i);
        o->derive(g, n);
    }
    if (g->input && !g->input->grad)
        return err_set(e, E_USAGE, "model graph: the input of a block is never used");
    g->input_grad_unused = !g->input;
    return OK;
}

// ---- Recompute

typedef struct graph_recompute_pass {
    graph *g;
    graph_recompute recompute;
    graph_value **again;  // [forward values] the recomputed value, or NULL
    graph_node_list list; // the new backward list
} graph_recompute_pass;

static bool may_recompute(const graph_recompute_pass *r, const graph_value *v)
{
    if (!v->producer) return false;
    int when = graph_op_find(v->producer->op)->recompute;
    return when != 0 && when <= (int)r->recompute + 1;
}

// Returns the value that the backward list reads instead of forward value v: v itself where it is
// saved. Else v's node, and what it needs, is appended to the list once.
static graph_value *recompute_value(graph_recompute_pass *r, graph_value *v)
{
    if (!v || !may_recompute(r, v)) return v;
    if (r->again[v->id]) return r->again[v->id];
    graph_node *n = v->producer, *copy = malloc(sizeof *copy);
    if (!copy) abort();
    *copy = *n;
    copy->recomputed = true;
    for (int i = 0; i < NODE_INPUTS; i++) copy->in[i] = recompute_value(r, n->in[i]);
    for (int i = 0; i < NODE_OUTPUTS; i++) {
        if (!n->out[i]) continue;
        copy->out[i] = graph_new_like(r->g, n->out[i]->name, n->out[i]);
        copy->out[i]->producer = copy;
        r->again[n->out[i]->id] = copy->out[i];
    }
    graph_node_list_add(&r->list, copy);
    return r->again[v->id];
}

void graph_plan_recompute(graph *g, graph_recompute recompute)
{
    int forward_values = g->values;
    // Ids do not say which list makes a value: inputs, gradients and forward values share them.
    char *is_forward = calloc((size_t)forward_values + 1, 1);
    graph_recompute_pass r = {.g = g,
                              .recompute = recompute,
                              .again = calloc((size_t)forward_values + 1, sizeof(graph_value *))};
    if (!is_forward || !r.again) abort();
    for (int i = 0; i < g->forward.count; i++)
        for (int k = 0; k < NODE_OUTPUTS; k++)
            if (g->forward.node[i]->out[k]) is_forward[g->forward.node[i]->out[k]->id] = 1;
    for (int i = 0; i < g->backward.count; i++) {
        graph_node *n = g->backward.node[i];
        for (int k = 0; k < NODE_INPUTS; k++) {
            graph_value *v = n->in[k];
            if (v && v->id < forward_values && is_forward[v->id]) n->in[k] = recompute_value(&r, v);
        }
        graph_node_list_add(&r.list, n);
    }
    free(g->backward.node);
    g->backward = r.list;
    free(is_forward);
    free(r.again);
}
