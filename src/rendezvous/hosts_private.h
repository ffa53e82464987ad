// hosts_private.h -- what hosts.c and hosts_watch.c share.
#ifndef TRIREME_RENDEZVOUS_HOSTS_PRIVATE_H
#define TRIREME_RENDEZVOUS_HOSTS_PRIVATE_H

#include "rendezvous/hosts.h"

enum { HOSTS_CALL_MS = 60000, HOSTS_SLICE_MS = 100 };

// A failure as hosts send it. It travels without the bytes behind its text.
typedef struct host_failure {
    int32_t rank, code;
    char text[STORE_VALUE_BYTES - 8];
} host_failure;

void comm_hosts_key(const comm_hosts *h, const char *what, int64_t i, char out[STORE_KEY_BYTES]);
// Writes the failure and returns its bytes.
size_t comm_hosts_pack(int rank, const err *why, host_failure *out);
// Sets what the other hosts read when this process has exited, or silent_ms without a sign of life (0: however long).
status comm_hosts_set_on_disconnect(world *w, const comm_host *own, int64_t silent_ms, err *e);
// Takes the failure that another host has told, and waits at most wait_ms for one. Returns OK where there is one, E_PEER
// where there is none, and E_IO where the store is lost.
status comm_hosts_take(world *w, int64_t wait_ms, err *e);
// Makes the next step of the search for the rank that keeps the others waiting, where that is a rank of this host.
void comm_hosts_search(world *w);
// Tells the failure of this host, which is known.
status comm_hosts_publish(world *w, err *e);

#endif
