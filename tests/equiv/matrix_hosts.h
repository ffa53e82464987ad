// matrix_hosts.h -- for tests: ranks of one or two hosts. Two hosts are two worlds on this machine; their ranks are
// processes, meet in a TCP store on loopback, and use the communicator hier.
#ifndef TRIREME_TESTS_MATRIX_HOSTS_H
#define TRIREME_TESTS_MATRIX_HOSTS_H

#include "comm/registry.h"
#include "rendezvous/store_server.h"

typedef struct matrix_hosts {
    world *world[2];   // [1] NULL: there is one host
    int ranks, second; // of all hosts; the first rank of the second host
    net_secret secret;
    net_address *store; // in memory that processes share
    int started[2];     // a pipe that is closed when the store is open
    store_server *server;
} matrix_hosts;

// second 0: one host. Called before ranks start; the caller closes *h also where it fails.
status matrix_hosts_open(int ranks, int second, bool as_threads, matrix_hosts *h, err *e);
// Opens the store, after the ranks were forked: a process must not be forked from one with threads.
status matrix_hosts_start(matrix_hosts *h, err *e);
void matrix_hosts_close(matrix_hosts *h);

// Called by a rank: what it needs to open a communicator of all ranks. It closes *store (NULL: it has none) after that
// communicator. With two hosts it waits for matrix_hosts_start.
status matrix_hosts_enter(const matrix_hosts *h, int rank, device *d, comm_store **store,
                          comm_options *out, err *e);

#endif
