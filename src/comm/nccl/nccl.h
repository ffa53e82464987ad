// nccl.h -- the communicator of GPUs of any number of hosts, by a library of their vendor's: NCCL, through the
// device's table of collectives (device/collectives.h). Each rank is a process or a thread with a GPU of its own.
//
// Ranks find each other in the store. A process group has one clique of the library, which is split from that of its
// parent where the library can, and else made by an id that its first rank tells. Calls are issued to streams and may
// be recorded. Sums have the order of comm.h: ranks exchange the parts, and K_REDUCE adds them. With
// comm_options.any_order the library adds, in an order of its own: then bits depend on its algorithm, and tree_order
// is not set. Ranks compare their calls only where checks.desync asks for it (comm/recorder.h): else calls that differ
// end by the limit of the watchdog.
#ifndef TRIREME_COMM_NCCL_H
#define TRIREME_COMM_NCCL_H

#include "comm/registry.h"

extern const comm_capabilities NCCL_CAPABILITIES;
// Describes its calls (comm/algorithm.h), with the algorithms of NCCL for those that the library carries out.
void nccl_flows(const comm_described_call *c, comm_flows *out);

enum { NCCL_RANKS = 256 }; // of which sums are made

// Opens the communicator of all ranks. It is a row of registry.c. E_USAGE for a device without such collectives, where
// the library is not on this machine, where ranks have other versions of it, and where a GPU has two ranks. E_PEER
// names a rank that does not come in time. Collective over all ranks.
status nccl_open(const comm_options *o, comm **out, err *e);

#endif
