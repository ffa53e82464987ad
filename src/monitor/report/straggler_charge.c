// straggler_charge.c -- see straggler_charge.h. It takes time in proportion to the number of ranks.
#include "monitor/report/straggler_charge.h"

#include "base/alloc.h"
#include "monitor/report/statistics.h"

#include <stdlib.h>
#include <string.h>

enum { HOPS = 8, HISTORY = 32, HISTORY_LEAST = 10 };

// Parts of a rank's own work, by cause.
typedef struct straggler_parts {
    double ns[STRAGGLER_CAUSES];
} straggler_parts;

// The earlier steps of a rank that is alone in its stage.
typedef struct straggler_history {
    straggler_parts step[HISTORY];
    uint64_t count;
} straggler_history;

struct straggler_charger {
    int ranks, hosts, stages, recorded;
    straggler_location *location; // [ranks]
    int *member, *first;          // [recorded] sorted by stage; [stages + 1] where a stage begins
    int *on_host, *votes;         // [hosts] recorded ranks; [ranks + hosts] who wait for it
    int *cause_of;                // [ranks] the rank that it waits for in the end; -1: none
    double *wait_ns, *value;      // [ranks]; scratch
    straggler_history *history;   // [stages]
    const spans_step *step;       // the step that is being charged
    double step_ns;
};

// ---- Whom a rank waits for

// Follows the waits to the rank that waited for no other as long. *wait_ns is the wait of `rank`.
static int follow(const straggler_charger *c, int rank, double *wait_ns)
{
    const spans_step *s = c->step;
    int x = s[rank].waited_for;
    double wait = (double)s[rank].waited_for_ns;
    if (x < 0 || x >= c->ranks || x == rank || !c->location[x].is_recorded || wait <= 0) return -1;
    for (int hop = 0; hop < HOPS; hop++) {
        const int next = s[x].waited_for;
        const double its = (double)s[x].waited_for_ns;
        if (next == rank) {
            // Two ranks that wait for each other in turn: the difference counts.
            *wait_ns = wait - its;
            return wait > its ? x : -1;
        }
        *wait_ns = wait;
        if (next < 0 || next >= c->ranks || next == x || !c->location[next].is_recorded ||
            2 * its < wait)
            return x;
        x = next;
    }
    return -1;
}

static void count_votes(straggler_charger *c)
{
    memset(c->votes, 0, (size_t)(c->ranks + c->hosts) * sizeof *c->votes);
    for (int i = 0; i < c->recorded; i++) {
        const int r = c->member[i];
        c->wait_ns[r] = 0;
        c->cause_of[r] = follow(c, r, &c->wait_ns[r]);
        const int of = c->cause_of[r];
        if (of < 0) continue;
        if (c->location[of].stage == c->location[r].stage) c->votes[of]++;
        if (c->location[of].host != c->location[r].host)
            c->votes[c->ranks + c->location[of].host]++;
    }
}

// ---- What a rank's own work takes

static straggler_parts parts_of(const spans_step *s)
{
    const int64_t *ns = s->phase_ns;
    straggler_parts p = {{0}};
    p.ns[STRAGGLER_UNCLEAR] = (double)s->gap_ns;
    p.ns[STRAGGLER_COMPUTE] = (double)(ns[PHASE_FORWARD] + ns[PHASE_BACKWARD] +
                                       ns[PHASE_OPTIMIZER] + ns[PHASE_COPY] + ns[PHASE_OTHER]);
    p.ns[STRAGGLER_INPUT] = (double)ns[PHASE_INPUT];
    p.ns[STRAGGLER_LINK] =
        ns[PHASE_COMM] > s->waited_ns ? (double)(ns[PHASE_COMM] - s->waited_ns) : 0;
    return p;
}

// The medians over the members of a stage but `rank`, and but those of host `host`; -1: none is left out. False where
// nobody is left.
static bool typical(straggler_charger *c, int stage, int rank, int host, straggler_parts *out)
{
    size_t count = 0;
    for (int cause = 0; cause < STRAGGLER_CAUSES; cause++) {
        count = 0;
        for (int i = c->first[stage]; i < c->first[stage + 1]; i++) {
            const int r = c->member[i];
            if (r == rank || c->location[r].host == host) continue;
            c->value[count++] = parts_of(&c->step[r]).ns[cause];
        }
        out->ns[cause] = statistics_median(c->value, count);
    }
    return count > 0;
}

// Sets the excess of a rank, and returns the sum of those parts of the step that take longer.
static int64_t set_excess(straggler_charge *x, const spans_step *s, const straggler_parts *others)
{
    const straggler_parts own = parts_of(s);
    int64_t sum = 0;
    for (int cause = 0; cause < STRAGGLER_CAUSES; cause++) {
        x->excess_ns[cause] = (int64_t)(own.ns[cause] - others->ns[cause]);
        sum += cause && x->excess_ns[cause] > 0 ? x->excess_ns[cause] : 0;
    }
    return sum;
}

static void set_wait(const straggler_charger *c, straggler_charge *x, double wait_ns)
{
    x->wait_ns = (int64_t)wait_ns;
    x->share = wait_ns / c->step_ns;
}

// ---- Ranks

// The median wait of the members of a stage that wait for `rank`.
static double wait_for(straggler_charger *c, int stage, int rank)
{
    size_t count = 0;
    for (int i = c->first[stage]; i < c->first[stage + 1]; i++)
        if (c->cause_of[c->member[i]] == rank) c->value[count++] = c->wait_ns[c->member[i]];
    return statistics_median(c->value, count);
}

// In a pipeline the longest wait of a rank is often for another stage. Then the member that waited least came last in its
// stage. Returns by how much less than the others it waited.
static double find_last(straggler_charger *c, int stage, int *rank)
{
    const int first = c->first[stage], end = c->first[stage + 1];
    size_t count = 0;
    *rank = c->member[first];
    for (int i = first; i < end; i++)
        if (c->step[c->member[i]].waited_ns < c->step[*rank].waited_ns) *rank = c->member[i];
    for (int i = first; i < end; i++)
        if (c->member[i] != *rank) c->value[count++] = (double)c->step[c->member[i]].waited_ns;
    return statistics_median(c->value, count) - (double)c->step[*rank].waited_ns;
}

static void charge_stage(straggler_charger *c, int stage, int late_host, straggler_charge *charge)
{
    const int first = c->first[stage], end = c->first[stage + 1];
    straggler_parts others;
    double wait = 0;
    int last = -1;
    for (int i = first; i < end && last < 0; i++)
        if (2 * c->votes[c->member[i]] > end - first - 1) last = c->member[i];
    if (last >= 0)
        wait = wait_for(c, stage, last);
    else if (c->stages > 1)
        wait = find_last(c, stage, &last);
    if (last < 0 || wait <= 0 || c->location[last].host == late_host) return;
    if (!typical(c, stage, last, -1, &others)) return;
    set_excess(&charge[last], &c->step[last], &others);
    set_wait(c, &charge[last], wait);
}

// A rank alone in its stage: what it takes more than in its own earlier steps, where another waits for it.
static void charge_alone(straggler_charger *c, int stage, straggler_charge *charge)
{
    const int rank = c->member[c->first[stage]];
    straggler_history *h = &c->history[stage];
    straggler_parts before;
    double waited = 0;
    for (int i = 0; i < c->recorded; i++)
        if (c->cause_of[c->member[i]] == rank && c->wait_ns[c->member[i]] > waited)
            waited = c->wait_ns[c->member[i]];
    const size_t count = h->count < HISTORY ? (size_t)h->count : HISTORY;
    for (int cause = 0; cause < STRAGGLER_CAUSES; cause++) {
        for (size_t i = 0; i < count; i++) c->value[i] = h->step[i].ns[cause];
        before.ns[cause] = statistics_median(c->value, count);
    }
    if (count >= HISTORY_LEAST) {
        const double more = (double)set_excess(&charge[rank], &c->step[rank], &before);
        set_wait(c, &charge[rank], more < waited ? more : waited);
    }
    // Slow steps do not become the measure of later ones.
    const double slow = 0.03;
    if (charge[rank].share < slow) h->step[h->count++ % HISTORY] = parts_of(&c->step[rank]);
}

// ---- Hosts

// The median wait for ranks of a host, of the ranks of other hosts.
static double wait_for_host(straggler_charger *c, int host)
{
    size_t count = 0;
    for (int i = 0; i < c->recorded; i++) {
        const int r = c->member[i], of = c->cause_of[r];
        if (of >= 0 && c->location[of].host == host && c->location[r].host != host)
            c->value[count++] = c->wait_ns[r];
    }
    return statistics_median(c->value, count);
}

// Charges a host where all its ranks are late. Otherwise the charge is zero.
static bool charge_host(straggler_charger *c, int host, straggler_charge *x)
{
    const double wait = wait_for_host(c, host);
    straggler_charge least = {.wait_ns = INT64_MAX};
    for (int stage = 0; stage < c->stages; stage++) {
        straggler_parts others;
        if (c->first[stage] == c->first[stage + 1]) continue;
        const bool has_others = typical(c, stage, -1, host, &others);
        for (int i = c->first[stage]; i < c->first[stage + 1]; i++) {
            straggler_charge own = {0};
            const int r = c->member[i];
            if (c->location[r].host != host) continue;
            if (!has_others) return false;
            const int64_t sum = set_excess(&own, &c->step[r], &others);
            if (2 * (double)sum < wait) return false;
            own.wait_ns = sum;
            if (own.wait_ns < least.wait_ns) least = own;
        }
    }
    *x = least;
    set_wait(c, x, wait);
    return true;
}

// Returns the host whose ranks all keep the others waiting; -1: none.
static int charge_hosts(straggler_charger *c, straggler_charge *charge)
{
    for (int host = 0; c->hosts > 1 && host < c->hosts; host++) {
        const int others = c->recorded - c->on_host[host];
        if (c->on_host[host] < 2 || 2 * c->votes[c->ranks + host] <= others) continue;
        if (charge_host(c, host, &charge[c->ranks + host])) return host;
    }
    return -1;
}

bool straggler_charge_step(straggler_charger *c, const spans_step *step, straggler_charge *charge,
                           uint64_t *number)
{
    memset(charge, 0, (size_t)(c->ranks + c->hosts) * sizeof *charge);
    if (!c->recorded) return false;
    *number = step[c->member[0]].step;
    c->step = step;
    for (int i = 0; i < c->recorded; i++) c->value[i] = (double)step[c->member[i]].duration_ns;
    c->step_ns = statistics_median(c->value, (size_t)c->recorded);
    if (c->step_ns <= 0) return false;
    count_votes(c);
    const int late_host = charge_hosts(c, charge);
    for (int stage = 0; stage < c->stages; stage++) {
        const int count = c->first[stage + 1] - c->first[stage];
        if (count > 1) charge_stage(c, stage, late_host, charge);
        if (count == 1) charge_alone(c, stage, charge);
    }
    return true;
}

// ---- The charger

static void sort_by_stage(straggler_charger *c)
{
    for (int r = 0; r < c->ranks; r++)
        if (c->location[r].is_recorded) c->first[c->location[r].stage + 1]++;
    for (int s = 0; s < c->stages; s++) c->first[s + 1] += c->first[s];
    for (int r = 0; r < c->ranks; r++) {
        const straggler_location *p = &c->location[r];
        if (!p->is_recorded) continue;
        c->member[c->first[p->stage]++] = r;
        c->on_host[p->host]++;
        c->recorded++;
    }
    // Each is now where the next one begins.
    for (int s = c->stages; s > 0; s--) c->first[s] = c->first[s - 1];
    c->first[0] = 0;
}

status straggler_charger_open(const straggler_location *locations, int ranks,
                              straggler_charger **out, err *e)
{
    status result = OK;
    straggler_charger *c = NULL;
    const char *what = "the search for stragglers";
    const size_t n = (size_t)ranks, room = n > HISTORY ? n : HISTORY;
    TRY(alloc_zeroed(&c, 1, sizeof *c, what, e));
    c->ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        if (locations[r].host >= c->hosts) c->hosts = locations[r].host + 1;
        if (locations[r].stage >= c->stages) c->stages = locations[r].stage + 1;
    }
    TRY(alloc_zeroed(&c->location, n, sizeof *c->location, what, e));
    memcpy(c->location, locations, n * sizeof *locations);
    TRY(alloc_zeroed(&c->member, n, sizeof *c->member, what, e));
    TRY(alloc_zeroed(&c->first, (size_t)c->stages + 1, sizeof *c->first, what, e));
    TRY(alloc_zeroed(&c->on_host, (size_t)c->hosts, sizeof *c->on_host, what, e));
    TRY(alloc_zeroed(&c->votes, n + (size_t)c->hosts, sizeof *c->votes, what, e));
    TRY(alloc_zeroed(&c->cause_of, n, sizeof *c->cause_of, what, e));
    TRY(alloc_zeroed(&c->wait_ns, n, sizeof *c->wait_ns, what, e));
    TRY(alloc_zeroed(&c->value, room, sizeof *c->value, what, e));
    TRY(alloc_zeroed(&c->history, (size_t)c->stages, sizeof *c->history, what, e));
    sort_by_stage(c);
    *out = c;
    c = NULL;
done:
    straggler_charger_close(c);
    return result;
}

void straggler_charger_close(straggler_charger *c)
{
    if (!c) return;
    free(c->location);
    free(c->member);
    free(c->first);
    free(c->on_host);
    free(c->votes);
    free(c->cause_of);
    free(c->wait_ns);
    free(c->value);
    free(c->history);
    free(c);
}

double straggler_charger_step_ns(const straggler_charger *c)
{
    return c->step_ns;
}

int straggler_charger_members(const straggler_charger *c, int stage)
{
    return c->first[stage + 1] - c->first[stage];
}

int straggler_charger_hosts(const straggler_charger *c)
{
    return c->hosts;
}
