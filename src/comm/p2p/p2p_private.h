// p2p_private.h -- the inside of the communicator p2p: its structs, and what its files call of each other.
// Only p2p*.c include it.
#ifndef TRIREME_COMM_P2P_PRIVATE_H
#define TRIREME_COMM_P2P_PRIVATE_H

#include "comm/call.h"
#include "comm/local/local.h"
#include "comm/p2p/p2p.h"
#include "comm/watcher.h"
#include "device/kernels.h"
#include "device/sharing.h"

enum {
    P2P_RANKS = KERNEL_REDUCE_RANKS,
    P2P_SLOTS = 8, // messages of a pair that start together, at most
};

// The two meetings of a collective: before any rank reads, and after all have read.
typedef enum p2p_phase { PHASE_BEGIN, PHASE_END, PHASES } p2p_phase;

// The flags of two ranks, set by the first and waited for by the second, but for `taken`.
typedef struct p2p_pair {
    device_flag meets[STREAMS][PHASES];
    device_flag sent[P2P_SLOTS];  // the buffer of a message may be read
    device_flag taken[P2P_SLOTS]; // set by the second rank: it was read
} p2p_pair;

// What the members of a group share, in the arena.
typedef struct p2p_group_memory {
    _Atomic int members_left;     // the last one to close gives the memory back
    _Alignas(64) p2p_pair pair[]; // [size][size]
} p2p_group_memory;

// What all ranks of the world share, in the arena.
typedef struct p2p_failure_record {
    _Atomic int ranks;  // that issue nothing any more, because the run has failed
    _Atomic int closed; // ranks that have closed their imports
} p2p_failure_record;

typedef struct p2p_comm p2p_comm;

typedef struct p2p_block {
    void *ptr;
    size_t bytes;
} p2p_block;

// What all communicators of a rank share.
typedef struct p2p_rank {
    int users; // communicators
    world *world;
    int world_rank;
    device *device;
    p2p_failure_record *failure;
    bool has_ended; // is counted there
    p2p_block *block;
    size_t blocks, room;  // memory of comm_alloc
    comm_watcher watcher; // p2p_watch.c; its lock is that of the next one
    p2p_comm *first;      // the communicators, by `next`
} p2p_rank;

struct p2p_comm {
    comm base;
    comm *host; // local, or solo where there is one rank
    p2p_rank *own;
    p2p_group_memory *memory;          // NULL: one rank
    device_stream *sent_on[P2P_RANKS]; // the stream of the latest send
    device_event *sent;                // for send_wait on another stream
    _Atomic uint64_t issued;           // calls
    _Atomic(const char *) latest;      // the name of the latest call
    int64_t waits_ns[P2P_RANKS];       // for which the watcher has seen a flag for this rank
    uint64_t seen;                     // `issued` when the watcher looked last
    p2p_comm *next;
};

static inline p2p_comm *p2p_of(comm *c)
{
    return (p2p_comm *)c;
}

static inline comm_local *p2p_host(const p2p_comm *c)
{
    return (comm_local *)c->host;
}

static inline const device_sharing *p2p_sharing(const p2p_comm *c)
{
    return c->own->device->ops->sharing;
}

static inline p2p_pair *p2p_pair_of(const p2p_comm *c, int from, int to)
{
    return &c->memory->pair[from * c->base.size + to];
}

// ---- p2p.c

// E_PEER with the failure of the run, if there is one.
static inline status p2p_check(const p2p_comm *c, err *e)
{
    return comm_failure_check(c->own->world->failure, e);
}
void p2p_abort(comm *c, const err *why);
// A call on the host's side, at the rank's present activity.
local_call p2p_host_call(const p2p_comm *c, const comm_call *call);
// The handle of device memory; zeros where bytes is 0.
status p2p_export(const p2p_comm *c, const void *p, size_t bytes, device_handle *out, err *e);
status p2p_import(const p2p_comm *c, const device_handle *h, void **out, err *e);
// The streams of this kind of all ranks meet.
void p2p_meet_streams(const p2p_comm *c, device_stream *on, p2p_phase phase);

// ---- p2p_memory.c

status p2p_alloc(comm *c, device *d, size_t bytes, void **out, err *e);
void p2p_release(comm *c, device *d, void *p, size_t bytes);
status p2p_share(p2p_comm *c, err *e);
// After a failure, waits a second at most until no other rank works with this rank's memory.
void p2p_end(p2p_rank *own);
// This rank has closed its imports. Waits until all have, and returns whether they have: for a second at
// most after a failure, else for some seconds. Memory that a rank may have open is not given back.
bool p2p_end_imports(const p2p_rank *own);

// ---- p2p_collective.c

status p2p_run_collective(p2p_comm *c, const comm_call *call, device_stream *on, err *e);

// ---- p2p_message.c

status p2p_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status p2p_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);

// ---- p2p_watch.c

// Starts and ends the thread that releases the rank's streams after a failure, and that bounds waits.
status p2p_watch_start(p2p_rank *own, err *e);
void p2p_watch_stop(p2p_rank *own);
// The watcher looks after a communicator.
void p2p_watch_add(p2p_comm *c);
void p2p_watch_remove(p2p_comm *c);

#endif
