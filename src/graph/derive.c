// derive.c -- makes the backward list by reverse-mode differentiation of the forward list (Griewank
// and Walther, "Evaluating Derivatives"), and chooses which forward values are saved and which are
// recomputed. Where no parameter trains and no gradient is asked for, it makes no node.
//
// Called by graph_finish. Does not know the gradient of an op, which stands in the op's own file.
#include "graph/op.h"

#include "base/alloc.h"

#include <stdlib.h>

bool graph_requires_grad(const graph_value *v)
{
    return v && v->requires_grad;
}

int graph_trained_param(const graph *g, const graph_value *w)
{
    return w && !g->param[w->param].frozen && !g->param[w->param].constant ? w->param : -1;
}

// Settles which forward values require a gradient, as requires_grad of PyTorch's tensors.
static void mark_requires_grad(graph *g)
{
    if (g->input) g->input->requires_grad = !g->input_grad.unused;
    for (int i = 0; i < g->forward.count; i++) {
        graph_node *n = g->forward.node[i];
        bool requires = false;
        for (int k = 0; k < NODE_INPUTS; k++) {
            const graph_value *in = n->in[k];
            requires = requires || graph_requires_grad(in) ||
                       (in && in->param >= 0 && graph_trained_param(g, in) >= 0);
        }
        for (int k = 0; k < NODE_OUTPUTS; k++)
            if (n->out[k]) n->out[k]->requires_grad = requires && n->out[k]->param < 0;
    }
}

// Does a forward node read v, or is it the block's output?
static bool is_used(const graph *g, const graph_value *v)
{
    for (int i = 0; i < g->forward.count; i++)
        for (int k = 0; k < NODE_INPUTS; k++)
            if (g->forward.node[i]->in[k] == v) return true;
    return v == g->output;
}

// After the derivation of every node that reads v: has v no use, or one that gives no gradient?
static bool is_lost(const graph *g, const graph_value *v)
{
    return !v->grad && (v->requires_grad || !is_used(g, v));
}

graph_node *graph_new_grad_node(graph *g, graph_op kind, const graph_node *n)
{
    graph_node *d = graph_add_node(g, &g->backward, kind);
    d->attr = n->attr;
    d->number = n->number;
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
    graph_set_output(sum, 0, graph_new_like(g, "gradient sum", v));
    v->grad = sum->out[0];
}

status graph_derive(graph *g, err *e)
{
    mark_requires_grad(g);
    if (graph_requires_grad(g->output)) {
        g->output->grad = graph_new_like(g, "output gradient", g->output);
        g->output->grad->region = REGION_OUTPUT_GRAD;
    }
    for (int i = g->forward.count - 1; i >= 0; i--) {
        graph_node *n = g->forward.node[i];
        const graph_op_info *o = graph_op_find(n->op);
        if (g->first_error.code != OK) return graph_first_error(g, e);
        if (!o->is_loss && is_lost(g, n->out[0]))
            return err_set(e, E_USAGE, "model graph: the result of %s (node %d) is never used",
                           graph_op_name(n->op), i);
        if (n->out[0]->requires_grad || o->is_loss) o->derive(g, n);
    }
    if (g->first_error.code == OK && g->input && is_lost(g, g->input))
        return err_set(e, E_USAGE, "model graph: the input of a block is never used");
    g->input_grad.unused = !graph_requires_grad(g->input);
    return graph_first_error(g, e);
}

// ---- Recompute

typedef struct graph_recompute_pass {
    graph *g;
    recompute_mode recompute;
    graph_value **again;  // [forward values] the recomputed value, or NULL
    graph_node_list list; // the new backward list
} graph_recompute_pass;

static bool may_run_again(const graph_recompute_pass *r, graph_op op)
{
    const int when = graph_op_find(op)->recompute;
    return when != 0 && when <= (int)r->recompute + 1;
}

// The node that computes v again: its own, or the one that its op has for this.
static graph_node node_again(const graph_recompute_pass *r, const graph_value *v)
{
    const graph_op_info *o = graph_op_find(v->producer->op);
    const bool other = o->again && v == v->producer->out[0] && !may_run_again(r, v->producer->op);
    graph_node n = other ? o->again(v->producer) : *v->producer;
    n.recomputed = true;
    return n;
}

static bool may_recompute(const graph_recompute_pass *r, const graph_value *v)
{
    return v->producer && may_run_again(r, node_again(r, v).op);
}

// Returns the value that the backward list reads instead of forward value v: v itself where it is
// saved. Else v's node, and what it needs, is appended to the list once.
static graph_value *recompute_value(graph_recompute_pass *r, graph_value *v)
{
    if (!v || r->g->first_error.code != OK || !may_recompute(r, v)) return v;
    if (r->again[v->id]) return r->again[v->id];
    const graph_node n = node_again(r, v);
    graph_node *copy = NULL;
    if (!graph_check(r->g, alloc_zeroed(&copy, 1, sizeof *copy, "", NULL))) return v;
    *copy = n;
    for (int i = 0; i < NODE_INPUTS; i++) copy->in[i] = recompute_value(r, n.in[i]);
    for (int i = 0; i < NODE_OUTPUTS; i++) {
        if (!n.out[i]) continue;
        copy->out[i] = graph_new_like(r->g, n.out[i]->name, n.out[i]);
        copy->out[i]->producer = copy;
        r->again[n.out[i]->id] = copy->out[i];
    }
    graph_value *again = r->again[v->id];
    graph_node_list_add(r->g, &r->list, copy);
    return again;
}

status graph_plan_recompute(graph *g, recompute_mode recompute, err *e)
{
    status result = OK;
    const int forward_values = g->values.count;
    // Ids do not say which list makes a value: inputs, gradients and forward values share them.
    char *is_forward = NULL;
    graph_recompute_pass r = {.g = g, .recompute = recompute};
    TRY(alloc_zeroed(&is_forward, (size_t)forward_values, 1, "a graph", e));
    TRY(alloc_zeroed(&r.again, (size_t)forward_values, sizeof *r.again, "a graph", e));
    for (int i = 0; i < g->forward.count; i++)
        for (int k = 0; k < NODE_OUTPUTS; k++)
            if (g->forward.node[i]->out[k]) is_forward[g->forward.node[i]->out[k]->id] = 1;
    for (int i = 0; i < g->backward.count; i++) {
        graph_node *n = g->backward.node[i];
        for (int k = 0; k < NODE_INPUTS; k++) {
            graph_value *v = n->in[k];
            if (v && v->id < forward_values && is_forward[v->id]) n->in[k] = recompute_value(&r, v);
        }
        graph_node_list_add(g, &r.list, n);
    }
    free(g->backward.node);
    g->backward = r.list;
    TRY(graph_first_error(g, e));
done:
    free(is_forward);
    free(r.again);
    return result;
}
