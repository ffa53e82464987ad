// hier_private.h -- the inside of the communicator hier: its structs, and what its files call of each other. Only
// hier*.c include it.
#ifndef TRIREME_COMM_HIER_PRIVATE_H
#define TRIREME_COMM_HIER_PRIVATE_H

#include "comm/hier/hier.h"
#include "comm/local/local.h"
#include "comm/network/network.h"

enum {
    HIER_WORK_BYTES = 4 << 20,
    HIER_SMALL_BYTES = 16 << 10, // of an array that every rank of a host sums with the other hosts
};

// How the ranks of a group lie on hosts. It decides of what all collectives are made.
typedef enum hier_layout {
    HIER_ONE_HOST, // of local
    HIER_EVEN, // of local, then of the network between the ranks with one number in their hosts, then of local: each host
    // has the same number of adjacent ranks, a power of two above 1. A host's sum is then a subtree.
    HIER_ANY, // of the network over all ranks
} hier_layout;

typedef struct hier_comm hier_comm;

// What all communicators of a rank share.
typedef struct hier_rank {
    int users; // communicators
    world *world;
    comm *root;                 // the network, over all ranks; NULL: they are on one host
    int rank, local_rank, host; // among all ranks, and of this host; the host's first rank
} hier_rank;

struct hier_comm {
    comm base;
    hier_rank *own;
    hier_layout layout;
    comm *local; // local: the ranks of this host; NULL: this one is alone there
    comm *all;   // the network: all ranks; NULL: they are on one host
    comm *
        remote; // the network: the ranks with this one's number in their hosts; NULL: not HIER_EVEN
    int *place; // [size] number of a rank in local; -1: it is on another host
    int *member;      // [size] the rank with a number in local
    comm_queue queue; // of the collectives
    doorbell_limits limits;
    char *work; // [HIER_WORK_BYTES] of the arena, where the layout is HIER_EVEN
};

// A collective on its way through a stream.
typedef struct hier_call {
    hier_comm *comm;
    comm_call call;
    comm_signature signature; // of the call: its steps carry it, and ranks compare it
    uint32_t ticket;          // place in the queue: the number of calls before it, modulo 2^32
    uint64_t what;            // this rank's activity when it issued the call
    comm_visit *met;          // of the steps that it has run; NULL: nobody asks
} hier_call;
_Static_assert(sizeof(hier_call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

static inline hier_comm *hier_of(comm *c)
{
    return (hier_comm *)c;
}

// E_PEER after a failure: nothing is issued any more.
static inline status hier_check(const hier_comm *c, err *e)
{
    const comm_failure *f = c->own->world->failure;
    return comm_failure_known(f) ? comm_failure_error(f, e) : OK;
}

// ---- hier_collective.c

// Runs a hier_call to its end, when the calls before it are done.
status hier_run_collective(void *call, err *e);
// Waits until all collectives that were issued are done.
status hier_drain(hier_comm *c, err *e);

// ---- hier_message.c

status hier_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status hier_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);

#endif
