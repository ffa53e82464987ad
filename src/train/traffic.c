// traffic.c -- the bytes that this rank sends: in a step, as its plan and its blocks say, and so
// far, as communicators that count have seen; and those that went to files and back. Called by
// trainer.c and by whoever compares both.
#include "parallel/traffic.h"

#include "comm/trace.h"
#include "train/state.h"

#include <stdlib.h>

static traffic_block traffic_of(const graph *g)
{
    const graph_node_list *back = &g->backward;
    return (traffic_block){.input = g->input ? (double)graph_value_bytes(g->input) : 0,
                           .output = g->output ? (double)graph_value_bytes(g->output) : 0,
                           .forward = graph_sent_bytes(g, &g->forward, 0, g->forward.count),
                           .backward = graph_sent_bytes(g, back, 0, back->count),
                           .backward_input = graph_sent_bytes(g, back, 0, g->dgrad_nodes),
                           .backward_weight =
                               graph_sent_bytes(g, back, g->dgrad_nodes, back->count)};
}

status trainer_count_traffic(trainer *t, err *e)
{
    traffic_block *b = calloc((size_t)t->model->blocks, sizeof *b);
    if (!b) return err_set(e, E_MEMORY, "no memory for the plan");
    for (int i = 0; i < t->model->blocks; i++) b[i] = traffic_of(t->model->block[i].g);
    traffic_count(t->plan, &t->schedule, b, SUMS * sizeof(double));
    free(b);
    return OK;
}

// Messages count where they are sent.
static double sent(const comm *c)
{
    const trace_counts *n = c ? trace_comm_counts(c) : NULL;
    double bytes = 0;
    for (int k = 0; n && k < TRACE_KINDS; k++)
        if (k != TRACE_RECV) bytes += n->kind[k].bytes;
    return bytes;
}

void trainer_add_traffic(const trainer *t, double *moved)
{
    for (int a = 0; a <= GROUP_POST_FORWARD; a++) moved[a] += sent(t->axis[a]);
    moved[AXIS_PP] += sent(t->grads);
    moved[GROUP_TIED] += sent(t->tie);
    moved[GROUP_DP] += sent(t->data);
    moved[GROUP_WORLD] += sent(t->o.comm) + sent(t->agree);
}

void trainer_add_tiers(const trainer *t, tier_counters *to)
{
    for (int k = 0; k < PLAN_STATES; k++) {
        tier_counters c = {0};
        if (!t->tier[k]) continue;
        tier_count(t->tier[k], &c);
        to->bytes_read += c.bytes_read;
        to->bytes_written += c.bytes_written;
        to->seconds_waited += c.seconds_waited;
        to->seconds_moving += c.seconds_moving;
        to->seconds_cpu += c.seconds_cpu;
    }
}
