// network_private.h -- the inside of communicators whose ranks exchange parts over a transport (network.h): the table
// of a transport, the structs, and what the files call of each other. Only network*.c, tls*.c, ucx*.c and mpi*.c include it.
#ifndef TRIREME_COMM_NETWORK_PRIVATE_H
#define TRIREME_COMM_NETWORK_PRIVATE_H

#include "base/text.h"
#include "comm/network/network.h"
#include "comm/registry.h"
#include "rendezvous/rendezvous.h"

#include <pthread.h>

enum {
    NETWORK_INLINE = 2048, // bytes that travel with the signature of a call, at most
    NETWORK_SENDS = 64,    // sends of a communicator under way, at most
};

// What both ends of a call must bring alike. It travels before the first bytes of each pair of ranks.
typedef struct network_signature {
    comm_signature call; // or the call that this one is a part of
    uint64_t algorithm;  // of an all_reduce
} network_signature;

// The latest rank that has come to the call, as far as the sender knows, by the sender's clock.
typedef struct network_last {
    int64_t sent_ns; // 0: nobody asks
    int64_t arrived_ns;
    int32_t by; // comm_arrival.by
    int32_t zero;
} network_last;

// What the clocks of this rank and another one show of headers that come: the time at which one is seen here, less that
// at which it was sent there. The least one stands for the difference of the clocks, to within the time of the shortest
// way. It may grow, because clocks drift.
typedef struct network_transit {
    int64_t least_ns, seen_ns; // seen_ns 0: none has come
} network_transit;

typedef struct network_header {
    network_signature signature;
    network_last last; // it is not compared
    char data[NETWORK_INLINE];
} network_header;

// Calls of streams, calls of hosts and messages meet apart, so that a barrier does not wait for a stream.
typedef enum network_caller {
    NETWORK_ON_STREAM,
    NETWORK_ON_HOST,
    NETWORK_CALLERS,
    NETWORK_BETWEEN = NETWORK_CALLERS
} network_caller;

// Work of the transport. handle NULL: it is done.
typedef struct network_request {
    void *handle;
    int peer; // of the group
    bool receives;
    const network_header *header; // of a receive: its signature is compared; NULL: bytes only
    void *out;                    // and its bytes are copied to here
    size_t bytes;
} network_request;

typedef struct network_comm network_comm;

// One call on its way through a stream.
typedef struct network_call {
    network_comm *comm;
    network_caller caller;
    comm_call call;
    network_signature signature;
    uint64_t ticket, what; // `what`: this rank's activity when it issued the call
    uint64_t send;         // of a send
    comm_arrival *arrival; // of a step of another call, for who asks
} network_call;
_Static_assert(sizeof(network_call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

typedef struct network_rank network_rank;

// How parts travel: a row of functions, called under the lock.
typedef struct network_transport {
    const char *name; // of the communicator
    // Fills own->state. Collective over all ranks. What a failure leaves is closed by `close`.
    status (*open)(network_rank *own, const comm_options *o, err *e);
    // Not under the lock: waits until all ranks can be reached, and all that was queued has left.
    status (*connect)(network_rank *own, int64_t deadline_ms, err *e);
    // Makes progress once, and returns whether something moved. It sets own->lost.
    bool (*progress)(network_rank *own);
    // Begins to send or to receive bytes of the call; parts of one call and one pair of ranks match in their order.
    // Returns NULL, or why it failed. *handle is NULL when it is done.
    const char *(*post)(const network_call *x, int peer, bool receives, void *data, size_t bytes,
                        void **handle);
    // Is it done? Then the handle is released, and *why is NULL or says why it failed. A part that is shorter or
    // longer than its receive is no failure.
    bool (*test)(network_rank *own, void *handle, const char **why);
    // After a failure: ends a request with `rank` (among all), and releases its handle. `start`: since when (clock_ns).
    void (*cancel)(network_rank *own, const network_request *r, int rank, int64_t start);
    // Waits without the lock until something has come, or at most so long. It sets own->sleeps meanwhile, where `wake`
    // ends it.
    void (*sleep)(network_rank *own, int most_ms);
    void (*wake)(network_rank *own); // NULL: `sleep` is short, and does not set it
    void (*end)(
        network_rank *
            own); // after a failure: tells other ranks of it, and ends all work; NULL: the world does
    // Appends by what it reaches a rank (among all), as "tcp/eth0 (10.0.0.1)"; NULL: it does not tell.
    void (*add_route)(network_rank *own, int rank, text *out);
    // Ends the transport. `well`: no failure is known.
    void (*close)(network_rank *own, bool well);
} network_transport;

// What all communicators of a rank share.
struct network_rank {
    int users; // communicators
    const network_transport *transport;
    void *state;    // the transport's
    comm_ops table; // network.c's with the transport's name
    world *world;
    device *device;
    int rank, size, local_rank, local_size; // among all ranks, and of this machine
    int algorithm;                          // of every all_reduce; -1: by size
    pthread_mutex_t lock;                   // of the transport and all below
    pthread_cond_t changed;
    bool sleeps;              // a thread waits for events
    bool open_ports;          // the transport's (comm_capabilities)
    network_transit *transit; // [size] from each rank
    bool has_reported;        // the others know of the failure
    const char **lost;        // [size]: why the rank cannot be reached; NULL: it can
};

// The calls of one caller, one after the other in the order of issue.
typedef struct network_sequence {
    uint64_t issued, finished;
    bool *sent,
        *received; // [size] has the running call sent its signature to the rank, and received it?
    network_header *to, *from; // [size]
    network_last last;         // of the running call
    int32_t by;                // comm_arrival.by of this rank in it
    // Parts that were begun since the last network_parts_turn (`turn`), and before it (1 - turn).
    network_request *request[2]; // [4 * size]
    int requests[2], turn;
} network_sequence;

// A send that is under way.
typedef struct network_send {
    network_signature signature;
    network_request request[2];
    int requests;
    bool busy;
} network_send;

struct network_comm {
    comm base;
    network_rank *own;
    int *ranks; // [size] among all ranks
    comm_rendezvous rendezvous;
    network_sequence sequence[NETWORK_CALLERS];
    uint64_t *sends, *receives,
        *passed;          // [size] messages that were issued, and sends that are done
    uint64_t sends_begun; // to all ranks
    network_send send[NETWORK_SENDS];
    char *work; // [NETWORK_WORK_BYTES] of the device's memory; NULL: there is one rank
};

// A wait for requests, or for a counter. Under the lock.
typedef struct network_wait {
    const network_call *call;
    network_request *request;
    int requests;
    const uint64_t *counter; // NULL: requests
    uint64_t target;
    int awaited; // rank of the group that moves the counter
} network_wait;

static inline network_comm *network_of(comm *c)
{
    return (network_comm *)c;
}

// Whether a rank of the call goes on only when it has received as much as it has sent. Then it is never ahead of another
// one by more than the pieces that are under way, NETWORK_WORK_BYTES at most.
static inline bool network_exchanges(const network_call *x)
{
    return x->caller == NETWORK_ON_STREAM && !comm_call_row_of(x->call.kind)->peer;
}

// ---- network.c

// Opens the communicator of all ranks over a transport. E_USAGE for a device whose memory the host cannot address, and
// for an unknown algorithm. Collective over all ranks.
status network_open(const network_transport *transport, const comm_options *o, comm **out, err *e);

// ---- network_wait.c

// Under the lock. An error is the failure of the run; nothing is under way any more after it.
status network_await(network_rank *own, const network_wait *w, err *e);
// Under the lock: begins to send or to receive bytes of the call numbered `ticket` of its caller.
status network_post(const network_call *x, int peer, bool receives, void *data, size_t bytes,
                    network_request *out, err *e);
// Not under the lock: makes a failure known to all ranks. `rank` is this one, or -1: no single rank failed.
void network_fail(network_rank *own, int rank, const err *why);
// Under the lock: after a failure, tells the others once, ends all work, and returns the failure.
status network_check(network_rank *own, err *e);
// ---- network_parts.c: the parts of a call that ranks send each other

// Runs `body` when the calls before it of its caller are done.
status network_run(const network_call *x, status (*body)(const network_call *x, err *e), err *e);
// Inside of a body: bytes go to a rank, or come from one, when parts_end returns. The other end makes the
// matching call with the same number of bytes, in the same order for each pair of ranks.
status network_send_part(const network_call *x, int peer, const void *data, size_t bytes, err *e);
status network_recv_part(const network_call *x, int peer, void *data, size_t bytes, err *e);
status network_parts_end(const network_call *x, err *e);
// Waits for the parts that were begun before the last call of it. Those begun since go on meanwhile.
status network_parts_turn(const network_call *x, err *e);

// ---- network_algorithm.c

// The algorithm of that name, or -1 for "auto" and NULL. E_USAGE names the valid ones.
status network_algorithm_named(const char *name, int *out, err *e);
// The algorithm of an all_reduce: the forced one where it is legal, else the table's.
int network_algorithm_choose(int forced, int size, dtype t, size_t bytes);
const char *network_algorithm_name(int algorithm);
// Describes the all_reduce that the table chooses.
void network_all_reduce_flows(const comm_described_call *c, comm_flows *out);
status network_run_all_reduce(const network_call *x, err *e);

// ---- network_flows.c: what an algorithm sends for an array of c->bytes that its workspace has room for

void network_doubling_flows(const comm_described_call *c, comm_flows *out);
void network_gather_flows(const comm_described_call *c, comm_flows *out);
void network_halving_flows(const comm_described_call *c, comm_flows *out);
void network_direct_flows(const comm_described_call *c, comm_flows *out);

// ---- network_collective.c

status network_run_collective(void *call, err *e);

// ---- network_message.c

status network_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status network_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);

// ---- network.c

// What rank and stream say of a call that is issued now. `whole`: the call that it is a part of, or its own signature.
network_call network_call_of(network_comm *c, network_caller caller, const comm_call *call,
                             const comm_signature *whole);
// E_PEER after a failure: nothing is issued any more.
status network_enqueue(const network_call *x, device_stream_fn fn, device_stream *on, err *e);

#endif
