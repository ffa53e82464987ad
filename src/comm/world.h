// world.h -- what the ranks of one machine share before any of them runs: the control page of the
// local communicator. The starting process opens it, starts the ranks (launch/), and each rank
// attaches.
//
// Processes inherit it through fork: the control page is anonymous shared memory and bulk memory is
// memfd_create'd, so nothing ever has a name in /dev/shm and nothing is left behind after any end.
#ifndef TRIREME_COMM_WORLD_H
#define TRIREME_COMM_WORLD_H

#include "comm/comm.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct world world;

// `ranks` >= 1, at most 256. as_threads: all ranks will be threads of this process.
status world_open(int ranks, bool as_threads, world **out, err *e);
void world_close(world *w); // NULL allowed; by the starting process after all ranks have ended

// Called by rank `rank` (in its own process or thread), once: gives its communicator (solo when
// ranks == 1).
status world_attach(world *w, int rank, device *d, comm **out, err *e);

// The first failure of the run. world_fail keeps the first caller's record (rank, err) and aborts
// every communicator of the world: pending and later calls on every rank return E_PEER. Rank -1 is
// the starting process. Returns false when another was first.
bool world_fail(world *w, int rank, const err *why);
// The first failure: true and filled when there is one.
bool world_failure(const world *w, int *rank, err *out);
// The starting process says that rank r has ended (in which way is for world_fail to say first).
void world_set_pid(world *w, int rank, pid_t pid);

// A request to stop in good order (Ctrl-C): the ranks read it once a step and agree on the step.
void world_request_stop(world *w);
bool world_stop_requested(const world *w);

#endif
