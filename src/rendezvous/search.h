// search.h -- the search for the rank that keeps the others waiting, after a rank has waited for too long.
//
// A rank that does not come may itself wait for another one. So a search goes from the rank that waited too long to the
// one that it waits for, and on. It ends at a rank that does not wait: that one is named. Ranks that wait for each other
// in a circle are a deadlock: then the one is named that the lowest of them waits for, so all searches name the same.
// Each step is made on the host of the rank, whose memory tells whether it waits (watchdog.h). On one host the rank that
// waited too long searches; between hosts the processes that speak for them hand the search to each other
// (hosts_search.c). It does not know how ranks wait.
#ifndef TRIREME_RENDEZVOUS_SEARCH_H
#define TRIREME_RENDEZVOUS_SEARCH_H

#include "rendezvous/failure.h"

#include <stddef.h>
#include <stdint.h>

// A wait as its rank writes it. The ranks of a host may be different programs in memory, so there are no pointers.
typedef struct comm_waiting {
    int64_t awaited; // rank of the run
    uint64_t what;   // the waiting rank's activity when it issued the call
    char call[48], label[32];
} comm_waiting;
enum { COMM_WAITING_WORDS = sizeof(comm_waiting) / sizeof(uint64_t) };

enum { COMM_SEARCH_CALL_BYTES = 256 };

// A search as it goes from host to host. There is no padding.
typedef struct comm_search {
    int32_t rank;         // whom it looks at, among all
    int32_t steps;        // so far
    int32_t mark, lowest; // a rank of the way, and the lowest one since
    int32_t last;   // of a circle: the rank whose awaited one is named; -1: no circle was found
    int32_t closed; // the circle is closed, and `rank` is named
    char call
        [COMM_SEARCH_CALL_BYTES]; // that the rank did not come to: "all_reduce over dp (REDUCE_GRAD bucket 0)"
} comm_search;

struct comm_watchdog;
struct comm_last_calls;
struct comm_wait;

// The searcher of a host, and what it has seen of the rank that it looks at.
typedef struct comm_searcher {
    struct comm_watchdog *watchdog;
    comm_failure *failure;
    const struct comm_last_calls *last_calls; // NULL: nothing is recorded
    int first, ranks;                         // the ranks whose activities the watchdog has
    int describer;   // of them, counted from the first: one of the calling process
    int32_t steps;   // of the search when it began to look at the rank; -1: it looks at none
    uint64_t number; // of the rank's wait then
    int64_t last_ns, quiet_ns; // since when the rank has not written that it waits
} comm_searcher;

// A search that begins with a wait.
void comm_search_begin(comm_searcher *s, const struct comm_wait *wait, comm_search *out);
// Looks at the rank of the search, which is one of s. The caller calls it every 20 to 100 ms. It goes on to another rank,
// or, after three seconds in which the rank has not written that it waits, makes it the failure of the run. Returns
// whether it has done either.
bool comm_search_look(comm_searcher *s, comm_search *x);
// Makes the rank of the search the failure of the run, as far as it is known.
void comm_search_end(comm_searcher *s, const comm_search *x);

#endif
