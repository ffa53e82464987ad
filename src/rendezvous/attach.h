// attach.h -- processes of one machine that nobody forked together share the memory of a world: another program
// (torchrun, srun, mpirun, ...) has started one for each rank.
//
// Rank 0 makes the memory and listens on a socket whose abstract name follows from the user and from the identity
// of the job. The others connect, say which slots of their address space are free, and get the descriptor
// of the memory. The sockets stay open: see peers.h. It does not know the launchers.
#ifndef TRIREME_RENDEZVOUS_ATTACH_H
#define TRIREME_RENDEZVOUS_ATTACH_H

#include "rendezvous/world.h"

typedef struct comm_rank_location {
    int rank, ranks;      // of this machine
    int first_rank;       // the number of this machine's first rank among all
    const char *identity; // of the job, equal for all of its processes and for no other's
    const char *version;  // of the program
    int64_t deadline_ms;  // for all to join
} comm_rank_location;

// Opens the world in the process that starts rank p->rank of it. p->ranks is 2 to WORLD_MOST_RANKS. The caller closes
// *out. E_PEER names the ranks that did not join in time, on every rank that did. E_USAGE where two processes have
// one rank, or differ in the number of ranks, the first rank or the version; where another user has the name; and where no slot is free
// in all processes. E_IO. Collective over the processes of all ranks.
status world_attach(const comm_rank_location *p, world **out, err *e);

#endif
