// pair_values.c -- what was measured between two hosts: beside the other pairs, and as JSON. See pairs.h.
#include "doctor/hosts/pairs.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOWER       0.6 // of the median: pairs share processors and switches
#define LONGER       4.0 // times the median of latencies,
#define LEAST_LONGER 200 // and so many us more

double host_pair_rate(const host_pair *p)
{
    return p->link.out.gbits < p->link.in.gbits ? p->link.out.gbits : p->link.in.gbits;
}

bool host_pair_is_measured(const host_pair *p)
{
    return p->state == PAIR_MEASURED && !p->link.out.stalled && !p->link.in.stalled;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

status host_pairs_medians(const host_pair *pairs, int count, pair_medians *out, err *e)
{
    status result = OK;
    double *rates = NULL, *latencies = NULL;
    int measured = 0;
    TRY(alloc_zeroed(&rates, (size_t)count + 1, sizeof *rates, "pairs of hosts", e));
    TRY(alloc_zeroed(&latencies, (size_t)count + 1, sizeof *latencies, "pairs of hosts", e));
    for (int i = 0; i < count; i++) {
        if (!host_pair_is_measured(&pairs[i])) continue;
        rates[measured] = host_pair_rate(&pairs[i]);
        latencies[measured++] = pairs[i].link.latency_us;
    }
    *out = (pair_medians){median_of(rates, measured), median_of(latencies, measured), false};
    if (measured > 0 && measured <= 3)
        *out = (pair_medians){rates[measured - 1], latencies[0], true};
done:
    free(rates);
    free(latencies);
    return result;
}

bool host_pair_is_slow(const host_pair *p, const pair_medians *m)
{
    return host_pair_is_measured(p) && host_pair_rate(p) < SLOWER * m->gbits;
}

bool host_pair_takes_long(const host_pair *p, const pair_medians *m)
{
    return host_pair_is_measured(p) && p->link.latency_us > LONGER * m->latency_us &&
           p->link.latency_us > m->latency_us + LEAST_LONGER;
}

// ---- JSON

status host_pair_to_json(const host_pair *p, json_t **out, err *e)
{
    *out = json_pack("{s:i,s:i,s:i,s:f,s:f,s:f,s:b,s:b,s:s}", "from", p->from, "to", p->to, "state",
                     (int)p->state, "latency_us", p->link.latency_us, "out_gbits",
                     p->link.out.gbits, "in_gbits", p->link.in.gbits, "out_stalled",
                     p->link.out.stalled, "in_stalled", p->link.in.stalled, "why", p->why);
    return *out ? OK : alloc_failed(sizeof *p, "a pair of hosts", e);
}

bool host_pair_from_json(const json_t *from, host_pair *out)
{
    int state, out_stalled, in_stalled;
    const char *why;
    *out = (host_pair){0};
    if (json_unpack((json_t *)from, "{s:i,s:i,s:i,s:F,s:F,s:F,s:b,s:b,s:s}", "from", &out->from,
                    "to", &out->to, "state", &state, "latency_us", &out->link.latency_us,
                    "out_gbits", &out->link.out.gbits, "in_gbits", &out->link.in.gbits,
                    "out_stalled", &out_stalled, "in_stalled", &in_stalled, "why", &why) != 0 ||
        state < PAIR_UNKNOWN || state > PAIR_LOST)
        return false;
    out->state = (pair_state)state;
    out->link.out.stalled = out_stalled;
    out->link.in.stalled = in_stalled;
    snprintf(out->why, sizeof out->why, "%s", why);
    return true;
}
