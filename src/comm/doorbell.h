// doorbell.h -- a number in shared memory that others wait for.
//
// One owner changes it, any number of ranks wait: a short spin where each rank has a core of its
// own, then the processor is yielded, then the waiter sleeps on a futex. Knows nothing of what the
// number means.
#ifndef TRIREME_COMM_BELL_H
#define TRIREME_COMM_BELL_H

#include "comm/world.h"

#include <stdatomic.h>

typedef struct doorbell {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} doorbell;

// Changes the number; everything that the caller wrote before is visible to who sees it.
void doorbell_ring(doorbell *b, uint32_t value);

static inline uint32_t doorbell_read(const doorbell *b)
{
    return atomic_load_explicit(&b->value, memory_order_acquire);
}

// Blocks while the number is `seen`. False when the world has failed, or its watchdog's time
// (while this process ran) is over, or `*left` (NULL: none) has become true, and the number has not
// changed.
bool doorbell_wait(doorbell *b, uint32_t seen, const _Atomic int *left, const world *w);

// Blocks until the number is `target`. False when the world has failed and it is not.
bool doorbell_wait_for(doorbell *b, uint32_t target, const world *w);

#endif
