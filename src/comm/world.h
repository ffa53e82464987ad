// world.h -- what the ranks of one machine share before any of them runs: the first failure, the
// request to stop, and the memory that all of them see. The starting process opens it, starts the
// ranks (launch/), and each rank attaches.
//
// Processes inherit it through fork: all of it is anonymous shared memory, mapped at one address
// everywhere, so nothing ever has a name in /dev/shm and nothing is left behind after any end.
#ifndef TRIREME_COMM_WORLD_H
#define TRIREME_COMM_WORLD_H

#include "comm/comm.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct world world;

enum { WORLD_RANKS = 256 };

// `ranks` is 1 to WORLD_RANKS. as_threads: all ranks will be threads of this process.
status world_open(int ranks, bool as_threads, world **out, err *e);
void world_close(world *w); // NULL allowed; by the starting process after all ranks have ended

// Called by rank `rank` (in its own process or thread), once: gives its communicator (solo when
// ranks == 1). E_USAGE when the host cannot address the memory of `d`.
status world_attach(world *w, int rank, device *d, comm **out, err *e);

// The first failure of the run. world_fail keeps the first caller's record and aborts every
// communicator of the world: pending and later calls on every rank return E_PEER within about 20
// ms. Rank -1: the starting process, or no rank alone. Returns false when another was first.
bool world_fail(world *w, int rank, const err *why);
// The same, by the starting process, for a rank whose process has ended before its work was done;
// wait_status is waitpid's, `why` (NULL: not known) a line that says more.
bool world_lost(world *w, int rank, pid_t pid, int wait_status, const char *why);
// The first failure: true and filled (rank and out may be NULL) when there is one. out->code is
// that of the failing rank; out->text is the whole line: "rank 1: …", "rank 1 (pid 7) was killed by
// signal 9 (Killed)", or without a rank (*rank -1).
bool world_failure(const world *w, int *rank, err *out);

// How long a rank waits for another one in a collective or for a message before it takes the run
// down and names that rank; 0 = for ever. Time in which the waiting process was stopped does not
// count. Called by every rank with the same value before its first
// collective.
void world_set_watchdog(world *w, int64_t milliseconds);

// What a rank is doing at the moment: the rank writes it, and whoever has waited too long for that
// rank reads it. `what` means what `describe` makes of it; 0: nothing is known.
typedef struct comm_activity {
    _Alignas(64) _Atomic uint64_t what;
    // Writes a few words, such as "FORWARD micro 0 block 2", into out[room]. Called on any rank.
    void (*_Atomic describe)(uint64_t what, char *out, size_t room);
} comm_activity;

comm_activity *world_activity(world *w, int rank); // lives as long as the world

// By the rank itself. One store: cheap enough for every instruction.
static inline void activity_set(comm_activity *a, uint64_t what)
{
    atomic_store_explicit(&a->what, what, memory_order_relaxed);
}

// A request to stop in good order (Ctrl-C): the ranks read it once a step and agree on the step.
// Async-signal-safe.
void world_request_stop(world *w);
bool world_stop_requested(const world *w);

#endif
