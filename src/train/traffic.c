// traffic.c -- computes the bytes that this rank sends in a step from its plan and its blocks, and
// reads the bytes that communicators and tiers have counted so far. Called by trainer.c, and by the
// commands and tests that compare both.
#include "parallel/traffic.h"

#include "base/alloc.h"
#include "train/trainer_private.h"

// What each pass sends to the process group of axis `over`.
static void traffic_passes(const graph *g, graph_axis over, double sent[COMPUTES])
{
    const graph_node_list *back = &g->backward;
    const int split = g->split.dgrad_nodes;
    sent[COMPUTES_FORWARD] = graph_sent_bytes(g, over, &g->forward, 0, g->forward.count);
    sent[COMPUTES_DGRAD | COMPUTES_WGRAD] = graph_sent_bytes(g, over, back, 0, back->count);
    sent[COMPUTES_DGRAD] = graph_sent_bytes(g, over, back, 0, split);
    sent[COMPUTES_WGRAD] = graph_sent_bytes(g, over, back, split, back->count);
}

static traffic_block traffic_of(const graph *g)
{
    traffic_block b = {
        .input = g->input ? (double)graph_value_bytes(g->input) : 0,
        .output = g->output ? (double)graph_value_bytes(g->output) : 0,
    };
    traffic_passes(g, GRAPH_TP, b.tp);
    traffic_passes(g, GRAPH_CP, b.cp);
    return b;
}

status trainer_count_traffic(trainer *t, err *e)
{
    traffic_block *b;
    const status result = alloc_zeroed(&b, (size_t)t->model->blocks, sizeof *b, "the plan", e);
    if (result != OK) return result;
    for (int i = 0; i < t->model->blocks; i++) b[i] = traffic_of(t->model->block[i].g);
    traffic_count(t->plan, &t->schedule, b, STEP_SUMS * sizeof(double));
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
