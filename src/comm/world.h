// world.h -- the state that the ranks of one machine share: the first failure, the request to stop,
// the activity of each rank, and the memory that all ranks see.
//
// The starting process opens it, starts the ranks (launch/), and each rank attaches. It does not
// know how ranks are started. Processes inherit it through fork. All of it is anonymous shared
// memory, mapped at one address everywhere. So nothing has a name in /dev/shm, and nothing is left
// behind when a run ends in any way.
#ifndef TRIREME_COMM_WORLD_H
#define TRIREME_COMM_WORLD_H

#include "comm/comm.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct world world;

enum { WORLD_RANKS = 256 };

// Opens a world of `ranks` ranks, 1 to WORLD_RANKS. as_threads says that all ranks will be threads
// of this process.
status world_open(int ranks, bool as_threads, world **out, err *e);
int world_size(const world *w); // its ranks: those of this machine
// Called by the starting process after all ranks have ended. w may be NULL.
void world_close(world *w);

// Gives rank `rank` the communicator of all ranks (solo when there is one rank). Each rank calls it
// once, in its own process or thread. The caller closes the communicator. E_USAGE when the host
// cannot address the memory of `d`.
status world_attach(world *w, int rank, device *d, comm **out, err *e);

// Records the first failure of the run and aborts every communicator of the world: pending and
// later calls on every rank return E_PEER within about 20 ms. Rank -1 is the starting process, or
// says that no single rank failed. Returns false, and records nothing, when there is a failure
// already.
bool world_fail(world *w, int rank, const err *why);
// Does the same for a rank whose process ended before its work was done. Called by the starting
// process. wait_status comes from waitpid. `why` is one more line of explanation, or NULL.
bool world_lost(world *w, int rank, pid_t pid, int wait_status, const char *why);
// Returns whether there is a failure, and fills *rank and *out, each of which may be NULL.
// out->code is the code of the failing rank. out->text is a full line, such as "rank 1: …" or "rank
// 1 (pid 7) was killed by signal 9 (Killed)". *rank is -1 when no single rank failed.
bool world_failure(const world *w, int *rank, err *out);

// Sets how long a rank waits for another one in a collective, or for a message, before it fails the
// run and names that rank. 0 means for ever. Time in which the waiting process was stopped does not
// count. Every rank calls it with the same value before its first collective.
void world_set_watchdog(world *w, int64_t milliseconds);

// What a rank is doing at the moment. The rank writes it. A rank that has waited too long for it
// reads it, to report it.
typedef struct comm_activity {
    _Alignas(64) _Atomic uint64_t what; // a code that `describe` explains; 0: not known
    // Writes a few words, such as "FORWARD micro 0 block 2", into out[room]. Called on any rank.
    void (*_Atomic describe)(uint64_t what, char *out, size_t room);
} comm_activity;

// The activity of a rank. It lives as long as the world.
comm_activity *world_activity(world *w, int rank);

// Called by the rank itself. It is one store, which is cheap enough for every instruction.
static inline void comm_activity_set(comm_activity *a, uint64_t what)
{
    atomic_store_explicit(&a->what, what, memory_order_relaxed);
}

// Requests that the run stops in good order (Ctrl-C). The ranks read the request once per step and
// agree on the step after which they stop. Async-signal-safe.
void world_request_stop(world *w);
bool world_stop_requested(const world *w);

#endif
