// algorithm.h -- what a communicator's algorithm sends and moves for a call, before any communicator is open: in how many
// rounds, over which links of a machine, and through the memory of a rank. Each communicator describes its own calls
// (registry.c); with the latencies and bandwidths of a machine this gives a time (planner/flows.h).
//
// It knows no time. Headers of parts and messages do not count, nor does it that shares are rounded to whole lines.
#ifndef TRIREME_COMM_ALGORITHM_H
#define TRIREME_COMM_ALGORITHM_H

#include "comm/call.h"

// By what two ranks reach each other.
typedef enum comm_level {
    COMM_SHARED_MEMORY, // of a host: ranks read and write each other's arrays; the bandwidth is that of the memory
    COMM_HOST_LINK, // of a host: NVLink, PCIe, or the loopback of its network
    COMM_NETWORK,   // between hosts
    COMM_LEVELS
} comm_level;

// How the ranks of a group lie on hosts. Those of one host follow each other in the group.
typedef struct comm_topology {
    int ranks;
    int per_host; // ranks on the host that has most
    int hosts;
} comm_topology;

// A call to be described. `bytes` is the payload: of an all_reduce, a broadcast and a message the array, of other
// collectives the full array, also over segments.
typedef struct comm_described_call {
    comm_topology on;
    comm_call_kind kind;
    dtype type;
    double bytes;
    bool segments; // it is over segments
    bool
        in_place; // over segments: the shards lie in the full array. One of two plain arrays always lies in the other
    bool any_order; // comm_options.any_order
} comm_described_call;

// Parts of a call whose bytes move at the same time. Bytes are those of the rank that sends most, but bytes to other
// hosts are the mean of the ranks of a host, which share its network.
typedef struct comm_flow {
    double rounds[COMM_LEVELS]; // in which a rank waits for another one: each costs a latency
    double sent[COMM_LEVELS];   // to other ranks; of a receive, from the other rank
    double memory; // that the rank reads and writes: copies, sums, what it sends and receives
} comm_flow;

// The flows of a call follow each other.
enum { COMM_FLOWS = 12 };
typedef struct comm_flows {
    comm_flow flow[COMM_FLOWS];
    int count; // 0: nothing moves
} comm_flows;

// A communicator's description of its calls: the collectives that it carries out itself, and both ends of messages. It
// adds to `out`.
typedef void (*comm_describe_flows)(const comm_described_call *c, comm_flows *out);

// Describes a call of the communicator of that name; false where there is none. Segments that are packed (packed.h) and
// calls that are made of messages (compose.h) are described by what they are made of.
bool comm_flows_of(const char *communicator, const comm_described_call *c, comm_flows *out);

// ---- For communicators

// Appends a flow. Those for which there is no room join the last one.
void comm_flows_add(comm_flows *f, comm_flow next);
// Appends flows, each `times` times.
void comm_flows_join(comm_flows *f, const comm_flows *more, double times);

// The slowest level between ranks of a group that do not share memory.
static inline comm_level comm_farthest(const comm_topology *t)
{
    return t->hosts > 1 ? COMM_NETWORK : COMM_HOST_LINK;
}
// Each rank sends `bytes` to each other rank, and receives as much from each, in so many rounds.
comm_flow comm_exchange_flow(const comm_topology *t, double rounds, double bytes);
// The same call on other ranks, with another payload.
comm_described_call comm_described_part(const comm_described_call *c, comm_topology on,
                                        comm_call_kind kind, double bytes);
// Steps of a tree over so many ranks: the logarithm, rounded up.
int comm_tree_steps(int ranks);

#endif
