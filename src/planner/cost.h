// cost.h -- how long a piece of work takes on a rank, and what it takes of the rank's resources meanwhile, as the
// simulation of a step asks for it. Two kinds of machines answer: one that was measured (calibrated.h), and one that a
// cluster file describes (cluster.h).
//
// It knows neither lists nor jobs.
#ifndef TRIREME_PLANNER_COST_H
#define TRIREME_PLANNER_COST_H

#include "comm/call.h"
#include "device/kernel_cost.h"

#include <stdbool.h>

// Work that runs at the same time on one rank shares these. Ranks of a host run alike, so each has its part of what the
// host has: of the memory bandwidth of four CPU ranks, a quarter.
typedef enum planner_resource {
    RESOURCE_COMPUTE, // the rank's cores, or the tensor units and cores of its GPU
    RESOURCE_MEMORY,  // bandwidth of the device's memory
    RESOURCE_COPY,    // copies between the device's memory and the host's
    RESOURCE_LINK,    // links between devices of one host
    RESOURCE_NETWORK, // links between hosts
    RESOURCE_STORAGE, // files
    PLANNER_RESOURCES
} planner_resource;

typedef struct planner_claim {
    double seconds;                  // where it runs alone on the rank
    double share[PLANNER_RESOURCES]; // of each resource while it runs alone, 0 to 1
} planner_claim;

// How a process group lies on the hosts. All groups of the same axes lie alike.
typedef struct planner_group {
    int ranks;
    int per_host;   // ranks of the group on one host
    int hosts;      // that the group spans
    int neighbours; // groups of the same axes on one host, which make the same call at the same time
} planner_group;

typedef enum planner_transfer {
    TRANSFER_TO_DEVICE, // from the host's memory
    TRANSFER_TO_HOST,
    TRANSFER_READ,  // from files
    TRANSFER_WRITE, // to files
} planner_transfer;

typedef struct planner_costs {
    const void *given; // passed to each
    planner_claim (*kernel)(const void *given, const kernel_cost *k);
    // A collective, or a message to a rank that is on the same host (g->hosts 1) or not. `bytes` is the payload, as
    // schedule_call.bytes.
    planner_claim (*call)(const void *given, const planner_group *g, const comm_call *c,
                          double bytes);
    planner_claim (*transfer)(const void *given, planner_transfer what, double bytes);
    // Streams run side by side. false: one thread runs them in the order of the list.
    bool streams_apart;
    // As comm_capabilities.own_thread: false with streams_apart false means that calls block the thread that computes.
    bool sends_wait;
    double issue_s; // of the host for each kernel launch; 0 where the host computes itself
    double step_s;  // of the host for each step, beside its instructions
    double
        factor; // by which all kernels of a step take longer than alone: from one measured step; 1: none was
} planner_costs;

#endif
