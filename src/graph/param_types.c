// param_types.c -- parameters whose type is not that of the activations, such as fp32 norms or an fp32
// head in a bf16 model. An op computes in the type of its weight: its input is converted to that type
// and its result is converted back, as a user of PyTorch writes layer(x.float()).to(x.dtype). A bias or
// a table of positions of another type is converted to the type of the weight.
//
// Called by graph_finish before the backward is derived, so the conversions have gradients like any op.
// They take no numbers, so the other nodes keep theirs, and with them their random numbers. Does not
// know who chooses the types.
#include "graph/op.h"

#include <stdlib.h>

static bool has_other_types(const graph *g)
{
    for (int i = 0; i < g->params; i++)
        if (g->param[i].type != g->type) return true;
    return false;
}

// Appends a conversion from x to y.
static void convert_to(graph *g, graph_node_list *l, graph_value *x, graph_value *y)
{
    graph_node *n = graph_add_node(g, l, OP_CONVERT);
    n->number = -1;
    n->in[0] = x;
    n->out[0] = y;
    y->producer = n;
}

static graph_value *new_as_type(graph *g, const graph_value *x, dtype type)
{
    graph_value *y = graph_new_value(g, "converted", type, x->dims, x->dim);
    y->sharding = x->sharding;
    return y;
}

// x in `type`: x itself, or the result of a conversion that is appended. A parameter's conversion stands
// for the parameter, so the op that reads it writes the parameter's gradient.
static graph_value *as_type(graph *g, graph_node_list *l, graph_value *x, dtype type)
{
    if (!x || x->type == type) return x;
    graph_value *y = new_as_type(g, x, type);
    y->param = x->param;
    convert_to(g, l, x, y);
    return y;
}

// Appends n, whose weight has `type`, between the conversions of its input and its result.
static void add_converted(graph *g, graph_node_list *l, graph_node *n, dtype type)
{
    const graph_op_info *o = graph_op_find(n->op);
    graph_value *y = n->out[0];
    n->in[0] = as_type(g, l, n->in[0], o->reads_residual ? F32 : type);
    if (o->is_loss) {
        if (y) y->type = type; // dx, which a later conversion of the gradient reads
        n->out[1]->type = type;
        graph_node_list_add(g, l, n);
        return;
    }
    graph_set_output(n, 0, new_as_type(g, y, type));
    graph_value *result = n->out[0];
    graph_node_list_add(g, l, n);
    convert_to(g, l, result, y);
}

static void add_node(graph *g, graph_node_list *l, graph_node *n)
{
    const graph_op_info *o = graph_op_find(n->op);
    if (!o->has_weight || !n->in[1]) { // such a node knows no type but that of the activations
        for (int k = 0; k < NODE_INPUTS; k++)
            if (n->in[k] && n->in[k]->param >= 0) n->in[k] = as_type(g, l, n->in[k], g->type);
        graph_node_list_add(g, l, n);
        return;
    }
    const dtype type = n->in[1]->type;
    n->in[2] = as_type(g, l, n->in[2], type);
    if (type == g->type || o->gives_residual)
        graph_node_list_add(g, l, n);
    else
        add_converted(g, l, n, type);
}

status graph_convert_params(graph *g, err *e)
{
    if (!has_other_types(g)) return OK;
    graph_node_list list = {0};
    for (int i = 0; i < g->values.count; i++) {
        graph_value *v = g->values.value[i];
        if (v->param >= 0) v->type = g->param[v->param].type;
    }
    for (int i = 0; i < g->forward.count; i++) add_node(g, &list, g->forward.node[i]);
    free(g->forward.node);
    g->forward = list;
    return graph_first_error(g, e);
}

// Does node n use parameter p other than as the matrix of a linear layer?
static bool uses_otherwise(const graph_node *n, int p)
{
    for (int i = 0; i < NODE_INPUTS; i++)
        if (n->in[i] && n->in[i]->param == p && !(i == 1 && graph_op_find(n->op)->is_linear))
            return true;
    return false;
}

bool graph_param_is_linear(const graph *g, int p)
{
    for (int i = 0; i < g->forward.count; i++)
        if (uses_otherwise(g->forward.node[i], p)) return false;
    return true;
}
