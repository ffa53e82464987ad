// comm_rates.c -- finds the measured points that are nearest to a call, and what they say of it. See comm_rates.h.
#include "planner/comm_rates.h"

#include "comm/registry.h"

#include <math.h>
#include <string.h>

// A call that is asked for.
typedef struct rates_query {
    const char *communicator;
    planner_group group;
    comm_described_call call;
    double memory_bytes_per_s;
} rates_query;

// ---- The nearest points

static double apart(double a, double b)
{
    return fabs(log2(fmax(a, 1) / fmax(b, 1)));
}

static double groups_apart(const planner_group *a, const planner_group *b)
{
    return apart(a->ranks, b->ranks) + apart(a->per_host, b->per_host) + apart(a->hosts, b->hosts) +
           ((a->hosts > 1) != (b->hosts > 1) ? 8 : 0) + apart(a->neighbours, b->neighbours) / 4;
}

// Kinds are near each other where the rows of the table of calls are alike.
static double kinds_apart(comm_call_kind a, comm_call_kind b)
{
    const comm_call_row *x = comm_call_row_of(a), *y = comm_call_row_of(b);
    if (a == b) return 0;
    return 1 + (x->is_message != y->is_message) * 4 + (!x->compose != !y->compose) * 2 +
           (x->reduces != y->reduces) + (x->in != y->in) + (x->out != y->out);
}

// A kind before a form, and a form before a group.
static double distance(const comm_point *p, const rates_query *w)
{
    return kinds_apart(p->kind, w->call.kind) * 1e6 + (p->segments != w->call.segments ? 1e3 : 0) +
           groups_apart(&p->group, &w->group);
}

static const comm_point *nearest(const comm_rates *r, const rates_query *w)
{
    const comm_point *best = NULL;
    for (size_t i = 0; i < r->points; i++) {
        const comm_point *p = &r->point[i];
        if (strcmp(p->communicator, w->communicator) != 0) continue;
        if (!best || distance(p, w) < distance(best, w)) best = p;
    }
    return best;
}

static bool same_row(const comm_point *a, const comm_point *b)
{
    return a->kind == b->kind && a->segments == b->segments && a->group.ranks == b->group.ranks &&
           a->group.per_host == b->group.per_host && a->group.hosts == b->group.hosts &&
           a->group.neighbours == b->group.neighbours &&
           strcmp(a->communicator, b->communicator) == 0;
}

// ---- Between points

// The points around so many bytes in the row of `like`. Beyond the ends they are the last two, or the first alone.
static void around(const comm_rates *r, const comm_point *like, double bytes,
                   const comm_point **low, const comm_point **high)
{
    const comm_point *below = NULL, *above = NULL, *second = NULL;
    for (size_t i = 0; i < r->points; i++) {
        const comm_point *p = &r->point[i];
        if (!same_row(p, like)) continue;
        if (p->bytes > bytes) {
            if (!above || p->bytes < above->bytes) above = p;
        } else if (!below || p->bytes > below->bytes) {
            second = below;
            below = p;
        } else if (!second || p->bytes > second->bytes) {
            second = p;
        }
    }
    *low = !below ? above : above || !second ? below : second;
    *high = above ? above : below;
}

static double between(double low, double high, double share)
{
    return low + (high - low) * share;
}

// Seconds and cores at so many bytes. A time is a latency and bytes over a bandwidth, so it is linear between sizes
// that are near each other; beyond the last ones it goes on so, and below the first it is a latency.
static comm_point at_bytes(const comm_rates *r, const comm_point *like, double bytes)
{
    const comm_point *low, *high;
    around(r, like, bytes, &low, &high);
    comm_point out = *low;
    if (high->bytes <= low->bytes || bytes <= low->bytes) return out;
    const double share = (bytes - low->bytes) / (high->bytes - low->bytes);
    out.seconds =
        fmax(between(low->seconds, high->seconds, share), fmin(low->seconds, high->seconds));
    out.cores = between(low->cores, high->cores, fmin(share, 1));
    return out;
}

// ---- From one call to another

static const planner_links *links_of(const comm_rates *r, const char *communicator)
{
    for (size_t i = 0; i < r->fits; i++)
        if (strcmp(r->fit[i].communicator, communicator) == 0) return &r->fit[i].links;
    return NULL;
}

static double modelled(const planner_links *l, const char *communicator, const planner_group *g,
                       const comm_described_call *c)
{
    comm_flows f;
    if (!comm_flows_of(communicator, c, &f)) return 0;
    return planner_flows_claim(&f, g, l).seconds;
}

// How much longer the wanted call takes than a call of the row that was found, by the fitted links.
static double ratio(const comm_rates *r, const rates_query *w, const comm_point *found)
{
    const planner_links *l = links_of(r, w->communicator);
    comm_described_call measured = w->call;
    measured.on = (comm_topology){found->group.ranks, found->group.per_host, found->group.hosts};
    measured.kind = found->kind;
    measured.segments = measured.in_place = found->segments;
    measured.type = F32;
    if (!l) return 1;
    const double from = modelled(l, w->communicator, &found->group, &measured),
                 to = modelled(l, w->communicator, &w->group, &w->call);
    return from > 0 && to > 0 ? to / from : 1;
}

// ---- Claims

// On a CPU a call without a thread of its own works on the thread that computes, so nothing else goes on.
static double compute_share(const comm_rates *r, const char *communicator, double cores)
{
    comm_flows_row row;
    if (r->threads == 0 || !comm_flows_row_of(communicator, &row)) return 0;
    return row.can->own_thread ? fmin(1, cores / r->threads) : 1;
}

static void fill_shares(const comm_rates *r, const rates_query *w, double cores, planner_claim *out)
{
    comm_flows f;
    planner_links links = {.nics = 1};
    const planner_links *fitted = links_of(r, w->communicator);
    if (fitted) links = *fitted;
    out->share[RESOURCE_COMPUTE] = compute_share(r, w->communicator, cores);
    if (!comm_flows_of(w->communicator, &w->call, &f)) return;
    links.memory_bytes_per_s = w->memory_bytes_per_s;
    // A rank's part of the network is that of those that call at the same time.
    links.ranks_per_host = w->group.per_host * w->group.neighbours;
    const planner_claim model = planner_flows_claim(&f, &w->group, &links);
    for (int k = RESOURCE_MEMORY; k < PLANNER_RESOURCES; k++)
        out->share[k] = fmin(1, model.share[k] * model.seconds / out->seconds);
}

planner_claim comm_rates_claim(const comm_rates *r, const char *communicator,
                               const planner_group *g, const comm_call *c, double bytes,
                               double memory_bytes_per_s)
{
    const rates_query w = {communicator, *g, planner_described_call(g, c, bytes, false),
                           memory_bytes_per_s};
    planner_claim out = {.seconds = 0};
    const comm_point *row = g->ranks > 1 ? nearest(r, &w) : NULL;
    if (!row) return out;
    const comm_point found = at_bytes(r, row, w.call.bytes);
    out.seconds = found.seconds * ratio(r, &w, &found);
    if (out.seconds > 0) fill_shares(r, &w, found.cores, &out);
    return out;
}

bool comm_rates_have(const comm_rates *r, const char *communicator)
{
    for (size_t i = 0; i < r->points; i++)
        if (strcmp(r->point[i].communicator, communicator) == 0) return true;
    return false;
}
