// ucx_private.h -- what the files of the transport ucx share. Only ucx*.c include it.
#ifndef TRIREME_COMM_UCX_PRIVATE_H
#define TRIREME_COMM_UCX_PRIVATE_H

#include "comm/network/network_private.h"
#include "comm/network/ucx.h"
#include "comm/network/ucx_library.h"

// Active messages that ranks send each other.
enum { UCX_FAILURE_TOLD, UCX_RANK_LEFT };

typedef struct ucx_peer {
    ucp_ep_h endpoint; // NULL: closed, or this rank itself
    const char **lost; // of the rank
    const ucx_api *api;
    bool is_near; // a rank of this machine: the world knows its failures, and UCX does not
} ucx_peer;

// The worker of a rank.
typedef struct ucx_worker {
    ucx_api api;
    ucp_context_h context;
    ucp_worker_h worker;
    int fd;         // of its events
    bool copies;    // there is no RDMA: what comes from other machines is copied in any case
    ucx_peer *peer; // [size]
} ucx_worker;

static inline ucx_worker *ucx_worker_of(const network_rank *own)
{
    return own->state;
}

static inline const ucx_api *ucx_of(const network_rank *own)
{
    return &ucx_worker_of(own)->api;
}

// ---- ucx_route.c: of network_transport, too

void ucx_add_route(network_rank *own, int rank, text *out);

// ---- ucx_worker.c: the functions of network_transport

status ucx_worker_open(network_rank *own, const comm_options *o, err *e);
status ucx_worker_connect(network_rank *own, int64_t deadline_ms, err *e);
void ucx_worker_close(network_rank *own, bool well);

#endif
