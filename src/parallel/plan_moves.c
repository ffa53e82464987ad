// plan_moves.c -- which collectives, on which axis and on which pieces, take weights and gradients
// from one placement to another: the table of placements, walked axis by axis. Called by plan_make.
//
// Sums go inner axis first and gathers outer axis first: a part of a part is cut from the inner
// part, and neighbouring ranks are summed before distant ones, as in one flat sum over all.
#include "parallel/plan_private.h"

#include <stdlib.h>

// The two data-parallel axes in the order of summation.
static const struct {
    axis axis;
    level bit;
} AXIS_OF[2] = {{AXIS_DP_SHARD, LEVEL_INNER}, {AXIS_DP_REPLICATE, LEVEL_OUTER}};

static int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

// Row r's part at `from`, cut over `parts` ranks in units of its columns.
static comm_segment segment_of(const plan *p, const plan_row *r, level array, level own, level from,
                               int64_t parts)
{
    const bucket_range *b = &p->bucket[r->bucket];
    const span whole = plan_span(p, r, from, p->at), base = plan_span(p, r, array, p->at);
    return (comm_segment){.whole = r->at[array] - b->first[array] + whole.first - base.first,
                          .own = r->at[own] - b->first[own],
                          .count = whole.count,
                          .chunk = ceil_div(whole.count / r->cols, parts) * r->cols};
}

static comm_segment *segments(const plan *p, level array, level own, level from, int parts)
{
    comm_segment *s = calloc((size_t)p->here + 1, sizeof *s);
    for (int i = 0; s && i < p->here; i++)
        s[i] = segment_of(p, &p->row[p->order[i]], array, own, from, parts);
    return s;
}

static status add(plan *p, plan_moves *m, axis a, transition how, level from, level to, err *e)
{
    if (how == MOVE_NOTHING || how == MOVE_TAKE_PART || p->o.mesh.size[a] == 1) return OK;
    if (how == MOVE_ILLEGAL)
        return err_set(e, E_INTERNAL, "no collective on %s makes this move of placements",
                       axis_name(a));
    plan_move *x = &m->at[m->count++];
    *x = (plan_move){.axis = a, .how = how, .from = from, .to = to};
    // A sum of all of an array's bucket is one run; of a part of it, many.
    if (how == MOVE_ALL_REDUCE && from == m->array) return OK;
    level cut = how == MOVE_ALL_GATHER ? to : from;
    x->segment = segments(p, m->array, how == MOVE_ALL_GATHER ? from : to, cut, p->o.mesh.size[a]);
    return x->segment ? OK : err_set(e, E_IO, "no memory for the plan");
}

// Sums on both axes, inner first.
static status sum_moves(plan *p, plan_moves *m, level from, const placement have[2],
                        const placement want[2], err *e)
{
    status result = OK;
    for (int i = 0; i < 2; i++) {
        transition how = placement_move(have[i], want[i]);
        level to = how == MOVE_REDUCE_SCATTER ? from | AXIS_OF[i].bit : from;
        TRY(add(p, m, AXIS_OF[i].axis, how, from, to, e));
        if (p->o.mesh.size[AXIS_OF[i].axis] > 1) from = to;
    }
done:
    return result;
}

// Gathers on both axes, outer first.
static status gather_moves(plan *p, plan_moves *m, level from, const placement have[2],
                           const placement want[2], err *e)
{
    status result = OK;
    for (int i = 1; i >= 0; i--) {
        transition how = placement_move(have[i], want[i]);
        level to = how == MOVE_ALL_GATHER ? from & ~AXIS_OF[i].bit : from;
        TRY(add(p, m, AXIS_OF[i].axis, how, from, to, e));
        if (p->o.mesh.size[AXIS_OF[i].axis] > 1) from = to;
    }
done:
    return result;
}

static status regather_move(plan *p, err *e)
{
    plan_move *x = &p->regather.at[0];
    p->regather.array = LEVEL_WHOLE; // a slot
    if (!p->keeps_parts) return OK;
    *x = (plan_move){
        .axis = AXIS_GROUP, .how = MOVE_ALL_GATHER, .from = LEVEL_GROUP, .to = LEVEL_WHOLE};
    x->segment = segments(p, LEVEL_WHOLE, LEVEL_GROUP, LEVEL_WHOLE, p->o.reshard);
    p->regather.count = 1;
    return x->segment ? OK : err_set(e, E_IO, "no memory for the plan");
}

status plan_make_moves(plan *p, err *e)
{
    status result = OK;
    const policy *inner = &p->policy.inner, *outer = &p->policy.outer;
    const placement summand[2] = {PARTIAL, PARTIAL}, whole[2] = {WHOLE, WHOLE},
                    gradient[2] = {inner->gradient, outer->gradient},
                    optimizer[2] = {inner->optimizer, outer->optimizer},
                    weight[2] = {inner->weight, outer->weight};
    p->gather.array = LEVEL_WHOLE; // a slot
    p->micro.array = LEVEL_WHOLE;  // a slot
    p->step.array = p->gradient;
    p->publish.array = p->weight;
    TRY(gather_moves(p, &p->gather, p->weight, weight, whole, e));
    TRY(regather_move(p, e));
    TRY(sum_moves(p, &p->micro, LEVEL_WHOLE, summand, gradient, e));
    TRY(sum_moves(p, &p->step, p->gradient, gradient, optimizer, e));
    TRY(gather_moves(p, &p->publish, p->optimizer, optimizer, weight, e));
done:
    return result;
}

void plan_free_moves(plan *p)
{
    plan_moves *all[] = {&p->gather, &p->regather, &p->micro, &p->step, &p->publish};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < all[i]->count; k++) free(all[i]->at[k].segment);
}
