// world.h -- what the ranks of one machine share. Each part has its own header and does not know the
// others: the arena (memory that all ranks see), the store (where ranks meet), the first failure, the
// request to stop, the watchdog with the activity of each rank, and the flight recorder.
//
// The starting process opens it and starts the ranks (launch/). Each rank then opens its communicator
// with world_options and comm_open (registry.h). It does not know how ranks are started. Processes
// inherit it through fork. All of it is anonymous shared memory, mapped at one address everywhere.
#ifndef TRIREME_COMM_WORLD_H
#define TRIREME_COMM_WORLD_H

#include "comm/arena.h"
#include "comm/failure.h"
#include "comm/recorder.h"
#include "comm/registry.h"
#include "comm/stop.h"
#include "comm/store.h"
#include "comm/watchdog.h"

#include <stdbool.h>

// The most ranks that one machine starts. Nothing is sized by it.
enum { WORLD_MOST_RANKS = 4096 };

typedef struct world {
    int ranks;         // of this machine
    bool as_threads;   // all ranks are threads of this process
    bool spin;         // every rank can have a core of its own
    comm_arena *arena; // NULL: there is one rank
    comm_store *store; // NULL: there is one rank
    comm_failure *failure;
    comm_stop *stop;
    comm_watchdog *watchdog;
    comm_recorder *recorder; // NULL: nothing is recorded
    size_t bytes;            // of the memory that holds this struct, failure, stop and watchdog
} world;

// Opens a world of `ranks` ranks, 1 to WORLD_MOST_RANKS. as_threads says that all ranks will be
// threads of this process. E_USAGE, or E_IO when the process may not map the memory.
status world_open(int ranks, bool as_threads, world **out, err *e);
// Opens the flight recorder of w with room for `entries` calls of each rank (recorder.h). `compares`: ranks
// compare each collective before it runs. It does nothing where both are 0. Called before ranks start.
status world_record(world *w, int entries, bool compares, err *e);
// Called by the starting process after all ranks have ended. w may be NULL.
void world_close(world *w);

// Returns what rank `rank` of w needs to open a communicator of all ranks of w (comm_open), which
// works on the memory of `d`. The rank waits deadline_ms for the others (0: for ever).
comm_options world_options(world *w, int rank, device *d, int64_t deadline_ms);

#endif
