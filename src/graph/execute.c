// execute.c -- walks a list of nodes and lets each op launch its kernels. See execute.h.
#include "graph/execute.h"
#include "graph/op.h"

#include <math.h>

void *graph_run_ptr(const graph_run *x, const graph_value *v)
{
    if (!v) return NULL;
    if (v->place == REGION_PARAM) return x->weight[v->param];
    size_t offset = v->offset + v->view;
    // One after the other, each attention of the block has a row per token.
    if (v->place == REGION_CACHE)
        offset = v->offset * (size_t)x->cache_rows +
                 (size_t)(x->pos0 * graph_value_cols(v->root)) * dtype_bytes(v->type);
    return x->base[v->place] + offset;
}

float *graph_run_grad(const graph_run *x, int p, bool *accumulate)
{
    *accumulate = *x->grad_written[p];
    *x->grad_written[p] = true;
    return x->gradient[p];
}

uint64_t graph_run_row0(const graph_run *x, const graph_value *v)
{
    uint64_t part =
        v->tp_sharding == TP_SHARD_ROWS ? (uint64_t)(x->g->tp.rank * graph_value_rows(v)) : 0;
    return x->row0 + part;
}

rng_key graph_run_key(const graph_run *x, const graph_node *n)
{
    return rng_key_make(x->seed, RNG_DROPOUT, x->step,
                        (uint64_t)x->block << 16 | (uint64_t)n->number);
}

static status run_nodes(const graph_run *x, const graph_node_list *l, int first, int last, err *e)
{
    status result = OK;
    for (int i = first; i < last; i++) TRY(graph_op_find(l->node[i]->op)->run(x, l->node[i], e));
done:
    return result;
}

status graph_run_forward(const graph_run *x, err *e)
{
    return run_nodes(x, &x->g->forward, 0, x->g->forward.count, e);
}

status graph_run_backward(const graph_run *x, err *e)
{
    return run_nodes(x, &x->g->backward, 0, x->g->backward.count, e);
}

status graph_run_dgrad(const graph_run *x, err *e)
{
    return run_nodes(x, &x->g->backward, 0, x->g->dgrad_nodes, e);
}

status graph_run_wgrad(const graph_run *x, err *e)
{
    return run_nodes(x, &x->g->backward, x->g->dgrad_nodes, x->g->backward.count, e);
}

void rope_table_fill(const graph *g, float *out)
{
    for (int64_t t = 0; t < g->rope_rows; t++)
        for (int64_t i = 0; i < g->rope_half; i++) {
            float angle = (float)t * (float)g->rope_frequency[i];
            *out++ = cosf(angle);
            *out++ = sinf(angle);
        }
}
