// ucx.h -- the communicator of ranks that are processes on any hosts, over UCX: TCP, InfiniBand, or shared
// memory, as UCX chooses (UCX_TLS). It is a transport of network.h. Ranks meet in the store of comm_options, of which
// each host may see a server (store_tcp.h). Each rank has one worker of UCX.
#ifndef TRIREME_COMM_UCX_H
#define TRIREME_COMM_UCX_H

#include "comm/network/network.h"

// Opens the communicator of all ranks. It is a row of registry.c. E_USAGE for a device whose memory the host
// cannot address, and for an unknown algorithm. Collective over all ranks.
status ucx_open(const comm_options *o, comm **out, err *e);

#endif
