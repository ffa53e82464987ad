// graph_sent.h -- for tests of graphs: the bytes that a rank sends while a list of nodes runs.
#ifndef TRIREME_TESTS_GRAPH_SENT_H
#define TRIREME_TESTS_GRAPH_SENT_H

#include "graph/op.h"

// Over the axis, by the formulas of ring collectives; of an all-to-all, the elements for other ranks.
static double graph_sent_bytes(const graph *g, axis over, const graph_node_list *l)
{
    const double ranks = g->position.mesh.size[over];
    double bytes = 0;
    graph_call c;
    for (int i = 0; i < l->count; i++)
        if (graph_call_of(g, l->node[i], &c) && c.over == over && c.in_counts)
            for (int r = 0; r < (int)ranks; r++)
                bytes += (double)c.in_counts[r] * (double)dtype_bytes(c.type);
        else if (graph_call_of(g, l->node[i], &c) && c.over == over)
            bytes += (c.kind == CALL_ALL_REDUCE ? 2 : 1) * (ranks - 1) / ranks * (double)c.count *
                     (double)dtype_bytes(c.type);
    return bytes;
}

#endif
