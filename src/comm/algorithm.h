// algorithm.h -- what a communicator's algorithm sends and moves for a call, before any communicator is open: in how many
// rounds, over which links of a machine, and through the memory of a rank. Each communicator describes its own calls
// (registry.c); with the latencies and bandwidths of a machine this gives a time (planner/flows.h).
//
// It knows no time. Bytes are those of the rank that sends or moves most. The headers of parts and messages, and that
// shards are rounded to whole lines, do not count.
#ifndef TRIREME_COMM_ALGORITHM_H
#define TRIREME_COMM_ALGORITHM_H

#include "comm/call.h"

// By what two ranks reach each other.
typedef enum comm_level {
    COMM_SHARED_MEMORY, // of a host: ranks read and write each other's arrays; bandwidth is that of the memory
    COMM_HOST_LINK, // of a host: NVLink, PCIe, or the loopback of the host's network
    COMM_NETWORK,   // between hosts
    COMM_LEVELS
} comm_level;

// How the ranks of a group lie on hosts. Ranks of a host follow each other in the group.
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
        in_place; // over segments: the shards lie in the full array. Plain arrays always lie in each other
    bool any_order; // comm_options.any_order
} comm_described_call;

// Parts of a call whose bytes move at the same time.
typedef struct comm_flow {
    double rounds[COMM_LEVELS]; // in which a rank waits for another one: each costs a latency
    double sent[COMM_LEVELS];   // bytes of one rank to others
    double memory; // bytes that the rank reads and writes in memory: copies, sums, what it sends
} comm_flow;

// The flows of a call follow each other.
enum { COMM_FLOWS = 8 };
typedef struct comm_flows {
    comm_flow flow[COMM_FLOWS];
    int count; // 0: nothing moves
} comm_flows;

// Of one communicator: of collectives that it carries out, and of both ends of a message. Fills *out, which is empty.
typedef void (*comm_describe_flows)(const comm_described_call *c, comm_flows *out);

// Of the communicator of that name; false where there is no such one. Calls over segments that are packed, and calls that are
// made of messages, are described by what they are made of. A group of one rank has no flows, nor has a call without
// arrays that is no barrier.
bool comm_flows_of(const char *communicator, const comm_described_call *c, comm_flows *out);

// ---- For communicators

// Appends a flow.
comm_flow *comm_flows_add(comm_flows *f);
// Appends the flows of another description.
void comm_flows_join(comm_flows *f, const comm_flows *more);
double comm_flows_sent(const comm_flows *f); // of all flows and levels

#endif
