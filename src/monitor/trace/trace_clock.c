// trace_clock.c -- finds the machines of a trace and their clocks (trace_clock.h).
#include "monitor/trace/trace_clock.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The id of the machine's start is equal for all processes that have its clock, also in containers.
static bool same_machine(const spans_head *a, const spans_head *b)
{
    return a->boot[0] ? strcmp(a->boot, b->boot) == 0
                      : !b->boot[0] && strcmp(a->host, b->host) == 0;
}

static void name_machine(trace_clocks *c, trace_machine *m)
{
    int number = 1;
    for (int i = 0; i < c->machines; i++)
        number += strcmp(c->machine[i].head->host, m->head->host) == 0;
    const char *host = m->head->host[0] ? m->head->host : "host";
    if (number > 1)
        snprintf(m->name, sizeof m->name, "%s (%d)", host, number);
    else
        snprintf(m->name, sizeof m->name, "%s", host);
}

static status add_rank(trace_clocks *c, const spans_head *h, err *e)
{
    status result = OK;
    int i = 0;
    while (i < c->machines && !same_machine(c->machine[i].head, h)) i++;
    c->of[h->rank] = i;
    if (i < c->machines) {
        const spans_head *best = c->machine[i].head;
        const bool better = h->clock.error_ns >= 0 &&
                            (best->clock.error_ns < 0 || h->clock.error_ns < best->clock.error_ns);
        if (better) c->machine[i].head = h;
        return OK;
    }
    TRY(alloc_grow(&c->machine, &c->room, (size_t)i + 1, sizeof *c->machine,
                   "the machines of a trace", e));
    c->machine[i] = (trace_machine){.head = h, .first = h->rank};
    name_machine(c, &c->machine[i]);
    c->machines++;
done:
    return result;
}

static status set_offsets(trace_clocks *c, err *e)
{
    const spans_clock *base = &c->machine[0].head->clock;
    for (int i = 1; i < c->machines; i++) {
        trace_machine *m = &c->machine[i];
        const spans_clock *clock = &m->head->clock;
        const bool known = clock->error_ns >= 0;
        if (!known || base->error_ns < 0)
            return err_set(e, E_USAGE,
                           "rank %d (host %s): its clock was not compared with those of other "
                           "machines, so its times cannot stand beside theirs",
                           known ? c->machine[0].first : m->first,
                           known ? c->machine[0].name : m->name);
        m->offset_ns = clock->offset_ns - base->offset_ns;
        m->error_ns = clock->error_ns + base->error_ns;
    }
    return OK;
}

status trace_clocks_find(const run_view *v, trace_clocks *c, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(&c->of, (size_t)v->ranks, sizeof *c->of, "the machines of a trace", e));
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r]) TRY(add_rank(c, v->rank[r]->head, e));
    if (!c->machines) FAIL(E_USAGE, "%s: has no records of ranks", v->folder);
    TRY(set_offsets(c, e));
done:
    if (result != OK) trace_clocks_clear(c);
    return result;
}

void trace_clocks_clear(trace_clocks *c)
{
    free(c->machine);
    free(c->of);
    *c = (trace_clocks){0};
}
