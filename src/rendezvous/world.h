// world.h -- what the ranks of one machine share. Each part has its own header and does not know the
// others: the arena (memory that all ranks see), the store (where ranks meet), the first failure, the
// request to stop, the watchdog with the activity of each rank, and the flight recorder.
//
// The starting process opens it and starts the ranks (launch/), which inherit it through fork. Where another
// launcher has started a process for each rank, each attaches to the memory of rank 0 (attach.h) and starts that
// one rank. Each rank then opens its communicator (comm/registry.h). It does not know
// how ranks are started. What the ranks share lies in one mapping, at one address everywhere.
#ifndef TRIREME_RENDEZVOUS_WORLD_H
#define TRIREME_RENDEZVOUS_WORLD_H

#include "net/secret.h"
#include "rendezvous/arena.h"
#include "rendezvous/failure.h"
#include "rendezvous/mapping.h"
#include "rendezvous/stop.h"
#include "rendezvous/store.h"
#include "rendezvous/watchdog.h"

#include <stdbool.h>

// The most ranks that one machine starts. Nothing is sized by it.
enum { WORLD_MOST_RANKS = 4096 };

struct comm_peers;
struct comm_hosts;

// Each process has its own; what the pointers point to is shared.
typedef struct world {
    int ranks;      // of this machine
    int first_rank; // the number of the first of them among the ranks of all machines
    int all_ranks;  // of all machines
    int first,
        count; // the ranks that this process starts, of this machine's: first to first + count - 1
    bool as_threads;   // all ranks are threads of this process
    bool spin;         // every rank can have a core of its own
    comm_arena *arena; // NULL: there is one rank
    comm_store *store; // NULL: there is one rank
    comm_failure *failure;
    comm_stop *stop;
    comm_watchdog *watchdog;
    comm_last_calls last_calls; // the flight recorder
    _Atomic int
        *ended; // [ranks]: its process, which another program started, has left in good order
    struct comm_peers
        *peers; // the processes of other ranks (peers.h); NULL: this one starts all ranks
    struct comm_hosts *hosts; // the other machines (hosts.h); NULL: there is none
    net_secret
        secret; // of the run, the same in all of its processes: random, or that by which its hosts meet
    comm_mapping mapping;
} world;

// Opens a world of `ranks` ranks, 1 to WORLD_MOST_RANKS, which this process starts. as_threads says that all ranks
// will be threads of this process. E_USAGE, or E_IO when the process may not map the memory.
status world_open(int ranks, bool as_threads, world **out, err *e);
// Called by a starting process after all ranks that it starts have ended. w may be NULL.
void world_close(world *w);

#endif
