// store_process.h -- a process that keeps a TCP store for the process that started it.
//
// It has a thread, and the process that opens it forks ranks, so it cannot be that one. It also lives on for a moment
// when that one is killed, so that the others learn why the run has failed.
#ifndef TRIREME_RENDEZVOUS_STORE_PROCESS_H
#define TRIREME_RENDEZVOUS_STORE_PROCESS_H

#include "rendezvous/store_server.h"

#include <sys/types.h>

typedef struct store_process {
    pid_t pid; // 0: there is none
    int alive; // as long as it is open the store is kept
} store_process;

// Starts a process whose store listens at `a`, with a port. As long as another one listens there it tries again, at
// most deadline_ms. The caller must have no threads. E_IO as store_server_open.
status store_process_open(const net_address *a, const net_secret *secret, int64_t deadline_ms,
                          store_process *out, err *e);
// Waits until no client is left, at most a few seconds. Safe on a zeroed one.
void store_process_close(store_process *p);

#endif
