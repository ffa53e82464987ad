// hier.h -- the communicator of ranks of several hosts, of which the ranks of each host share memory: `local` inside
// of a host; between hosts `ucx` over RDMA devices, else `tls`. Sums have the order of comm.h, so results have the bits of one host with all ranks.
//
// A communicator has one of three layouts (hier_private.h), which it finds when it is opened or split off. Calls are
// made of calls of local and of the network's communicator; messages go by local between ranks of one host.
#ifndef TRIREME_COMM_HIER_H
#define TRIREME_COMM_HIER_H

#include "comm/registry.h"

extern const comm_capabilities HIER_CAPABILITIES;
// Describes its calls (comm/algorithm.h).
void hier_flows(const comm_described_call *c, comm_flows *out);

// Opens the communicator of all ranks. It is a row of registry.c. o->world holds the ranks of this host, which follow
// each other in the run; o->store is one that all hosts see. E_USAGE for a device whose memory the host cannot
// address, and where ranks of a host do not follow each other. Collective over all ranks.
status hier_open(const comm_options *o, comm **out, err *e);

#endif
