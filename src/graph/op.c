// op.c -- the table of ops, one line for each. Called by whatever walks a list of nodes.
#include "graph/op.h"

const graph_op_info *graph_op_find(graph_op kind)
{
#define GRAPH_ENTRY(kind, name) &op_##name,
    static const graph_op_info *const table[OPS] = {GRAPH_OPS(GRAPH_ENTRY)};
    return table[kind];
}

const char *graph_op_name(graph_op kind)
{
#define GRAPH_NAME(kind, name) #name,
    static const char *const table[OPS] = {GRAPH_OPS(GRAPH_NAME)};
    return table[kind];
}

bool graph_call_of(const graph *g, const graph_node *n, graph_call *out)
{
    const graph_op_info *o = graph_op_find(n->op);
    const graph_value *full = o->call == CALL_REDUCE_SCATTER ? n->in[0] : n->out[0];
    if (o->find_call) return o->find_call(g, n, out);
    if (!o->call) return false;
    *out = (graph_call){.over = n->attr.u.over.axis,
                        .kind = o->call,
                        .type = full->type,
                        .count = graph_value_count(full),
                        .segment = n->attr.u.over.segment,
                        .segments = n->attr.u.over.segments,
                        .in_counts = n->attr.u.over.gives,
                        .out_counts = n->attr.u.over.takes};
    if (out->in_counts) out->kind = CALL_ALL_TO_ALL;
    return true;
}
