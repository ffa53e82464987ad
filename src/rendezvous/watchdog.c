// watchdog.c -- what each rank is doing and for whom it waits, and the error of a rank that has waited too long. See
// watchdog.h. Called by communicators, while they wait and when a wait has ended without its event.
#include "rendezvous/watchdog.h"

#include "base/clock.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ACTIVITY_BYTES = 96, LAST_CALL_BYTES = 160 };

// A rank that waits for the result of a search looks each LOOK_NS, and counts at most COUNTED_NS of the time between two
// looks, because the process may be stopped. ANSWER_MS beyond the watchdog's limit it gives up: who searched is stopped or gone.
enum { LOOK_NS = 20000000, COUNTED_NS = 100000000, ANSWER_MS = 60000 };

void comm_watchdog_describe(comm_watchdog *w, int describer, int of, const char *is,
                            const comm_last_calls *calls, char *out, size_t room)
{
    char what[ACTIVITY_BYTES] = "", last[LAST_CALL_BYTES] = "", in[16] = "";
    void (*describe)(uint64_t, char *, size_t) = atomic_load(&w->activities[describer].describe);
    const uint64_t code = atomic_load(&w->activities[of].what);
    if (describe && code) describe(code, what, sizeof what);
    if (calls && calls->recorder) calls->describe(calls->recorder, of, last, sizeof last);
    if (what[0]) snprintf(in, sizeof in, "; it %s in ", is);
    snprintf(out, room, "%s%s%s%s", in, what, last[0] ? "; its last call is " : "", last);
}

// ---- Waits

void comm_watchdog_wait(comm_watchdog *w, const comm_wait *wait)
{
    comm_activity *a = &w->activities[wait->waiting - wait->first];
    comm_waiting x = {.awaited = wait->awaited, .what = wait->what};
    uint64_t words[COMM_WAITING_WORDS], number = atomic_load(&a->number);
    // Another thread of the rank may wait, too, and just write: then its wait is as good.
    if (wait->awaited == wait->waiting || number & 1 ||
        !atomic_compare_exchange_strong(&a->number, &number, number + 1))
        return;
    snprintf(x.call, sizeof x.call, "%s", wait->call);
    snprintf(x.label, sizeof x.label, "%s", wait->label ? wait->label : "");
    memcpy(words, &x, sizeof words);
    for (int i = 0; i < COMM_WAITING_WORDS; i++) atomic_store(&a->waiting[i], words[i]);
    atomic_store(&a->number, number + 2);
}

uint64_t comm_watchdog_waiting(comm_watchdog *w, int of, comm_waiting *out)
{
    const comm_activity *a = &w->activities[of];
    uint64_t words[COMM_WAITING_WORDS];
    const uint64_t number = atomic_load(&a->number);
    for (int i = 0; i < COMM_WAITING_WORDS; i++) words[i] = atomic_load(&a->waiting[i]);
    memcpy(out, words, sizeof words);
    return number & 1 || atomic_load(&a->number) != number ? 0 : number;
}

// Leaves the search to the process that speaks for this host, or to this rank. Returns whether this rank asked first.
static bool ask(comm_watchdog *w, const comm_search *x)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&w->asks, &none, 1)) return false;
    w->search = *x;
    atomic_store(&w->asks, 2);
    return true;
}

status comm_watchdog_error(comm_watchdog *w, comm_failure *f, const comm_wait *wait, err *e)
{
    const struct timespec look = {0, LOOK_NS};
    comm_search search;
    comm_searcher s = {.watchdog = w,
                       .failure = f,
                       .last_calls = wait->last_calls,
                       .first = wait->first,
                       .ranks = wait->ranks,
                       .describer = wait->waiting - wait->first,
                       .steps = -1};
    if (comm_failure_known(f)) return comm_failure_error(f, e);
    comm_search_begin(&s, wait, &search);
    const bool searches = ask(w, &search) && !atomic_load(&w->searches);
    const int64_t most_ns = (atomic_load(&w->limit_ms) + ANSWER_MS) * 1000000;
    int64_t waited_ns = 0, last = clock_ns();
    while (!comm_failure_known(f)) {
        const bool is_local = search.rank >= s.first && search.rank < s.first + s.ranks;
        comm_watchdog_wait(w, wait);
        if (searches && is_local)
            comm_search_look(&s, &search);
        else if (searches || waited_ns > most_ns)
            comm_search_end(&s, &search);
        nanosleep(&look, NULL);
        const int64_t now = clock_ns();
        waited_ns += size_min(now - last, COUNTED_NS);
        last = now;
    }
    return comm_failure_error(f, e);
}
