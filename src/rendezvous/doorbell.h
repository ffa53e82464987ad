// doorbell.h -- a number in shared memory that its owner changes and that other ranks wait for.
//
// Used by the rounds, queues and channels of the local communicator, and by the store of one
// machine. It does not know what the number means. A waiter spins for a short time if every rank has
// a core of its own and the owner is on another one than the waiter, then yields the processor, then sleeps on a
// futex.
#ifndef TRIREME_RENDEZVOUS_DOORBELL_H
#define TRIREME_RENDEZVOUS_DOORBELL_H

#include "rendezvous/failure.h"

#include <stdatomic.h>
#include <stdint.h>

enum { DOORBELL_NO_CORE = UINT16_MAX };

typedef struct doorbell {
    _Atomic uint32_t value;
    _Atomic uint16_t sleepers;
    _Atomic uint16_t
        core; // of the owner when it changed the number last; DOORBELL_NO_CORE: not known
} doorbell;

// The limits of a wait.
typedef struct doorbell_limits {
    const comm_failure *failure;       // ends every wait; NULL: none
    const _Atomic int64_t *timeout_ms; // time in which this process runs; 0: none
    bool spin;                         // every rank can have a core of its own
    void (*idle)(void *arg);           // called each 20 ms of a sleep; NULL: nothing
    void *idle_arg;
} doorbell_limits;

// Changes the number. A rank that sees the new number also sees everything that the caller wrote
// before.
void doorbell_ring(doorbell *b, uint32_t value);

// Returns whether the calling thread runs on the core on which the number was changed last.
bool doorbell_shares_core(const doorbell *b);

static inline uint32_t doorbell_read(const doorbell *b)
{
    return atomic_load_explicit(&b->value, memory_order_acquire);
}

// Blocks while the number is `seen`, and returns true when it has changed. Returns false when it
// has not, and there is a failure, or the time is over, or `*left` has become true. `left` says that
// the owner has gone; it may be NULL.
bool doorbell_wait(doorbell *b, uint32_t seen, const _Atomic int *left, const doorbell_limits *l);

// Blocks until the number is `target`. Returns false when it is not, and there is a failure or the
// time is over.
bool doorbell_wait_for(doorbell *b, uint32_t target, const doorbell_limits *l);

#endif
