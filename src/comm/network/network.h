// network.h -- communicators whose ranks exchange parts of their calls over a transport, which moves bytes between two
// ranks: tls (tls.h), ucx (ucx.h) and mpi (mpi.h). Algorithms, messages, waits and failures are common to them. A call is work of
// the caller's stream, which runs the algorithm there and waits.
//
// Threads that wait make progress in turn: one of them sleeps on the events of the transport, the others wait for it.
// The variable TRIREME_ALGO names the algorithm of every all_reduce (network_algorithm.c); "auto" chooses by size.
#ifndef TRIREME_COMM_NETWORK_H
#define TRIREME_COMM_NETWORK_H

#include "comm/call.h"
#include "comm/comm_private.h"
#include "comm/registry.h"

enum {
    NETWORK_WORK_BYTES = 4 << 20
}; // of the device's memory, for each communicator of several ranks

extern const comm_capabilities NETWORK_CAPABILITIES;
// Describes calls over any transport (comm/algorithm.h), with the algorithms that are chosen by size.
void network_flows(const comm_described_call *c, comm_flows *out);

// Runs a collective on the calling thread, after all that were issued before it. `whole` is the call that it is a part
// of, or its own signature; `what` is the activity in which that was issued. `arrival` NULL: nobody asks.
status network_run_now(comm *c, const comm_call *call, const comm_signature *whole, uint64_t what,
                       comm_arrival *arrival, err *e);
// Makes progress for a rank that waits for something else, and tells a failure that it finds.
void network_progress(comm *c);

#endif
