// stop.h -- the request that a run stops in good order (Ctrl-C), in memory that its ranks share.
//
// The starting process sets it. The ranks read it once per step and agree on the step after which
// they stop. It does not know who asks.
#ifndef TRIREME_RENDEZVOUS_STOP_H
#define TRIREME_RENDEZVOUS_STOP_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct comm_stop {
    _Atomic int requested; // zeroed memory is no request
} comm_stop;

// Async-signal-safe.
static inline void comm_stop_request(comm_stop *s)
{
    atomic_store(&s->requested, 1);
}

static inline bool comm_stop_requested(const comm_stop *s)
{
    return atomic_load(&s->requested) != 0;
}

#endif
