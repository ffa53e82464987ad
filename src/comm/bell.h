// bell.h -- a number in shared memory that others wait for.
//
// One owner changes it, any number of ranks wait: a short spin where each rank has a core of its
// own, then the processor is yielded, then the waiter sleeps on a futex. Knows nothing of what the
// number means.
#ifndef TRIREME_COMM_BELL_H
#define TRIREME_COMM_BELL_H

#include "comm/world.h"

#include <stdatomic.h>

typedef struct bell {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} bell;

// Changes the number; everything that the caller wrote before is visible to who sees it.
void bell_ring(bell *b, uint32_t value);

static inline uint32_t bell_read(const bell *b)
{
    return atomic_load_explicit(&b->value, memory_order_acquire);
}

// Blocks while the number is `seen`. False when the world has failed, or its watchdog's time
// (while this process ran) is over, or `*left` (NULL: none) has become true, and the number has not
// changed.
bool bell_wait(bell *b, uint32_t seen, const _Atomic int *left, const world *w);

// Blocks until the number is `target`. False when the world has failed and it is not.
bool bell_wait_for(bell *b, uint32_t target, const world *w);

#endif
