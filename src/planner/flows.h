// flows.h -- how long the flows of a call (comm/algorithm.h) take on links of known latency and bandwidth, and what they
// take of a rank's resources. Cluster files give such links, and comm_rates.c fits them to what was measured.
//
// It knows no communicator.
#ifndef TRIREME_PLANNER_FLOWS_H
#define TRIREME_PLANNER_FLOWS_H

#include "comm/algorithm.h"
#include "planner/cost.h"

typedef struct planner_link {
    double latency_s;   // of a round
    double bytes_per_s; // in one direction; 0: it limits nothing
} planner_link;

typedef struct planner_links {
    // Of a rank; of the network, of one NIC. The bandwidth of COMM_SHARED_MEMORY is 0: memory_bytes_per_s limits it.
    planner_link level[COMM_LEVELS];
    double memory_bytes_per_s; // of a rank; 0: it limits nothing
    int ranks_per_host;        // of the run
    // NICs of a host, 1 or more. Ranks of a host that send at the same time have one each, as far as there are.
    int nics;
    // Hosts below one switch, at full bandwidth, and by how much the bandwidth of one host to hosts beyond them is less;
    // 0: all hosts are.
    int switch_hosts;
    double oversubscription;
    double compute_share; // of a rank's cores, or of its GPU's, that a call takes while it runs
} planner_links;

// Bandwidth that one rank has to other hosts while all groups of the same axes make the same call: the NICs of its host
// are shared by the ranks of g there, and by those of its neighbours.
double planner_network_bytes_per_s(const planner_links *l, const planner_group *g);

planner_claim planner_flows_claim(const comm_flows *f, const planner_group *g,
                                  const planner_links *l);

// The call as communicators describe it: as a plan lists it, with its payload (schedule_call.bytes).
comm_described_call planner_described_call(const planner_group *g, const comm_call *c, double bytes,
                                           bool any_order);

#endif
