// solo.h -- the communicator of a group of one rank that was split off from others. Only files of
// comm/ include it; comm.h has the communicator of a run with one rank.
#ifndef TRIREME_COMM_SOLO_H
#define TRIREME_COMM_SOLO_H

#include "comm/algorithm.h"
#include "comm/comm.h"
#include "rendezvous/world.h"

extern const comm_capabilities SOLO_CAPABILITIES; // of a run with one rank
// A copy where its arrays are apart (algorithm.h).
void solo_flows(const comm_described_call *c, comm_flows *out);

// Opens the communicator of a group of one rank, with the memory and the failures of world w. w is
// NULL when the run has only one rank.
status comm_solo_open_in(world *w, int world_rank, comm **out, err *e);

#endif
