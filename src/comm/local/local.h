// local.h -- the communicator of one rank in a process group of one machine, and the calls that its
// streams run. Only files of comm/ include it.
//
// A call is captured in a local_call when it is issued, and a stream runs it later. Calls of one
// queue run in the order of issue, whatever streams they were issued to, so that ranks never pair
// different calls. There is one queue for the collectives, one for the sends to each peer, and one
// for the receives from each peer.
#ifndef TRIREME_COMM_LOCAL_H
#define TRIREME_COMM_LOCAL_H

#include "comm/call.h"
#include "comm/comm_private.h"
#include "comm/local/local_group.h"
#include "comm/registry.h"
#include "rendezvous/rendezvous.h"

typedef struct comm_queue {
    uint64_t issued; // calls issued; written by the thread that issues work
    doorbell done;   // calls done, modulo 2^32
} comm_queue;

typedef struct comm_local {
    comm base;
    world *world;
    comm_group *group;
    int world_rank;
    int first;                        // rank of the run that is rank 0 of the world
    uint32_t round;                   // number of the latest round; used by `running` only
    const struct local_call *running; // the collective that runs
    comm_arrival *arrival;            // of `running`, for who asks; NULL: nobody does
    comm_queue collectives;
    comm_queue *sends, *receives; // [size]
    void **arrays;                // [size] of the ranks; used by `running` only
    int shared_rounds; // in which this rank waited for a rank of its own core; used by `running` only
    const int *members;         // local_set_members; NULL: the group's own numbers
    doorbell_limits limits;     // of every wait (local_limits)
    comm_rendezvous rendezvous; // of the group, for splits
} comm_local;

typedef struct local_call {
    comm_local *local;
    comm_queue *queue;
    uint32_t ticket; // place in the queue: the number of calls before it, modulo 2^32
    uint64_t what;   // this rank's activity (comm_activity.what) when the call was issued
    comm_call call;
    comm_signature signature; // of the call, or of the one that it is a part of: ranks compare it
    comm_arrival *arrival;    // of a step of another call, for who asks
} local_call;
_Static_assert(sizeof(local_call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

extern const comm_capabilities LOCAL_CAPABILITIES;
// Describes calls on memory of comm_alloc (comm/algorithm.h): the ways of local_collective.c.
void local_flows(const comm_described_call *c, comm_flows *out);

enum { LOCAL_FLAT_BYTES = 1024 }; // that a rank shows to all others in one round, at most

// Opens the communicator of all ranks, which are those of world o->world. It is a row of registry.c.
// Collective over all ranks.
status local_open(const comm_options *o, comm **out, err *e);
// The same for any device, as the host's side of communicator `name` (p2p.h): only its calls that block
// the host may be used, and the functions below.
status local_open_hosts(const comm_options *o, const char *name, comm **out, err *e);
// Opens the communicator of the ranks of this machine, which are o->local_size of o->size, numbered from 0. They
// follow each other in the run, and messages give them the numbers of the run. Collective over these ranks.
status local_open_members(const comm_options *o, comm **out, err *e);

// Runs a collective on the calling thread, after all that were issued before it. `whole` is the call that it is a part
// of, or its own signature; `what` is the activity in which that was issued. `arrival` NULL: nobody asks.
status local_run_now(comm *c, const comm_call *call, const comm_signature *whole, uint64_t what,
                     comm_arrival *arrival, err *e);
// In what its messages meet (comm_visit), c calls its ranks by these numbers [size], which are borrowed.
void local_set_members(comm *c, const int *members);
// Every wait of c, and of what is split from it later, calls fn each 20 ms.
void local_set_idle(comm *c, void (*fn)(void *arg), void *arg);

// True if p is memory of comm_alloc.
static inline bool local_holds(const comm_local *local, const void *p)
{
    return comm_arena_holds(local->world->arena, p);
}

// True if every rank can address p, as is always so when the ranks are threads.
static inline bool local_sees(const comm_local *local, const void *p)
{
    return local->world->as_threads || local_holds(local, p);
}

// Room for an array of each rank, as the sources of a reduction.
static inline const void **local_sources(const comm_local *local)
{
    return (const void **)local->arrays;
}

// The number in the run of a member of the group.
static inline int local_rank_of(const comm_local *local, int member)
{
    return local->first + local->group->world_rank[member];
}

static inline bool local_has_failed(const comm_local *local)
{
    return comm_failure_known(local->world->failure);
}

// A wait of a call for rank `awaited` of the group. `to` names the call that this rank did not come to.
typedef struct local_wait {
    const local_call *call;
    int awaited;
    const char *to;
} local_wait;

// The limits of a wait, which says meanwhile that this rank waits. *w must live as long.
doorbell_limits local_limits(const local_wait *w);
// The error of a wait that ended without its event (comm_watchdog_error).
status local_wait_error(const local_wait *w, err *e);

// Each runs a call to its end, on the calling thread. E_PEER when a rank was lost or aborted.
// E_INTERNAL when the ranks' calls differ. A collective is local->running.
status local_run_collective(comm_local *local, const comm_call *call, err *e);
status local_run_segments(comm_local *local, const comm_call *call, err *e);
status local_run_send(const local_call *x, err *e);
status local_run_recv(const local_call *x, err *e);
// Waits until rank x->call.peer has received x->call.count messages. It runs outside any queue.
status local_run_send_wait(const local_call *x, err *e);

// E_INTERNAL when the array of a call over segments that other ranks read is not memory of comm_alloc.
status local_check_segments(const comm_local *local, const comm_call *call, err *e);

// ---- rounds (local_round.c; see local_group.h)

// Runs the first round of the running call, and refuses calls that differ. `shared` is the buffer that other
// ranks may read and write if all can address it. `shown` points to a few bytes that every other
// rank reads, or is NULL.
status local_announce(comm_local *local, void *shared, const void *shown, size_t shown_bytes,
                      err *e);
// Publishes this rank's post of the next round, and waits for the posts of all other ranks.
status local_meet(comm_local *local, err *e);
// Tells the other ranks that this rank takes part in no further call. Does not wait.
void local_leave(comm_local *local);

static inline comm_post *local_post(const comm_local *local, int rank)
{
    return &local->group->members[rank].posts[local->round & 1];
}

// The staging area of a member in a round: for inputs, and (local_result) for results.
static inline char *local_staging(const comm_local *local, int rank, uint32_t round)
{
    return local->group->staging + ((size_t)rank * 4 + (round & 1)) * STAGING_BYTES;
}

static inline char *local_result(const comm_local *local, int rank, uint32_t round)
{
    return local_staging(local, rank, round) + 2 * STAGING_BYTES;
}

#endif
