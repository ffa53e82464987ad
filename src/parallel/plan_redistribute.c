// plan_redistribute.c -- plans the redistributions of weights and gradients: which collective runs
// over which axis on which runs of elements. It looks each axis up in the table of placement.h.
// Called by plan_make.
//
// Reductions go over the inner axis first and all-gathers over the outer axis first, because the
// outer axis shards the inner axis' shard. This order of reductions also sums consecutive ranks
// before distant ones, like one sum over all ranks.
#include "parallel/plan_private.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>

// The segment of row r that one collective handles in an array of layout `array`. The segment is
// the row's shard in layout `full`. Each of `ranks` ranks has an equal number of the segment's
// dim-0 rows, which an array of layout `shard` holds.
static comm_segment segment_of(const plan *p, const plan_row *r, plan_layout array,
                               plan_layout shard, plan_layout full, int64_t ranks)
{
    const plan_bucket *b = &p->bucket[r->bucket];
    const plan_shard run = plan_local_shard(p, r, full, p->coord),
                     base = plan_local_shard(p, r, array, p->coord);
    return (comm_segment){.full_offset =
                              r->offset[array] - b->first[array] + run.first - base.first,
                          .shard_offset = r->offset[shard] - b->first[shard],
                          .count = run.count,
                          .shard_count = size_ceil_div(run.count / r->cols, ranks) * r->cols};
}

// The segments of all rows of this stage, in the order of plan->order. The caller frees *out.
static status segments(const plan *p, plan_layout array, plan_layout shard, plan_layout full,
                       int ranks, comm_segment **out, err *e)
{
    const status result = alloc_zeroed(out, (size_t)p->local_rows, sizeof **out, "the plan", e);
    for (int i = 0; result == OK && i < p->local_rows; i++)
        (*out)[i] = segment_of(p, &p->row[p->order[i]], array, shard, full, ranks);
    return result;
}

static status add_step(plan *p, plan_redistribution *m, axis a, placement_collective collective,
                       plan_layout from, plan_layout to, err *e)
{
    const bool gathers = collective == REDISTRIBUTE_ALL_GATHER;
    if (collective == REDISTRIBUTE_NOTHING || collective == REDISTRIBUTE_TAKE_SHARD ||
        p->o.mesh.size[a] == 1)
        return OK;
    if (collective == REDISTRIBUTE_ILLEGAL)
        return err_set(e, E_INTERNAL, "no collective on %s makes this redistribution",
                       axis_name(a));
    plan_redistribution_step *x = &m->step[m->count++];
    *x = (plan_redistribution_step){.axis = a, .collective = collective, .from = from, .to = to};
    // An all-reduce of all elements of a bucket needs no segments.
    if (collective == REDISTRIBUTE_ALL_REDUCE && from == m->layout) return OK;
    return segments(p, m->layout, gathers ? from : to, gathers ? to : from, p->o.mesh.size[a],
                    &x->segment, e);
}

// Reductions over both axes, inner first. Placements are in the order of PLAN_DP_AXIS.
static status add_reductions(plan *p, plan_redistribution *m, plan_layout from,
                             const placement before[PLAN_DP_AXES],
                             const placement after[PLAN_DP_AXES], err *e)
{
    status result = OK;
    for (int i = 0; i < PLAN_DP_AXES; i++) {
        const placement_collective collective = placement_redistribute(before[i], after[i]);
        const plan_layout to =
            collective == REDISTRIBUTE_REDUCE_SCATTER ? from | PLAN_DP_AXIS[i].layout : from;
        TRY(add_step(p, m, PLAN_DP_AXIS[i].axis, collective, from, to, e));
        if (p->o.mesh.size[PLAN_DP_AXIS[i].axis] > 1) from = to;
    }
done:
    return result;
}

// All-gathers over both axes, outer first. Placements are in the order of PLAN_DP_AXIS.
static status add_gathers(plan *p, plan_redistribution *m, plan_layout from,
                          const placement before[PLAN_DP_AXES], const placement after[PLAN_DP_AXES],
                          err *e)
{
    status result = OK;
    for (int i = PLAN_DP_AXES - 1; i >= 0; i--) {
        const placement_collective collective = placement_redistribute(before[i], after[i]);
        const plan_layout to =
            collective == REDISTRIBUTE_ALL_GATHER ? from & ~PLAN_DP_AXIS[i].layout : from;
        TRY(add_step(p, m, PLAN_DP_AXIS[i].axis, collective, from, to, e));
        if (p->o.mesh.size[PLAN_DP_AXIS[i].axis] > 1) from = to;
    }
done:
    return result;
}

static status add_post_forward_gather(plan *p, err *e)
{
    plan_redistribution_step *x = &p->redistribute.unshard_post_forward.step[0];
    p->redistribute.unshard_post_forward.layout = LAYOUT_FULL; // a slot
    if (!p->keeps_post_forward_shards) return OK;
    *x = (plan_redistribution_step){.axis = GROUP_POST_FORWARD,
                                    .collective = REDISTRIBUTE_ALL_GATHER,
                                    .from = LAYOUT_POST_FORWARD,
                                    .to = LAYOUT_FULL};
    p->redistribute.unshard_post_forward.count = 1;
    return segments(p, LAYOUT_FULL, LAYOUT_POST_FORWARD, LAYOUT_FULL,
                    p->o.strategy.reshard_after_forward, &x->segment, e);
}

status plan_make_redistributions(plan *p, err *e)
{
    status result = OK;
    const policy *inner = &p->policy.inner, *outer = &p->policy.outer;
    const placement partial[PLAN_DP_AXES] = {PARTIAL, PARTIAL},
                    replicate[PLAN_DP_AXES] = {REPLICATE, REPLICATE},
                    gradient[PLAN_DP_AXES] = {inner->gradient, outer->gradient},
                    optimizer[PLAN_DP_AXES] = {inner->optimizer, outer->optimizer},
                    weight[PLAN_DP_AXES] = {inner->weight, outer->weight};
    p->redistribute.unshard.layout = LAYOUT_FULL;            // a slot
    p->redistribute.reduce_micro_batch.layout = LAYOUT_FULL; // a slot
    p->redistribute.reduce_step.layout = p->gradient;
    p->redistribute.all_gather_updated.layout = p->weight;
    TRY(add_gathers(p, &p->redistribute.unshard, p->weight, weight, replicate, e));
    TRY(add_post_forward_gather(p, e));
    TRY(add_reductions(p, &p->redistribute.reduce_micro_batch, LAYOUT_FULL, partial, gradient, e));
    TRY(add_reductions(p, &p->redistribute.reduce_step, p->gradient, gradient, optimizer, e));
    TRY(add_gathers(p, &p->redistribute.all_gather_updated, p->optimizer, optimizer, weight, e));
done:
    return result;
}

void plan_free_redistributions(plan *p)
{
    plan_redistribution *all[] = {&p->redistribute.unshard, &p->redistribute.unshard_post_forward,
                                  &p->redistribute.reduce_micro_batch, &p->redistribute.reduce_step,
                                  &p->redistribute.all_gather_updated};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < all[i]->count; k++) free(all[i]->step[k].segment);
}
