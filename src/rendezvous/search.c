// search.c -- follows who waits for whom. See search.h. Called by watchdog.c on one host, and by hosts_search.c between
// hosts. It does not know where a search comes from and where it goes.
#include "rendezvous/search.h"

#include "base/clock.h"
#include "base/size.h"
#include "rendezvous/watchdog.h"

#include <stdio.h>
#include <string.h>

// A rank that waits writes so every 20 ms, but on a busy machine it may have to wait for a core. Of the time between two
// looks at most COUNTED_NS count, because the process that looks may have been stopped, too. MOST_STEPS ends a
// search among ranks whose waits change.
enum { ACTIVITY_BYTES = 96, MOST_STEPS = 4096, COUNTED_NS = 100000000 };
#define QUIET_NS INT64_C(3000000000)

// "all_reduce over dp (REDUCE_GRAD bucket 0)"
static void describe_call(const comm_searcher *s, const comm_waiting *x, char *out, size_t room)
{
    char what[ACTIVITY_BYTES] = "";
    void (*describe)(uint64_t, char *, size_t) =
        atomic_load(&s->watchdog->activities[s->describer].describe);
    if (describe && x->what) describe(x->what, what, sizeof what);
    snprintf(out, room, "%.*s%s%.*s%s%s%s", (int)sizeof x->call, x->call,
             x->label[0] ? " over " : "", (int)sizeof x->label, x->label, what[0] ? " (" : "", what,
             what[0] ? ")" : "");
}

void comm_search_begin(comm_searcher *s, const comm_wait *wait, comm_search *out)
{
    comm_waiting x = {.what = wait->what};
    snprintf(x.call, sizeof x.call, "%s", wait->call);
    snprintf(x.label, sizeof x.label, "%s", wait->label ? wait->label : "");
    *out = (comm_search){
        .rank = wait->awaited, .mark = wait->awaited, .lowest = wait->awaited, .last = -1};
    describe_call(s, &x, out->call, sizeof out->call);
}

void comm_search_end(comm_searcher *s, const comm_search *x)
{
    err why = {.code = OK};
    char doing[COMM_DOING_BYTES] = "", waits[96] = "";
    comm_waiting wait;
    const char *host = s->failure->host;
    const int rank = x->rank - s->first;
    const bool is_local = rank >= 0 && rank < s->ranks;
    if (is_local)
        comm_watchdog_describe(s->watchdog, s->describer, rank, "is", s->last_calls, doing,
                               sizeof doing);
    if (is_local && x->closed && comm_watchdog_waiting(s->watchdog, rank, &wait))
        snprintf(waits, sizeof waits, "; it waits for rank %d in %.*s", (int)wait.awaited,
                 (int)sizeof wait.call, wait.call);
    err_set(&why, E_PEER,
            "Watchdog caught collective operation timeout: rank %d%s%s%s did not come to %.*s "
            "within %.3g s%s%s",
            x->rank, is_local && host[0] ? " (host " : "", is_local ? host : "",
            is_local && host[0] ? ")" : "", COMM_SEARCH_CALL_BYTES, x->call,
            (double)atomic_load(&s->watchdog->limit_ms) * 1e-3, waits, doing);
    comm_failure_set_described(s->failure, x->rank, &why); // the text names the rank already
}

// Goes on to the rank that this one waits for. A circle is found as Brent's algorithm does: the mark moves on after 1, 2,
// 4, ... steps, and a search that comes back to it has passed all ranks of the circle since.
static void move(comm_search *x, int next)
{
    const int from = x->rank;
    x->rank = next;
    x->steps++;
    if (from == x->last || x->steps == MOST_STEPS) {
        x->closed = 1;
        return;
    }
    if (next < x->lowest) x->lowest = next;
    if (next == x->mark && x->last < 0) x->last = x->lowest;
    if ((x->steps & (x->steps - 1)) == 0) x->mark = x->lowest = next;
}

bool comm_search_look(comm_searcher *s, comm_search *x)
{
    comm_waiting wait;
    const int64_t now = clock_ns();
    const uint64_t number = comm_watchdog_waiting(s->watchdog, x->rank - s->first, &wait);
    if (s->steps != x->steps) {
        s->steps = x->steps;
        s->number = number;
        s->quiet_ns = 0;
    } else {
        s->quiet_ns += size_min(now - s->last_ns, COUNTED_NS);
    }
    s->last_ns = now;
    if (x->closed || s->quiet_ns > QUIET_NS) {
        comm_search_end(s, x);
        return true;
    }
    if (number == 0 || number == s->number) return false;
    describe_call(s, &wait, x->call, sizeof x->call);
    move(x, (int)wait.awaited);
    return true;
}
