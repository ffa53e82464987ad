// capabilities.h -- what callers may expect of a communicator. It is plain data: each communicator sets
// it when it is opened (comm.can), and a plan that is made before any communicator is open has it in
// its options.
#ifndef TRIREME_COMM_CAPABILITIES_H
#define TRIREME_COMM_CAPABILITIES_H

#include <stdbool.h>
#include <stddef.h>

// The same on every rank, and for all communicators that were split from one.
typedef struct comm_capabilities {
    bool tree_order; // sums have the order that comm.h describes, so all strategies give equal bits
    bool zero_copy;  // calls over segments read and write the memory of other ranks, without a copy
    bool needs_workspace; // calls over segments pack the shards in a workspace (comm/packed.h)
    bool sends_wait;      // a send waits for its receive, also from memory of comm_alloc
    bool own_thread;      // calls wait for a network: streams should run on threads of their own
    bool device_memory;   // calls work on memory that the host cannot address
    bool open_ports;      // its ports take any connection, so that the network must be trusted
    bool can_be_recorded; // a device may record calls and replay them (device.h: capture_begin)
    size_t own_bytes; // memory that a communicator of several ranks takes when it opens, at most
} comm_capabilities;

#endif
