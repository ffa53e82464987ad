// traffic.c -- lists the calls of a schedule from the blocks of a model, and reads the bytes that communicators and
// tiers have counted so far. Called by trainer.c, and by the commands and tests that compare both.
#include "base/alloc.h"
#include "graph/op.h"
#include "parallel/calls.h"
#include "train/trainer_private.h"

// A call that is not over segments counts the elements of a shard, an all-reduce those of the array.
static int64_t shards_of(const graph *g, const graph_call *c)
{
    return c->kind == CALL_ALL_REDUCE ? 1 : g->position.mesh.size[c->over];
}

// Adds the calls of nodes first … last-1, unless `to` is NULL. Returns their number.
static int add_calls(const graph *g, const graph_node_list *l, int first, int last,
                     schedule_call *to)
{
    int count = 0;
    for (int i = first; i < last; i++) {
        graph_call c;
        if (!graph_call_of(g, l->node[i], &c)) continue;
        if (to)
            to[count] = (schedule_call){
                .call = {.kind = c.kind,
                         .type = c.type,
                         .count =
                             c.segment || c.in_counts ? 0 : (size_t)(c.count / shards_of(g, &c)),
                         .segment = c.segment,
                         .segments = c.segments,
                         .in_place = c.segment,
                         .in_counts = c.in_counts,
                         .out_counts = c.out_counts},
                .group = MESH_AXIS(c.over),
                .array = IN_VALUES};
        count++;
    }
    return count;
}

static calls_value value_of(const graph_value *v)
{
    return v ? (calls_value){v->type, graph_value_count(v)} : (calls_value){F32, 0};
}

// The calls of a block go to `to`; NULL: they are counted.
static calls_block block_of(const graph *g, schedule_call *to)
{
    const graph_node_list *back = &g->backward;
    const int split = g->split.dgrad_nodes;
    calls_block b = {.call = to, .input = value_of(g->input), .output = value_of(g->output)};
    b.forward = add_calls(g, &g->forward, 0, g->forward.count, to);
    b.dgrad = add_calls(g, back, 0, split, to ? to + b.forward : NULL);
    b.wgrad = add_calls(g, back, split, back->count, to ? to + b.forward + b.dgrad : NULL);
    return b;
}

status trainer_list_calls(const trainer *t, const model *m, schedule *s, err *e)
{
    status result = OK;
    calls_block *blocks = NULL;
    schedule_call *call = NULL;
    size_t count = 0;
    for (int i = 0; i < m->blocks; i++) {
        const calls_block b = block_of(m->block[i].g, NULL);
        count += (size_t)(b.forward + b.dgrad + b.wgrad);
    }
    TRY(alloc_zeroed(&blocks, (size_t)m->blocks, sizeof *blocks, "the plan", e));
    TRY(alloc_zeroed(&call, count, sizeof *call, "the plan", e));
    count = 0;
    for (int i = 0; i < m->blocks; i++) {
        blocks[i] = block_of(m->block[i].g, call + count);
        count += (size_t)(blocks[i].forward + blocks[i].dgrad + blocks[i].wgrad);
    }
    TRY(calls_list(s, t->plan, blocks, e));
done:
    free(call);
    free(blocks);
    return result;
}

void trainer_add_traffic(const trainer *t, double *sent)
{
    groups_add_sent(t->groups, sent);
}

void trainer_add_tiers(const trainer *t, tier_counters *to)
{
    tiers_count(t, to);
}
