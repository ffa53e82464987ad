// peers.h -- the connections between the processes that another program has started, one for each rank of this
// machine: rank 0 has one to each other process, and each of these has one to rank 0.
//
// attach.c makes them. A connection that ends says that a process is gone. It is lost where it had not said before
// that it leaves (world.ended). As failures lie in shared memory, it is enough that one process notices.
#ifndef TRIREME_RENDEZVOUS_PEERS_H
#define TRIREME_RENDEZVOUS_PEERS_H

#include "rendezvous/world.h"

#include <poll.h>
#include <sys/types.h>

typedef struct comm_peer {
    int rank, fd; // fd -1: the connection has ended
    pid_t pid;
} comm_peer;

typedef struct comm_peers {
    int count;
    comm_peer items[]; // [count]
} comm_peers;

// All may be called where w has no peers.

// Number of connections of w.
int comm_peers_count(const world *w);
// Fills fds [comm_peers_count] for poll. A connection that has ended has the descriptor -1 there.
void comm_peers_poll(const world *w, struct pollfd *fds);
// Notices connections that have ended, and makes a lost rank the failure of the run. Returns whether any is left.
bool comm_peers_check(world *w);

// Rank 0 gives all others a copy of data [bytes], and the table of hosts. E_FIT. Each other rank receives it as *data in
// shared memory, which lives as long as the world. E_PEER where the run has failed or rank 0 is lost. Collective over
// all starting processes.
status comm_peers_broadcast(world *w, const void *data, size_t bytes, err *e);
status comm_peers_receive(world *w, const void **data, size_t *bytes, err *e);

// Says that the ranks of this process have ended in good order, or with a failure that is known.
void comm_peers_leave(world *w);
// Closes the connections of this process. A forked rank does it, too, so that its starting process alone holds them.
void comm_peers_close(world *w);

#endif
