// lock.h -- a lock in memory that processes share, which survives a process that dies with it.
//
// Used by the arena and by the store of one machine. The holder must leave what the lock protects
// valid after each of its stores, because the next holder cannot finish the work of a dead one.
#ifndef TRIREME_RENDEZVOUS_LOCK_H
#define TRIREME_RENDEZVOUS_LOCK_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct comm_lock {
    pthread_mutex_t mutex;
} comm_lock;

enum { LOCK_FOR_EVER = -1 };

// Prepares a lock in zeroed shared memory, before the ranks start. It needs no close. E_IO.
status comm_lock_init(comm_lock *l, err *e);
// Takes the lock within deadline_ms milliseconds (LOCK_FOR_EVER: without a limit; 0: at once or not
// at all). Returns false when another rank kept it so long. When the holder died, the next caller
// gets it.
bool comm_lock_take(comm_lock *l, int64_t deadline_ms);
void comm_lock_give(comm_lock *l);

#endif
