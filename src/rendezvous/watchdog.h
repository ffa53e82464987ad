// watchdog.h -- bounds the wait of one rank for another, and names the rank that keeps the others waiting. It lies in
// memory that the ranks of a host share.
//
// Each rank writes its activity. A rank that waits writes for whom, again and again, so a rank that was stopped while it
// waited is told from one that waits. When a rank has waited too long, a search (search.h) goes from it to the rank that
// it waits for, and on, also to other hosts. It ends at a rank that does not wait, and makes the first failure of the run
// from what that rank is doing. It does not know collectives.
#ifndef TRIREME_RENDEZVOUS_WATCHDOG_H
#define TRIREME_RENDEZVOUS_WATCHDOG_H

#include "rendezvous/search.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// The activity of a rank. The rank writes it. A rank that has waited too long for it
// reads it, to report it.
typedef struct comm_activity {
    _Alignas(64) _Atomic uint64_t what; // a code that `describe` explains; 0: not known
    // Writes a few words, such as "FORWARD micro 0 block 2", into out[room]. The rank that set it calls it for the
    // activities of all ranks: in another process the function may lie elsewhere.
    void (*_Atomic describe)(uint64_t what, char *out, size_t room);
    // The wait that this rank is in, a comm_waiting. Its number changes each time that the rank writes it.
    _Alignas(64) _Atomic uint64_t number; // odd: it is being written
    _Atomic uint64_t waiting[COMM_WAITING_WORDS];
} comm_activity;

// Called by the rank itself. It is one store, which is cheap enough for every instruction.
static inline void comm_activity_set(comm_activity *a, uint64_t what)
{
    atomic_store_explicit(&a->what, what, memory_order_relaxed);
}

// Zeroed memory of comm_watchdog_bytes(ranks) is a watchdog without a limit.
typedef struct comm_watchdog {
    _Atomic int64_t limit_ms; // 0: none
    _Atomic int
        asks; // a rank of this host has waited too long: 1: it writes `search`, 2: it is there
    _Atomic int
        searches; // the process that speaks for this host searches (hosts_search.c), and no rank
    comm_search search;         // where the search begins
    comm_activity activities[]; // [ranks]
} comm_watchdog;

static inline size_t comm_watchdog_bytes(int ranks)
{
    return sizeof(comm_watchdog) + (size_t)ranks * sizeof(comm_activity);
}

// Sets how long a rank waits for another one in a collective, or for a message, before it fails the
// run and names that rank. 0 means for ever. Time in which the waiting process was stopped does not
// count. Every rank calls it with the same value before its first collective.
static inline void comm_watchdog_set(comm_watchdog *w, int64_t milliseconds)
{
    atomic_store(&w->limit_ms, milliseconds);
}

// The activity of a rank. It lives as long as the watchdog.
static inline comm_activity *comm_watchdog_activity(comm_watchdog *w, int rank)
{
    return &w->activities[rank];
}

// The flight recorder as this folder sees it: it knows the last call of each rank. Each process has its own; the recorder
// is shared. comm/recorder.h fills it.
typedef struct comm_last_calls {
    struct comm_recorder *recorder; // NULL: nothing is recorded, and nothing below is set
    // Appends what rank `rank` of the watchdog's did last, such as "all_reduce 12 over dp, completed 3.2 s ago".
    void (*describe)(const struct comm_recorder *r, int rank, char *out, size_t room);
    void (*close)(struct comm_recorder *r);
} comm_last_calls;

enum { COMM_DOING_BYTES = 320 };

// Describes in out[room] what rank `of` is doing, or was ("is", "was"), such as "; it was in FORWARD micro 0 block 2; its
// last call is all_reduce 12 over dp, started 0.1 s ago", or "" where that is not known. Both ranks are counted from the
// watchdog's first one. `of` may be dead. `describer` is a rank of the calling process, or of one that it has started.
void comm_watchdog_describe(comm_watchdog *w, int describer, int of, const char *is,
                            const comm_last_calls *calls, char *out, size_t room);

// A rank that waits for another one in a call.
typedef struct comm_wait {
    int waiting, awaited;              // ranks of the run
    int first, ranks;                  // the ranks whose activities the watchdog has
    uint64_t what;                     // the waiting rank's activity when it issued the call
    const char *call;                  // the call that rank `awaited` did not come to
    const char *label;                 // of the group; NULL: none
    const comm_last_calls *last_calls; // NULL: nothing is recorded
} comm_wait;

// Says that the rank waits. A wait that takes longer calls it every 20 ms or so until it ends.
void comm_watchdog_wait(comm_watchdog *w, const comm_wait *wait);
// Reads the wait of a rank, counted from the watchdog's first one. Returns its number: 0: the rank has never waited
// long, or it is just writing.
uint64_t comm_watchdog_waiting(comm_watchdog *w, int of, comm_waiting *out);

// The error of a wait that ended without its event: E_PEER with the failure in f. If there is none,
// the watchdog's time is over: then it blocks until a search has found the rank that keeps the others waiting, and that
// becomes the failure.
status comm_watchdog_error(comm_watchdog *w, comm_failure *f, const comm_wait *wait, err *e);

#endif
