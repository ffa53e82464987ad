// local.h -- one rank's end of a group of ranks on one machine, and the work that its streams run.
// Inside comm/ only.
//
// A call is captured in a `call` when it is issued, and run later by the stream. Calls of one lane
// (the collectives; the sends to one peer; the receives from one peer) run in the order of issue
// whatever streams they were issued to, so that ranks never pair different calls.
#ifndef TRIREME_COMM_LOCAL_H
#define TRIREME_COMM_LOCAL_H

#include "comm/shared.h"

typedef struct lane {
    uint32_t issued; // by the thread that issues work
    bell done;
} lane;

typedef struct local {
    comm base;
    world *world;
    group *group;
    int world_rank;
    uint32_t round; // of the latest round; only the running collective touches it
    lane collectives;
    lane *sends, *receives; // [size]
} local;

typedef enum call_kind {
    CALL_LEAVE = 1, // no call: what a member that closes shows to one that still waits for it
    CALL_BARRIER,
    CALL_ALL_REDUCE,
    CALL_REDUCE_SCATTER,
    CALL_ALL_GATHER,
    CALL_BROADCAST,
    CALL_SEND,
    CALL_RECV,
} call_kind;

typedef struct call {
    local *comm;
    lane *lane;
    uint32_t ticket;
    call_kind kind;
    dtype type;
    reduce_op op;
    int root; // or the peer, in this group
    const void *in;
    void *out;
    size_t count; // all-reduce: of the whole; reduce-scatter, all-gather: own; else: bytes
} call;

// Each runs to its end on the calling thread. E_PEER when a rank was lost or aborted; E_INTERNAL
// when the ranks' calls do not belong together.
status local_run_collective(const call *k, err *e);
// Tells the others that this rank takes part in nothing any more. Does not wait.
void local_leave(local *l);
status local_run_send(const call *k, err *e);
status local_run_recv(const call *k, err *e);

#endif
