// ucx_private.h -- the inside of the communicator ucx: its structs, and what its files call of each other.
// Only ucx*.c include it.
#ifndef TRIREME_COMM_UCX_PRIVATE_H
#define TRIREME_COMM_UCX_PRIVATE_H

#include "comm/rendezvous.h"
#include "comm/ucx.h"
#include "comm/world.h"

#include <pthread.h>
#include <ucp/api/ucp.h>

enum {
    UCX_INLINE = 2048, // bytes that travel with the terms of a call, at most
    UCX_LATER = 64,    // messages of a rank that start together, at most
    UCX_OFFERS = 64,   // sends of a communicator under way, at most
};

typedef enum ucx_kind {
    UCX_ALL_REDUCE,
    UCX_REDUCE_SCATTER,
    UCX_ALL_GATHER,
    UCX_BROADCAST,
    UCX_BARRIER,
    UCX_SHARE,
    UCX_SPLIT,
    UCX_GATHER_NOW,
    UCX_MESSAGE,
} ucx_kind;

// What both ends of a call must bring alike. It travels before the first bytes of each pair of ranks.
typedef struct ucx_terms {
    uint8_t kind, type, op, algorithm;
    int32_t root;
    uint64_t count; // elements of the array, or of one shard; bytes of a broadcast or a message
    uint64_t whole; // count of the call that this one is a part of; 0: of none
} ucx_terms;

typedef struct ucx_head {
    ucx_terms terms;
    char data[UCX_INLINE];
} ucx_head;

// Calls of streams, calls of hosts and messages meet apart, so that a barrier does not wait for a stream.
typedef enum ucx_side { UCX_ON_STREAM, UCX_ON_HOST, UCX_SIDES, UCX_BETWEEN = UCX_SIDES } ucx_side;

// Active messages that ranks send each other.
enum { UCX_FAILURE_TOLD, UCX_RANK_LEFT };

// Work of UCX. handle NULL: it is done.
typedef struct ucx_request {
    void *handle;
    int peer; // of the group
    bool receives;
    const ucx_head *head; // of a receive: its terms are compared; NULL: bytes only
    void *out;            // and its bytes are copied to here
    size_t bytes;
} ucx_request;

typedef struct ucx_peer {
    ucp_ep_h endpoint; // NULL: closed, or this rank itself
    ucs_status_t lost; // UCS_OK: it is not
    bool is_near;      // a rank of this machine: the world knows its failures, and UCX does not
} ucx_peer;

typedef struct ucx_comm ucx_comm;

// One call on its way through a stream.
typedef struct ucx_call {
    ucx_comm *comm;
    ucx_side side;
    ucx_terms terms; // own terms
    const void *in;
    void *out;
    int peer;
    uint64_t ticket, what; // `what`: this rank's activity when it issued the call
    uint64_t offer;        // of a send
} ucx_call;
_Static_assert(sizeof(ucx_call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

// The half of a message that waits for the other rank, in a group (comm_group_begin).
typedef struct ucx_later {
    ucx_call call;
    device_stream *on;
    bool receives;
} ucx_later;

// What all communicators of a rank share.
typedef struct ucx_rank {
    int users; // communicators
    world *world;
    device *device;
    int rank, size, local_rank, local_size; // among all ranks, and of this machine
    int algorithm;                          // of every all_reduce; -1: by size
    ucp_context_h context;
    ucp_worker_h worker;
    int fd;               // of the worker's events
    pthread_mutex_t lock; // of the worker and all below
    pthread_cond_t changed;
    bool sleeps;    // a thread waits for fd
    bool has_told;  // the others know of the failure
    ucx_peer *peer; // [size]
    bool grouped;
    int laters;
    ucx_later later[UCX_LATER];
} ucx_rank;

// The calls of one side, one after the other in the order of issue.
typedef struct ucx_sequence {
    uint64_t issued, finished;
    bool *sent,
        *received; // [size] has the running call sent its terms to the rank, and received them?
    ucx_head *to, *from; // [size]
    // Parts that were begun since the last ucx_parts_turn (`turn`), and before it (1 - turn).
    ucx_request *request[2]; // [4 * size]
    int requests[2], turn;
} ucx_sequence;

// A send that is under way.
typedef struct ucx_offer {
    ucx_terms terms;
    ucx_request request[2];
    int requests;
    bool busy;
} ucx_offer;

struct ucx_comm {
    comm base;
    ucx_rank *own;
    int *ranks; // [size] among all ranks
    comm_rendezvous meeting;
    ucx_sequence sequence[UCX_SIDES];
    uint64_t *sends, *receives, *sent; // [size] messages that were issued, and sends that are done
    uint64_t offers;                   // sends, to all ranks
    ucx_offer offer[UCX_OFFERS];
    char *work; // [UCX_WORK_BYTES] of the device's memory; NULL: there is one rank
};

// A wait for requests, or for a counter. Under the lock.
typedef struct ucx_wait {
    const ucx_call *call;
    ucx_request *request;
    int requests;
    const uint64_t *counter; // NULL: requests
    uint64_t target;
    int awaited; // rank of the group that moves the counter
} ucx_wait;

static inline ucx_comm *ucx_of(comm *c)
{
    return (ucx_comm *)c;
}

// ---- ucx_worker.c

// Opens the rank with a worker and an endpoint to each other rank. Collective over all ranks.
status ucx_rank_open(const comm_options *o, int algorithm, ucx_rank **out, err *e);
// Waits until all endpoints are connected, and all that was queued has left. E_PEER names a rank that does not answer.
status ucx_rank_connect(ucx_rank *own, int64_t deadline_ms, err *e);
// The communicator is one of `users` no more. The last one closes the worker, and flushes what was sent.
void ucx_rank_leave(ucx_rank *own);

// ---- ucx_wait.c

// Under the lock. An error is the failure of the run; nothing is under way any more after it.
status ucx_await(ucx_rank *own, const ucx_wait *w, err *e);
// Under the lock: begins to send or to receive bytes of the call numbered `ticket` on its side.
status ucx_post(const ucx_call *x, int peer, bool receives, void *data, size_t bytes,
                ucx_request *out, err *e);
// Not under the lock: makes a failure known to all ranks. `rank` is this one, or -1: no single rank failed.
void ucx_fail(ucx_rank *own, int rank, const err *why);
// Under the lock: after a failure, tells the others once, ends all work of UCX, and returns the failure.
status ucx_check(ucx_rank *own, err *e);
const char *ucx_kind_name(uint8_t kind);

// ---- ucx_exchange.c: the parts of a call that ranks send each other

// Runs `body` when the calls before it on its side are done.
status ucx_run(const ucx_call *x, status (*body)(const ucx_call *x, err *e), err *e);
// Inside of a body: bytes go to a rank, or come from one, when parts_end returns. The other end makes the
// matching call with the same number of bytes, in the same order for each pair of ranks.
status ucx_send_part(const ucx_call *x, int peer, const void *data, size_t bytes, err *e);
status ucx_recv_part(const ucx_call *x, int peer, void *data, size_t bytes, err *e);
status ucx_parts_end(const ucx_call *x, err *e);
// Waits for the parts that were begun before the last call of it. Those begun since go on meanwhile.
status ucx_parts_turn(const ucx_call *x, err *e);

// ---- ucx_algorithm.c

// The algorithm of that name, or -1 for "auto" and NULL. E_USAGE names the valid ones.
status ucx_algorithm_named(const char *name, int *out, err *e);
// The algorithm of an all_reduce: the forced one where it is legal, else the table's.
int ucx_algorithm_choose(int forced, int size, dtype t, size_t bytes);
const char *ucx_algorithm_name(int algorithm);
status ucx_run_all_reduce(const ucx_call *x, err *e);

// ---- ucx_collective.c

status ucx_run_collective(void *call, err *e);
// A call of the host.
status ucx_meet(comm *c, ucx_kind kind, err *e);

// ---- ucx_message.c

status ucx_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e);
status ucx_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);
status ucx_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
status ucx_group_begin(comm *c, err *e);
status ucx_group_end(comm *c, err *e);

// ---- ucx.c

// What rank and stream say of a call that is issued now.
ucx_call ucx_call_of(comm *c, ucx_side side, ucx_terms terms);
// E_PEER after a failure: nothing is issued any more.
status ucx_issue(const ucx_call *x, device_stream_fn fn, device_stream *on, err *e);

#endif
