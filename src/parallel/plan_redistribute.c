// plan_redistribute.c -- plans the redistributions of weights and gradients: which collective runs
// over which process group on which runs of elements. It looks each level up in the table of placement.h.
// Called by plan_make.
//
// Reductions go over the inner level first and all-gathers over the outer level first, because the
// outer level shards the inner level's shard. This order of reductions also sums consecutive ranks
// before distant ones, like one sum over all ranks. Where the ranks of the inner level are no subtree of
// that sum, one all-reduce over both levels replaces the two: only so do all policies have the same bits.
#include "parallel/plan_private.h"

#include "base/alloc.h"
#include "base/size.h"
#include "parallel/hook.h"

#include <stdlib.h>

// The segment of row r that one collective handles in an array of layout `array`. The segment is
// the row's shard in layout `full`. Each of `ranks` ranks has an equal number of the segment's
// dim-0 rows, which an array of layout `shard` holds.
static comm_segment segment_of(const plan *p, const plan_row *r, plan_layout array,
                               plan_layout shard, plan_layout full, int64_t ranks)
{
    const plan_shard run = plan_local_shard(p, r, full, p->coord),
                     base = plan_local_shard(p, r, array, p->coord);
    const int64_t width = plan_row_width(p, r, full);
    return (comm_segment){.full_offset = r->offset[array] + run.first - base.first,
                          .shard_offset = r->offset[shard],
                          .count = run.count,
                          .shard_count = size_ceil_div(run.count / width, ranks) * width};
}

// The segments of the group's rows of this stage, in the order of plan->order; those of other groups
// are zeros. The caller frees *out.
static status segments(const plan *p, const plan_group *g, plan_layout array, plan_layout shard,
                       plan_layout full, int ranks, comm_segment **out, err *e)
{
    const status result = alloc_zeroed(out, (size_t)p->local_rows, sizeof **out, "the plan", e);
    if (result != OK) return result;
    for (int k = g->first_bucket; k < g->first_bucket + g->buckets; k++) {
        const plan_bucket *b = &p->bucket[k];
        for (int i = b->first_row; i < b->first_row + b->rows; i++)
            (*out)[i] = segment_of(p, &p->row[p->order[i]], array, shard, full, ranks);
    }
    return OK;
}

static status add_step(const plan *p, const plan_group *g, plan_redistribution *m, mesh_axes axes,
                       placement_collective collective, plan_layout from, plan_layout to, err *e)
{
    const bool gathers = collective == REDISTRIBUTE_ALL_GATHER;
    char name[MESH_NAME_BYTES];
    if (collective == REDISTRIBUTE_NOTHING || collective == REDISTRIBUTE_TAKE_SHARD || !axes)
        return OK;
    if (collective == REDISTRIBUTE_ILLEGAL)
        return err_set(e, E_INTERNAL, "no collective on %s makes this redistribution",
                       mesh_group_name(&p->o.mesh, axes, name));
    plan_redistribution_step *x = &m->step[m->count++];
    *x = (plan_redistribution_step){.group = (int)axes,
                                    .ranks = mesh_group_size(&p->o.mesh, axes),
                                    .collective = collective,
                                    .from = from,
                                    .to = to};
    // An all-reduce of all elements of a bucket needs no segments.
    if (collective == REDISTRIBUTE_ALL_REDUCE && from == m->layout) return OK;
    return segments(p, g, m->layout, gathers ? from : to, gathers ? to : from, x->ranks,
                    &x->segment, e);
}

static bool reduces(placement before, placement after)
{
    const placement_collective c = placement_redistribute(before, after);
    return c == REDISTRIBUTE_ALL_REDUCE || c == REDISTRIBUTE_REDUCE_SCATTER;
}

// Reductions over both levels, inner first.
static status add_reductions(const plan *p, const plan_group *g, plan_redistribution *m,
                             plan_layout from, const placement before[POLICY_LEVELS],
                             const placement after[POLICY_LEVELS], err *e)
{
    status result = OK;
    if (plan_joins_levels(&p->o, g) && reduces(before[LEVEL_INNER], after[LEVEL_INNER]) &&
        reduces(before[LEVEL_OUTER], after[LEVEL_OUTER]))
        return add_step(p, g, m, plan_group_axes(g), REDISTRIBUTE_ALL_REDUCE, from, from, e);
    for (int l = 0; l < POLICY_LEVELS; l++) {
        const placement_collective collective = placement_redistribute(before[l], after[l]);
        const plan_layout to = collective == REDISTRIBUTE_REDUCE_SCATTER
                                   ? from | plan_level_layout((policy_level)l)
                                   : from;
        TRY(add_step(p, g, m, g->axes[l], collective, from, to, e));
        if (g->axes[l]) from = to;
    }
done:
    return result;
}

// All-gathers over both levels, outer first.
static status add_gathers(const plan *p, const plan_group *g, plan_redistribution *m,
                          plan_layout from, const placement before[POLICY_LEVELS],
                          const placement after[POLICY_LEVELS], err *e)
{
    status result = OK;
    for (int l = POLICY_LEVELS - 1; l >= 0; l--) {
        const placement_collective collective = placement_redistribute(before[l], after[l]);
        plan_layout to = collective == REDISTRIBUTE_ALL_GATHER
                             ? from & ~plan_level_layout((policy_level)l)
                             : from;
        if (to == LAYOUT_FULL) to = m->layout == LAYOUT_PACKED ? LAYOUT_PACKED : LAYOUT_FULL;
        TRY(add_step(p, g, m, g->axes[l], collective, from, to, e));
        if (g->axes[l]) from = to;
    }
done:
    return result;
}

static status add_post_forward_gather(const plan *p, plan_group *g, err *e)
{
    plan_redistribution *m = &g->redistribute.unshard_post_forward;
    m->layout = LAYOUT_FULL; // a slot
    if (!g->keeps_post_forward_shards) return OK;
    m->step[0] = (plan_redistribution_step){.group = GROUP_POST_FORWARD,
                                            .ranks = p->o.strategy.reshard_after_forward,
                                            .collective = REDISTRIBUTE_ALL_GATHER,
                                            .from = LAYOUT_POST_FORWARD,
                                            .to = LAYOUT_FULL};
    m->count = 1;
    return segments(p, g, LAYOUT_FULL, LAYOUT_POST_FORWARD, LAYOUT_FULL, m->step[0].ranks,
                    &m->step[0].segment, e);
}

// PowerSGD factors some rows. The others are reduced over segments, also where an all-reduce of all
// elements has none: then each rank sums an equal part of a row.
static comm_segment rest_of(const plan *p, const plan_redistribution *m,
                            const plan_redistribution_step *x, int position)
{
    const plan_row *r = &p->row[p->order[position]];
    if (hook_factors_row(p, r)) return (comm_segment){0};
    if (x->segment) return x->segment[position];
    const int64_t offset = r->offset[m->layout],
                  count = plan_local_shard(p, r, m->layout, p->coord).count;
    return (comm_segment){.full_offset = offset,
                          .shard_offset = offset,
                          .count = count,
                          .shard_count = size_ceil_div(count, x->ranks)};
}

static status add_rest(const plan *p, const plan_group *g, plan_redistribution *m, err *e)
{
    status result = OK;
    for (int k = 0; p->o.strategy.hook.kind == HOOK_POWERSGD && k < m->count; k++) {
        plan_redistribution_step *x = &m->step[k];
        TRY(alloc_zeroed(&x->rest, (size_t)p->local_rows, sizeof *x->rest, "the plan", e));
        for (int b = g->first_bucket; b < g->first_bucket + g->buckets; b++)
            for (int i = 0; i < p->bucket[b].rows; i++)
                x->rest[p->bucket[b].first_row + i] = rest_of(p, m, x, p->bucket[b].first_row + i);
    }
done:
    return result;
}

static status make_of_group(const plan *p, plan_group *g, err *e)
{
    status result = OK;
    const policy *inner = &g->policy.inner, *outer = &g->policy.outer;
    plan_redistributions *r = &g->redistribute;
    const placement partial[POLICY_LEVELS] = {PARTIAL, PARTIAL},
                    replicate[POLICY_LEVELS] = {REPLICATE, REPLICATE},
                    gradient[POLICY_LEVELS] = {inner->gradient, outer->gradient},
                    optimizer[POLICY_LEVELS] = {inner->optimizer, outer->optimizer},
                    weight[POLICY_LEVELS] = {inner->weight, outer->weight};
    r->unshard.layout = g->o.storage == STORAGE_NF4 ? LAYOUT_PACKED : LAYOUT_FULL; // a slot
    r->reduce_micro_batch.layout = LAYOUT_FULL;                                    // a slot
    r->reduce_step.layout = g->gradient;
    r->all_gather_updated.layout = g->weight;
    TRY(add_gathers(p, g, &r->unshard, g->weight, weight, replicate, e));
    TRY(add_post_forward_gather(p, g, e));
    if (g->o.frozen) return OK; // it has no gradients and no updates
    TRY(add_reductions(p, g, &r->reduce_micro_batch, LAYOUT_FULL, partial, gradient, e));
    TRY(add_reductions(p, g, &r->reduce_step, g->gradient, gradient, optimizer, e));
    TRY(add_gathers(p, g, &r->all_gather_updated, g->optimizer, optimizer, weight, e));
    TRY(add_rest(p, g, &r->reduce_micro_batch, e));
    TRY(add_rest(p, g, &r->reduce_step, e));
done:
    return result;
}

status plan_make_redistributions(plan *p, err *e)
{
    status result = OK;
    for (int i = 0; i < p->groups; i++) TRY(make_of_group(p, &p->group[i], e));
done:
    return result;
}

void plan_free_redistributions(plan *p)
{
    for (int i = 0; p->group && i < p->groups; i++) {
        plan_redistributions *r = &p->group[i].redistribute;
        plan_redistribution *all[] = {&r->unshard, &r->unshard_post_forward, &r->reduce_micro_batch,
                                      &r->reduce_step, &r->all_gather_updated};
        for (size_t m = 0; m < sizeof all / sizeof *all; m++)
            for (int k = 0; k < all[m]->count; k++) {
                free(all[m]->step[k].segment);
                free(all[m]->step[k].rest);
            }
    }
}
