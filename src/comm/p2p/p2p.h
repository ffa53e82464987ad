// p2p.h -- the communicator of ranks whose devices read each other's memory, such as the GPUs of one
// machine. Ranks are processes or threads, and several may share a device.
//
// When a call is issued, the hosts meet (local.h): they compare the call and exchange the handles of
// their arrays. So the issue of a call waits until every rank issues it, but never for work of a device.
// The work itself is copies and K_REDUCE on the caller's stream, between two meetings of the streams:
// no rank reads an array before all have written theirs, and none goes on before all have read. Streams
// meet by flags (device/sharing.h), without numbers that grow, so a recording may be replayed. Calls
// on streams of different kinds meet apart; calls on two streams of one kind need an order by events.
#ifndef TRIREME_COMM_P2P_H
#define TRIREME_COMM_P2P_H

#include "comm/registry.h"

extern const comm_capabilities P2P_CAPABILITIES;
// Describes calls on streams of devices (comm/algorithm.h). Their hosts meet before, while the streams still work.
void p2p_flows(const comm_described_call *c, comm_flows *out);

// Opens the communicator of all ranks, which are those of world o->world. It is a row of registry.c.
// E_USAGE for a device without device_sharing, and for more than KERNEL_REDUCE_RANKS ranks. Collective
// over all ranks.
status p2p_open(const comm_options *o, comm **out, err *e);

#endif
