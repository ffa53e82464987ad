// comm_fit.c -- fits latency and bandwidth of links to measured calls of a communicator: the least sum of squared
// relative errors with no negative term. The times of a flow's parts are added in it, which makes the fit linear. See
// comm_rates.h. Called by comm_rates_json.c, and by who measures.
#include "base/alloc.h"
#include "planner/comm_rates.h"

#include <stdlib.h>
#include <string.h>

// The terms: rounds of each level, bytes of the two levels that have links, and bytes in memory.
enum { TERM_LINK = COMM_LEVELS, TERM_NETWORK, TERM_MEMORY, TERMS, SWEEPS = 2000 };

typedef struct fit_figures {
    double square[TERMS][TERMS], right[TERMS];
} fit_figures;

static bool terms_of(const comm_point *p, double out[TERMS])
{
    comm_flows f;
    const comm_call call = {.kind = p->kind, .type = F32, .in_place = p->segments};
    comm_described_call c = planner_described_call(&p->group, &call, p->bytes, false);
    c.bytes = p->bytes;
    c.segments = p->segments;
    memset(out, 0, TERMS * sizeof *out);
    if (p->seconds <= 0 || !comm_flows_of(p->communicator, &c, &f)) return false;
    for (int i = 0; i < f.count; i++) {
        for (int k = 0; k < COMM_LEVELS; k++) out[k] += f.flow[i].rounds[k];
        out[TERM_LINK] += f.flow[i].sent[COMM_HOST_LINK];
        // The ranks of a host share its network.
        out[TERM_NETWORK] += f.flow[i].sent[COMM_NETWORK] * p->group.per_host * p->group.neighbours;
        out[TERM_MEMORY] += f.flow[i].memory;
    }
    return true;
}

static void add_point(const comm_point *p, fit_figures *q)
{
    double term[TERMS];
    if (!terms_of(p, term)) return;
    for (int i = 0; i < TERMS; i++) {
        for (int k = 0; k < TERMS; k++)
            q->square[i][k] += term[i] * term[k] / (p->seconds * p->seconds);
        q->right[i] += term[i] / p->seconds;
    }
}

// One term after the other takes its best value beside the others.
static void solve(const fit_figures *q, double out[TERMS])
{
    memset(out, 0, TERMS * sizeof *out);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int i = 0; i < TERMS; i++) {
            double left = q->right[i];
            for (int k = 0; k < TERMS; k++) left -= k == i ? 0 : q->square[i][k] * out[k];
            out[i] = q->square[i][i] > 0 && left > 0 ? left / q->square[i][i] : 0;
        }
}

static double rate(double seconds_per_byte)
{
    return seconds_per_byte > 0 ? 1 / seconds_per_byte : 0;
}

static void fit_one(const comm_rates *r, comm_fit *fit)
{
    fit_figures q = {.right = {0}};
    double x[TERMS];
    for (size_t i = 0; i < r->points; i++)
        if (strcmp(r->point[i].communicator, fit->communicator) == 0) add_point(&r->point[i], &q);
    solve(&q, x);
    fit->links =
        (planner_links){.nics = 1, .one_thread = true, .memory_bytes_per_s = rate(x[TERM_MEMORY])};
    for (int k = 0; k < COMM_LEVELS; k++) fit->links.level[k].latency_s = x[k];
    fit->links.level[COMM_HOST_LINK].bytes_per_s = rate(x[TERM_LINK]);
    fit->links.level[COMM_NETWORK].bytes_per_s = rate(x[TERM_NETWORK]);
}

static bool has_fit(const comm_rates *r, const char *communicator)
{
    for (size_t i = 0; i < r->fits; i++)
        if (strcmp(r->fit[i].communicator, communicator) == 0) return true;
    return false;
}

status comm_rates_fit(comm_rates *r, err *e)
{
    status result = OK;
    size_t room = r->fits;
    r->fits = 0;
    for (size_t i = 0; i < r->points; i++) {
        if (has_fit(r, r->point[i].communicator)) continue;
        TRY(alloc_grow(&r->fit, &room, r->fits + 1, sizeof *r->fit, "rates of calls", e));
        comm_fit *fit = &r->fit[r->fits++];
        memset(fit, 0, sizeof *fit);
        memcpy(fit->communicator, r->point[i].communicator, sizeof fit->communicator);
        fit_one(r, fit);
    }
done:
    return result;
}
