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
    uint64_t issued; // by the thread that issues work
    doorbell done;
} lane;

typedef struct local {
    comm base;
    world *world;
    group *group;
    int world_rank;
    uint32_t round;             // of the latest round; only the running collective touches it
    const struct call *running; // that collective
    lane collectives;
    lane *sends, *receives; // [size]
} local;

typedef enum call_kind {
    CALL_LEAVE = 1, // no call: what a member that closes shows to one that still waits for it
    CALL_BARRIER,
    CALL_ALL_REDUCE,
    CALL_REDUCE_SCATTER,
    CALL_ALL_GATHER,
    CALL_ALL_GATHER_SEGMENTS,
    CALL_REDUCE_SCATTER_SEGMENTS,
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
    size_t count; // all-reduce, segments: of the whole; reduce-scatter, all-gather: own; else bytes
    const comm_segment *segments;
    int segment_count;
    uint64_t hash; // of the segments
    bool in_place; // this rank's parts lie in the whole
    uint64_t what; // this rank's activity at the issue
} call;
_Static_assert(sizeof(call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

// Why a wait for rank `awaited` of the group has failed: world_wait_error. `to` is what it did not
// come to.
status local_wait_error(const call *k, int awaited, const char *to, err *e);

// Each runs to its end on the calling thread. E_PEER when a rank was lost or aborted; E_INTERNAL
// when the ranks' calls do not belong together.
status local_run_collective(const call *k, err *e);
status local_run_segments(const call *k, err *e);
status local_run_send(const call *k, err *e);
status local_run_recv(const call *k, err *e);
// Waits for k->count messages to k->root; needs no turn in a lane.
status local_run_send_wait(const call *k, err *e);

// The calls of comm.h as the above runs them; E_INTERNAL when others cannot read what they have to.
status local_gather_call(local *l, const comm_segment *s, int segments, const void *own,
                         void *whole, dtype t, call *out, err *e);
status local_scatter_call(local *l, const comm_segment *s, int segments, const void *whole,
                          void *own, dtype t, reduce_op op, call *out, err *e);

// ---- rounds (local_round.c; see shared.h)

// The first round of a call; refuses calls that differ. `shared` is the buffer that others may work
// on, if all see it; `shown` (NULL: none) are a few bytes that every other rank needs.
status local_announce(const call *k, void *shared, const void *shown, size_t shown_bytes, err *e);
// Opens the next round with this rank's post, and waits for all others'.
status local_meet(local *l, err *e);
// Tells the others that this rank takes part in nothing any more. Does not wait.
void local_leave(local *l);

static inline post *local_post(const local *l, int rank)
{
    return &l->group->members[rank].posts[l->round & 1];
}

// A member's staging area of a round: what others need before they compute (in), or after.
static inline char *local_stage(const local *l, int rank, uint32_t round)
{
    return l->group->stages + ((size_t)rank * 4 + (round & 1)) * STAGE_BYTES;
}

static inline char *local_result(const local *l, int rank, uint32_t round)
{
    return local_stage(l, rank, round) + 2 * STAGE_BYTES;
}

#endif
