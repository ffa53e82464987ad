// group.h -- the hosts that doctor runs on at the same time: they meet in the TCP store of rank 0, and learn who came. A host
// that does not come is named after a time limit. cmd/doctor/doctor_hosts.c opens it. It does not know what hosts check.
#ifndef TRIREME_DOCTOR_HOSTS_GROUP_H
#define TRIREME_DOCTOR_HOSTS_GROUP_H

#include "net/address.h"
#include "net/secret.h"
#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"

enum { HOST_NAME_BYTES = 256 };

typedef struct host_member {
    int rank;  // its first rank
    int ranks; // that it has
    char name[HOST_NAME_BYTES];
    char address[NET_HOST_BYTES]; // at which it listens for the measurement of pairs
    int port;
} host_member;

typedef struct host_group {
    store_server *server; // on the host of rank 0
    comm_store *store;
    net_secret secret;
    int listener;        // for the other hosts
    host_member *member; // [count], those that came, in the order of their ranks
    int count, index;    // index is this host
    int *
        missing; // [missing_count] first ranks that did not come; only rank 0's host knows all of them
    int missing_count;
    int64_t wall_ns; // CLOCK_REALTIME less CLOCK_MONOTONIC of rank 0's host
    int64_t timeout_ms;
} host_group;

typedef struct host_group_options {
    const char *host; // of rank 0, as the launcher names it
    int port, rank, ranks, local_ranks;
    const char *name;        // of this host
    const char *secret_file; // NULL: as net_secret_find
    int64_t timeout_ms;      // for the others to come, and for each later wait
} host_group_options;

// Meets the others. Rank 0's host waits for them until the time limit and goes on with those that came. E_PEER where rank 0's
// host does not answer: the text says whether the port was refused, or nothing came back. The caller closes *out also after a failure.
status host_group_open(const host_group_options *o, host_group *out, err *e);
void host_group_close(host_group *g);

// Gives a key a text of any length, and reads one. E_PEER at the deadline. The caller frees *out.
status host_group_put(host_group *g, const char *key, const char *text, size_t bytes, err *e);
status host_group_get(host_group *g, const char *key, int64_t deadline_ms, char **out,
                      size_t *bytes, err *e);
// Waits until all hosts have called it with this number, but not for those that are gone. Returns E_PEER at the time limit.
status host_group_wait(host_group *g, int number, int64_t timeout_ms, err *e);
// Returns whether a host has lost its connection to the store.
bool host_group_is_gone(host_group *g, int index);

// How far the clock of the day of this host is ahead of that of rank 0's host, in seconds, to within *error_s.
status host_group_clock(host_group *g, double *ahead_s, double *error_s, err *e);

// Tries to connect, and says in out[bytes] what came of it: "it answers", "the connection was refused: …", "nothing came back
// within 3 s: …". Returns whether it answers.
bool host_probe_port(const net_address *a, int64_t timeout_ms, char *out, size_t bytes);

#endif
