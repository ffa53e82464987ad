// watcher.h -- a thread of a rank that looks at its communicators every few milliseconds, for those whose calls run on
// a device: the host of the rank may wait for a stream that waits for another rank, so somebody else has to look. It
// does not know what is looked at.
#ifndef TRIREME_COMM_WATCHER_H
#define TRIREME_COMM_WATCHER_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// Called with the lock held. passed_ns is the time since the last look, without most of the time in which the process
// was stopped.
typedef void (*comm_look)(void *arg, int64_t passed_ns);

// Zeroed memory is a watcher that does not run.
typedef struct comm_watcher {
    comm_look look;
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock; // while it runs; also for what `look` reads
    pthread_cond_t changed;
    bool runs, closing;
} comm_watcher;

// Starts the thread. `name` is that of the communicator, for messages. E_FIT where the system gives no thread.
status comm_watcher_start(comm_watcher *w, const char *name, comm_look look, void *arg, err *e);
// Ends it. It may not run.
void comm_watcher_stop(comm_watcher *w);

#endif
