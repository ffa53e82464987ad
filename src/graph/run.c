// run.c -- walks a list of nodes and lets each op launch its kernels. See run.h.
#include "graph/run.h"
#include "graph/op.h"

#include <math.h>

void *run_at(const run_context *x, const value *v)
{
    if (!v) return NULL;
    if (v->place == PLACE_PARAM) return x->weight[v->param];
    size_t offset = v->offset + v->view;
    // One after the other, each attention of the block has a row per token.
    if (v->place == PLACE_CACHE)
        offset = v->offset * (size_t)x->cache_rows +
                 (size_t)(x->pos0 * value_cols(v->root)) * dtype_bytes(v->type);
    return x->base[v->place] + offset;
}

float *run_grad(const run_context *x, int p, bool *accumulate)
{
    *accumulate = *x->touched[p];
    *x->touched[p] = true;
    return x->gradient[p];
}

uint64_t run_row0(const run_context *x, const value *v)
{
    uint64_t part = v->cut == CUT_ROWS ? (uint64_t)(x->g->cut.rank * value_rows(v)) : 0;
    return x->row0 + part;
}

rng_key run_key(const run_context *x, const node *n)
{
    return rng_key_make(x->seed, RNG_DROPOUT, x->step,
                        (uint64_t)x->block << 16 | (uint64_t)n->number);
}

static status run_nodes(const run_context *x, const node_list *l, int first, int last, err *e)
{
    status result = OK;
    for (int i = first; i < last; i++) TRY(op_find(l->at[i]->op)->run(x, l->at[i], e));
done:
    return result;
}

status graph_run_forward(const run_context *x, err *e)
{
    return run_nodes(x, &x->g->forward, 0, x->g->forward.count, e);
}

status graph_run_backward(const run_context *x, err *e)
{
    return run_nodes(x, &x->g->backward, 0, x->g->backward.count, e);
}

status graph_run_backward_input(const run_context *x, err *e)
{
    return run_nodes(x, &x->g->backward, 0, x->g->input_half, e);
}

status graph_run_backward_weight(const run_context *x, err *e)
{
    return run_nodes(x, &x->g->backward, x->g->input_half, x->g->backward.count, e);
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
