// flows.c -- the time of flows: latencies of their rounds, and the slowest of what moves at the same time. See flows.h.
#include "planner/flows.h"

#include <math.h>

// Seconds for so many bytes; bandwidth 0 limits nothing.
static double seconds_of(double bytes, double bytes_per_s)
{
    return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

// Ranks of a host that send at the same time, and the NICs of the host that they have together.
double planner_network_bytes_per_s(const planner_links *l, const planner_group *g)
{
    const double nic = l->level[COMM_NETWORK].bytes_per_s, nics = l->nics;
    double senders = fmax(1, (double)g->per_host * g->neighbours);
    if (l->ranks_per_host > 0) senders = fmin(senders, l->ranks_per_host);
    double share = nic * fmin(1, nics / senders);
    if (l->switch_hosts > 0 && g->hosts > l->switch_hosts && l->oversubscription > 1)
        share = fmin(share, nic * nics / l->oversubscription / senders);
    return share;
}

// What the rank's part of its host's network carries. Ranks that send with fewer others than the host has take more
// than their part, which counts as all of it.
static double network_part(const planner_links *l)
{
    const double nic = l->level[COMM_NETWORK].bytes_per_s;
    return l->ranks_per_host > 0 ? nic * l->nics / l->ranks_per_host : nic;
}

planner_claim planner_flows_claim(const comm_flows *f, const planner_group *g,
                                  const planner_links *l)
{
    const double network = planner_network_bytes_per_s(l, g),
                 link = l->level[COMM_HOST_LINK].bytes_per_s;
    double sent[COMM_LEVELS] = {0}, memory = 0;
    planner_claim out = {.seconds = 0};
    for (int i = 0; i < f->count; i++) {
        const comm_flow *x = &f->flow[i];
        for (int k = 0; k < COMM_LEVELS; k++) {
            out.seconds += x->rounds[k] * l->level[k].latency_s;
            sent[k] += x->sent[k];
        }
        memory += x->memory;
        out.seconds += fmax(seconds_of(x->memory, l->memory_bytes_per_s),
                            fmax(seconds_of(x->sent[COMM_NETWORK], network),
                                 seconds_of(x->sent[COMM_HOST_LINK], link)));
    }
    if (out.seconds <= 0) return out;
    out.share[RESOURCE_COMPUTE] = l->compute_share;
    out.share[RESOURCE_MEMORY] = fmin(1, seconds_of(memory, l->memory_bytes_per_s) / out.seconds);
    out.share[RESOURCE_LINK] = fmin(1, seconds_of(sent[COMM_HOST_LINK], link) / out.seconds);
    out.share[RESOURCE_NETWORK] =
        fmin(1, seconds_of(sent[COMM_NETWORK], network_part(l)) / out.seconds);
    return out;
}

comm_described_call planner_described_call(const planner_group *g, const comm_call *c, double bytes,
                                           bool any_order)
{
    // A list counts of an all_to_all without counts what goes to one rank.
    const bool of_one = c->kind == CALL_ALL_TO_ALL && !c->in_counts;
    return (comm_described_call){.on = {g->ranks, g->per_host, g->hosts},
                                 .kind = c->kind,
                                 .type = c->type,
                                 .bytes = of_one ? bytes * g->ranks : bytes,
                                 .segments = c->segment != NULL,
                                 .in_place = c->in_place,
                                 .any_order = any_order};
}
