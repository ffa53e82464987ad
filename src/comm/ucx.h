// ucx.h -- the communicator of ranks that are processes on any hosts, over UCX: TCP, InfiniBand, or shared
// memory, as UCX chooses (UCX_TLS). Ranks meet in the store of comm_options, of which each host may see a
// server (store_tcp.h). A call is work of the caller's stream, which runs the algorithm there and waits.
//
// Each rank has one worker of UCX. Threads that wait make progress in turn: one of them sleeps on the worker's
// file descriptor, the others wait for it. The variable TRIREME_ALGO names the algorithm of every all_reduce
// (ucx_algorithm.c); "auto" chooses by size.
#ifndef TRIREME_COMM_UCX_H
#define TRIREME_COMM_UCX_H

#include "comm/call.h"
#include "comm/registry.h"

enum { UCX_WORK_BYTES = 4 << 20 }; // of the device's memory, for each communicator of several ranks

extern const comm_capabilities UCX_CAPABILITIES;

// Opens the communicator of all ranks. It is a row of registry.c. E_USAGE for a device whose memory the host
// cannot address, and for an unknown algorithm. Collective over all ranks.
status ucx_open(const comm_options *o, comm **out, err *e);

// Runs a collective of ucx on the calling thread, after all that were issued before it. `shape` is the call;
// `whole` is the one that it is a part of; `what` is the activity in which that was issued.
status ucx_run_now(comm *c, const comm_call_shape *shape, const comm_call_shape *whole,
                   const void *in, void *out, uint64_t what, err *e);
// comm_ops.gather_now of the communicator ucx.
status ucx_gather_now(comm *c, const void *in, void *out, size_t bytes, err *e);
// Makes progress for a rank that waits for something else, and tells a failure that it finds.
void ucx_progress(comm *c);

#endif
