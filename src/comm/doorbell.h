// doorbell.h -- a number in shared memory that its owner changes and that other ranks wait for.
//
// Used by the rounds, queues and channels of the local communicator. It does not know what the
// number means. A waiter spins for a short time if every rank has a core of its own, then yields
// the processor, then sleeps on a futex.
#ifndef TRIREME_COMM_DOORBELL_H
#define TRIREME_COMM_DOORBELL_H

#include "comm/world.h"

#include <stdatomic.h>

typedef struct doorbell {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} doorbell;

// Changes the number. A rank that sees the new number also sees everything that the caller wrote
// before.
void doorbell_ring(doorbell *b, uint32_t value);

static inline uint32_t doorbell_read(const doorbell *b)
{
    return atomic_load_explicit(&b->value, memory_order_acquire);
}

// Blocks while the number is `seen`, and returns true when it has changed. Returns false when it
// has not, and the world has failed, or the watchdog's time is over (in which this process ran), or
// `*left` has become true. `left` says that the owner has gone; it may be NULL.
bool doorbell_wait(doorbell *b, uint32_t seen, const _Atomic int *left, const world *w);

// Blocks until the number is `target`. Returns false when it is not, and the world has failed or
// the watchdog's time is over.
bool doorbell_wait_for(doorbell *b, uint32_t target, const world *w);

#endif
