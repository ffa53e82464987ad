// traffic.c -- computes the bytes that this rank sends in a step from its plan and its blocks, and
// reads the bytes that communicators and tiers have counted so far. Called by trainer.c, and by the
// commands and tests that compare both.
#include "parallel/traffic.h"

#include "base/alloc.h"
#include "train/trainer_private.h"

static traffic_block traffic_of(const graph *g)
{
    const graph_node_list *back = &g->backward;
    return (traffic_block){
        .input = g->input ? (double)graph_value_bytes(g->input) : 0,
        .output = g->output ? (double)graph_value_bytes(g->output) : 0,
        .tp = {[COMPUTES_FORWARD] = graph_sent_bytes(g, &g->forward, 0, g->forward.count),
               [COMPUTES_DGRAD | COMPUTES_WGRAD] = graph_sent_bytes(g, back, 0, back->count),
               [COMPUTES_DGRAD] = graph_sent_bytes(g, back, 0, g->split.dgrad_nodes),
               [COMPUTES_WGRAD] = graph_sent_bytes(g, back, g->split.dgrad_nodes, back->count)}};
}

status trainer_count_traffic(trainer *t, err *e)
{
    traffic_block *b;
    const status result = alloc_zeroed(&b, (size_t)t->model->blocks, sizeof *b, "the plan", e);
    if (result != OK) return result;
    for (int i = 0; i < t->model->blocks; i++) b[i] = traffic_of(t->model->block[i].g);
    traffic_count(t->plan, &t->schedule, b, SUMS * sizeof(double));
    free(b);
    return OK;
}

void trainer_add_traffic(const trainer *t, double *sent)
{
    groups_add_sent(t->groups, sent);
}

void trainer_add_tiers(const trainer *t, tier_counters *to)
{
    tiers_count(t, to);
}
