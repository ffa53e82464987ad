// toy_network.h -- what a library for communication does beneath toy_comm.c: the ranks of a group, which
// are threads, meet, and their bytes are moved. Its functions block the calling thread. It knows neither
// streams nor devices: addresses are those that the calling thread can read.
#ifndef TRIREME_TESTS_TOY_TOY_NETWORK_H
#define TRIREME_TESTS_TOY_TOY_NETWORK_H

#include "comm/registry.h"

enum { TOY_RANKS = 16 };

typedef struct toy_group toy_group;

// A rank of a group that makes a call.
typedef struct toy_member {
    world *world;
    toy_group *group;
    int rank;
    const char *label; // of the group; NULL: none
    uint64_t what;     // the rank's activity when it issued the call
} toy_member;

// Calls of streams and calls of hosts meet apart, so that a barrier does not wait for a stream.
typedef enum toy_side { TOY_ON_STREAM, TOY_ON_HOST, TOY_SIDES } toy_side;

// `ranks` [size] are the world ranks of its members. E_USAGE for more than TOY_RANKS.
status toy_group_open(int size, const int *ranks, toy_group **out, err *e);
// The member makes no more calls. The last one to leave frees the group.
void toy_group_leave(toy_group *g, int rank);
int toy_group_world_rank(const toy_group *g, int rank);

// The next five return E_PEER after any failure of the world, and make one when a rank does not come
// before the watchdog's limit, has left, or brings another call. A rank's calls of one kind are numbered
// in the order in which they run here, so a call that a device recorded may run any number of times.
//
// Carries out this rank's next call of a side, when every rank of the group has brought its own.
status toy_meet(const toy_member *m, toy_side side, const comm_call *call, err *e);
// Offers the next message to rank `peer`, and does not wait for it.
status toy_offer(const toy_member *m, int peer, const void *from, size_t bytes, err *e);
// Receives the next message of rank `peer`.
status toy_receive(const toy_member *m, int peer, void *to, size_t bytes, err *e);
// The n-th call waits until `peer` has received the first n messages.
status toy_await_next(const toy_member *m, int peer, err *e);
// Waits until `peer` has received the first `messages` messages.
status toy_await(const toy_member *m, int peer, uint64_t messages, err *e);

#endif
