// packing.c -- lists the calls over segments of a trainer. See packing.h. Called by segments.c. The calls
// of redistributions are those of redistribute.c, with and without compression; those of passes are
// those of context parallelism.
#include "train/packing.h"

#include "base/alloc.h"
#include "graph/op.h"
#include "parallel/hook.h"
#include "train/redistribute.h"

#include <stdlib.h>

// ---- Redistributions

// With PowerSGD: the redistribution of the rows that are not factored.
static status add_rest(const plan *p, const plan_redistribution *m, int bucket,
                       const redistribute_use *use, comm_packing *to, err *e)
{
    status result = OK;
    const plan_bucket *b = &p->bucket[bucket];
    comm_segment *s = NULL;
    TRY(alloc_zeroed(&s, (size_t)p->local_rows, sizeof *s, "packed segments", e));
    for (int i = 0; i < m->count; i++) {
        plan_redistribution rest = {.count = 1, .step = {m->step[i]}, .layout = m->layout};
        rest.step[0].segment = s;
        for (int k = b->first_row; k < b->first_row + b->rows; k++)
            s[k] = hook_row_segment(p, m, i, k);
        TRY(redistribute_add_calls(p, &rest, bucket, use, to, e));
    }
done:
    free(s);
    return result;
}

// Gradients are reduced in place, or from a gradient slot to the shards that are kept.
static status add_gradients(const plan *p, const plan_redistribution *m, int bucket,
                            comm_packing *to, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(p, bucket);
    const dtype type = hook_type(p);
    const redistribute_use in_place = {type, STREAM_COMM, .has_shards = false},
                           to_shards = {type, STREAM_COMM, .has_shards = true};
    TRY(redistribute_add_calls(p, m, bucket, &in_place, to, e));
    if (g->gradient_slots) TRY(redistribute_add_calls(p, m, bucket, &to_shards, to, e));
    if (p->o.strategy.hook.kind == HOOK_POWERSGD) TRY(add_rest(p, m, bucket, &in_place, to, e));
done:
    return result;
}

static status add_bucket(const plan *p, int bucket, comm_packing *to, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(p, bucket);
    const plan_redistributions *r = &g->redistribute;
    const redistribute_use unshard = {g->o.compute, STREAM_COMM, .has_shards = true},
                           updated = {g->o.compute, STREAM_COMPUTE, .has_shards = false};
    TRY(redistribute_add_calls(p, &r->unshard, bucket, &unshard, to, e));
    TRY(redistribute_add_calls(p, &r->unshard_post_forward, bucket, &unshard, to, e));
    TRY(redistribute_add_calls(p, &r->all_gather_updated, bucket, &updated, to, e));
    TRY(add_gradients(p, &r->reduce_micro_batch, bucket, to, e));
    TRY(add_gradients(p, &r->reduce_step, bucket, to, e));
done:
    return result;
}

// ---- Passes

static status add_nodes(const plan *p, const graph_node_list *l, comm_packing *to, err *e)
{
    status result = OK;
    const int group = (int)mesh_axes_in_use(&p->o.mesh, MESH_AXIS(AXIS_CP));
    for (int i = 0; i < l->count; i++) {
        graph_cp_call c;
        if (!graph_cp_call_of(l->node[i], &c)) continue;
        TRY(comm_packing_add(to,
                             &(comm_packed_call){.segment = c.segment,
                                                 .segments = c.segments,
                                                 .rank = plan_group_index(p, group),
                                                 .size = plan_group_ranks(p, group),
                                                 .gathers = c.gathers,
                                                 .in_place = true,
                                                 .type = c.type,
                                                 .stream = STREAM_COMPUTE},
                             e));
    }
done:
    return result;
}

static status add_model(const plan *p, const model *m, comm_packing *to, err *e)
{
    status result = OK;
    if (!m || p->o.mesh.size[AXIS_CP] == 1) return OK;
    for (int b = 0; b < m->blocks; b++) {
        if (!plan_has_block(p, b)) continue;
        TRY(add_nodes(p, &m->block[b].g->forward, to, e));
        TRY(add_nodes(p, &m->block[b].g->backward, to, e));
    }
done:
    return result;
}

status packing_add_calls(const plan *p, const model *m, const model *eval, comm_packing *to, err *e)
{
    status result = OK;
    for (int b = 0; b < p->buckets; b++) TRY(add_bucket(p, b, to, e));
    TRY(add_model(p, m, to, e));
    TRY(add_model(p, eval, to, e));
done:
    return result;
}
