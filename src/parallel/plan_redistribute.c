// plan_redistribute.c -- which collectives, on which axis and on which pieces, take weights and gradients
// from one placement to another: the table of placements, walked axis by axis. Called by plan_make.
//
// Sums go inner axis first and gathers outer axis first: a part of a part is cut from the inner
// part, and neighbouring ranks are summed before distant ones, as in one flat sum over all.
#include "parallel/plan_private.h"

#include <stdlib.h>

// The two data-parallel axes in the order of summation.
static const struct {
    axis axis;
    plan_layout bit;
} DP_AXES[2] = {{AXIS_DP_SHARD, LAYOUT_DP_SHARD}, {AXIS_DP_REPLICATE, LAYOUT_DP_REPLICATE}};

static int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

// Row r's part at `from`, cut over `parts` ranks in units of its columns.
static comm_segment segment_of(const plan *p, const plan_row *r, plan_layout array, plan_layout own,
                               plan_layout from, int64_t parts)
{
    const plan_bucket *b = &p->bucket[r->bucket];
    const plan_shard whole = plan_local_shard(p, r, from, p->coord),
                     base = plan_local_shard(p, r, array, p->coord);
    return (comm_segment){.full_offset =
                              r->offset[array] - b->first[array] + whole.first - base.first,
                          .shard_offset = r->offset[own] - b->first[own],
                          .count = whole.count,
                          .shard_count = ceil_div(whole.count / r->cols, parts) * r->cols};
}

static comm_segment *segments(const plan *p, plan_layout array, plan_layout own, plan_layout from,
                              int parts)
{
    comm_segment *s = calloc((size_t)p->local_rows + 1, sizeof *s);
    for (int i = 0; s && i < p->local_rows; i++)
        s[i] = segment_of(p, &p->row[p->order[i]], array, own, from, parts);
    return s;
}

static status add(plan *p, plan_redistribution *m, axis a, placement_collective how,
                  plan_layout from, plan_layout to, err *e)
{
    if (how == REDISTRIBUTE_NOTHING || how == REDISTRIBUTE_TAKE_SHARD || p->o.mesh.size[a] == 1)
        return OK;
    if (how == REDISTRIBUTE_ILLEGAL)
        return err_set(e, E_INTERNAL, "no collective on %s makes this move of placements",
                       axis_name(a));
    plan_redistribution_step *x = &m->step[m->count++];
    *x = (plan_redistribution_step){.axis = a, .collective = how, .from = from, .to = to};
    // A sum of all of an array's bucket is one run; of a part of it, many.
    if (how == REDISTRIBUTE_ALL_REDUCE && from == m->layout) return OK;
    plan_layout cut = how == REDISTRIBUTE_ALL_GATHER ? to : from;
    x->segment =
        segments(p, m->layout, how == REDISTRIBUTE_ALL_GATHER ? from : to, cut, p->o.mesh.size[a]);
    return x->segment ? OK : err_set(e, E_MEMORY, "no memory for the plan");
}

// Sums on both axes, inner first.
static status reduce_steps(plan *p, plan_redistribution *m, plan_layout from,
                           const placement have[2], const placement want[2], err *e)
{
    status result = OK;
    for (int i = 0; i < 2; i++) {
        placement_collective how = placement_redistribute(have[i], want[i]);
        plan_layout to = how == REDISTRIBUTE_REDUCE_SCATTER ? from | DP_AXES[i].bit : from;
        TRY(add(p, m, DP_AXES[i].axis, how, from, to, e));
        if (p->o.mesh.size[DP_AXES[i].axis] > 1) from = to;
    }
done:
    return result;
}

// Gathers on both axes, outer first.
static status gather_steps(plan *p, plan_redistribution *m, plan_layout from,
                           const placement have[2], const placement want[2], err *e)
{
    status result = OK;
    for (int i = 1; i >= 0; i--) {
        placement_collective how = placement_redistribute(have[i], want[i]);
        plan_layout to = how == REDISTRIBUTE_ALL_GATHER ? from & ~DP_AXES[i].bit : from;
        TRY(add(p, m, DP_AXES[i].axis, how, from, to, e));
        if (p->o.mesh.size[DP_AXES[i].axis] > 1) from = to;
    }
done:
    return result;
}

static status unshard_post_forward_step(plan *p, err *e)
{
    plan_redistribution_step *x = &p->unshard_post_forward.step[0];
    p->unshard_post_forward.layout = LAYOUT_FULL; // a slot
    if (!p->keeps_post_forward_shards) return OK;
    *x = (plan_redistribution_step){.axis = GROUP_POST_FORWARD,
                                    .collective = REDISTRIBUTE_ALL_GATHER,
                                    .from = LAYOUT_POST_FORWARD,
                                    .to = LAYOUT_FULL};
    x->segment = segments(p, LAYOUT_FULL, LAYOUT_POST_FORWARD, LAYOUT_FULL, p->o.reshard);
    p->unshard_post_forward.count = 1;
    return x->segment ? OK : err_set(e, E_MEMORY, "no memory for the plan");
}

status plan_make_redistributions(plan *p, err *e)
{
    status result = OK;
    const policy *inner = &p->policy.inner, *outer = &p->policy.outer;
    const placement summand[2] = {PARTIAL, PARTIAL}, whole[2] = {REPLICATE, REPLICATE},
                    gradient[2] = {inner->gradient, outer->gradient},
                    optimizer[2] = {inner->optimizer, outer->optimizer},
                    weight[2] = {inner->weight, outer->weight};
    p->unshard.layout = LAYOUT_FULL;            // a slot
    p->reduce_micro_batch.layout = LAYOUT_FULL; // a slot
    p->reduce_step.layout = p->gradient;
    p->all_gather_updated.layout = p->weight;
    TRY(gather_steps(p, &p->unshard, p->weight, weight, whole, e));
    TRY(unshard_post_forward_step(p, e));
    TRY(reduce_steps(p, &p->reduce_micro_batch, LAYOUT_FULL, summand, gradient, e));
    TRY(reduce_steps(p, &p->reduce_step, p->gradient, gradient, optimizer, e));
    TRY(gather_steps(p, &p->all_gather_updated, p->optimizer, optimizer, weight, e));
done:
    return result;
}

void plan_free_redistributions(plan *p)
{
    plan_redistribution *all[] = {&p->unshard, &p->unshard_post_forward, &p->reduce_micro_batch,
                                  &p->reduce_step, &p->all_gather_updated};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < all[i]->count; k++) free(all[i]->step[k].segment);
}
