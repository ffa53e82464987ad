// nccl_private.h -- the inside of the communicator nccl: its structs, and what its files call of each other.
// Only nccl*.c and their tests include it.
#ifndef TRIREME_COMM_NCCL_PRIVATE_H
#define TRIREME_COMM_NCCL_PRIVATE_H

#include "comm/call.h"
#include "comm/nccl/nccl.h"
#include "comm/registry.h"
#include "comm/watcher.h"
#include "device/collectives.h"
#include "device/kernels.h"
#include "device/sharing.h"
#include "rendezvous/rendezvous.h"

enum {
    NCCL_PART_BYTES = 4 << 20, // of the workspace, for the calls on one kind of stream
    NCCL_BUFFER_BYTES =
        64 << 20 // that the library takes for a clique: an estimate, from no measurement of ours
};

typedef struct nccl_comm nccl_comm;

// What all communicators of a rank share.
typedef struct nccl_rank {
    int users;  // communicators
    int opened; // so far
    world *world;
    int rank; // among all
    device *device;
    const device_collectives *library;
    bool any_order;
    pthread_mutex_t rendezvous; // held by who uses the store
    comm_watcher watcher;       // its lock is held by who uses a clique, or the next one
    nccl_comm *first;           // the communicators, by `next`
} nccl_rank;

struct nccl_comm {
    comm base;
    nccl_rank *own;
    comm_rendezvous rendezvous;
    int number;            // its members open their communicators in one order, by this number
    int *ranks;            // [size] members, among all ranks
    device_clique *clique; // NULL: one rank, or the run has failed
    char *work;            // STREAMS parts
    // In page-aligned memory of the host: a stream of the kind has come to a call and has not done it.
    device_flag *begun;           // [STREAMS]
    device_stream *sent_on;       // the stream of the latest send
    device_event *sent;           // for send_wait on another stream
    _Atomic uint64_t issued;      // calls
    _Atomic(const char *) latest; // the name of the latest call
    _Atomic int settling;         // the host waits until the library has issued a call
    int64_t waits_ns;             // for which the watcher has seen the rank in one call
    int64_t asks_ns;              // after which it asks the store for whom it waits
    uint64_t seen;                // `issued` when the watcher looked last
    int late;  // a member that does not wait, since the latest call; -1: not known
    bool told; // the store says that this rank waits
    nccl_comm *next;
};

static inline nccl_comm *nccl_of(comm *c)
{
    return (nccl_comm *)c;
}

static inline status nccl_check(const nccl_comm *c, err *e)
{
    return comm_failure_check(c->own->world->failure, e);
}

// ---- nccl.c

// Runs one call of the library, and waits until it is issued. E_PEER where the run has failed.
typedef status (*nccl_library_call)(device_clique *c, const device_collective *x, device_stream *on,
                                    err *e);
status nccl_call(nccl_comm *c, nccl_library_call issue, const device_collective *x,
                 device_stream *on, err *e);
// The same for messages, which start together.
status nccl_exchange(nccl_comm *c, const device_message *m, int count, device_stream *on, err *e);

// ---- nccl_collective.c

// The stream comes to a call, and has done it. The watcher sees what lies between.
void nccl_begin(nccl_comm *c, const char *name, device_stream *on);
void nccl_end(nccl_comm *c, device_stream *on);

status nccl_run_collective(nccl_comm *c, const comm_call *call, device_stream *on, err *e);

// ---- nccl_tree.c

// How many elements of each rank a workspace of `room` bytes holds, and where the array of rank r lies there.
size_t nccl_tree_room(size_t room, int ranks, dtype t);
void *nccl_tree_place(void *work, size_t room, int ranks, dtype t, int r);
// out [count] = the tree over in[0] … in[ranks-1]. in[r] is the place of rank r, but for in[own], which stays as it is
// unless it is `out`. The places are undefined after it.
void nccl_tree_reduce(device_stream *on, const void *const *in, int ranks, int own, void *out,
                      void *work, size_t room, size_t count, dtype t, reduce_op op);

// ---- nccl_message.c

status nccl_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status nccl_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);

// ---- nccl_watch.c

// The function of the watcher: ends all cliques when the run has failed, takes the library's errors, and bounds waits.
void nccl_look(void *own, int64_t passed_ns);

#endif
