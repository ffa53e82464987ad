// hosts.h -- the hosts of a run whose ranks another program has started on several of them: who is where, what rank 0
// decides for all, and failures that cross hosts.
//
// The ranks of a host share one memory (world.h). Hosts join in a TCP store, which a process beside rank 0 keeps
// (store_process.h). Of each host the process that starts its first rank is the one that speaks for it. Each rank has a
// connection of its own, for its communicator. Keys, behind the hash of the run's identity:
//   host/F       the host whose first rank is F
//   bytes, part/I   what rank 0 broadcasts
//   failure      the first failure of the run
//   ended        how many hosts' ranks have all ended
//   search       the search for the rank that keeps the others waiting (hosts_search.c)
#ifndef TRIREME_RENDEZVOUS_HOSTS_H
#define TRIREME_RENDEZVOUS_HOSTS_H

#include "rendezvous/store_process.h"
#include "rendezvous/world.h"

#include <pthread.h>

// The rendezvous of the hosts of a run.
typedef struct comm_hosts_options {
    const char *run;     // the identity of the run, the same on all hosts
    const char *version; // of the program
    net_address address;
    net_secret secret;
    store_process *kept; // that of rank 0 of all keeps the store; comm_hosts_join takes it
    int64_t deadline_ms;
} comm_hosts_options;

// Plain numbers and characters, as every host writes them.
typedef struct comm_host {
    int32_t first, ranks; // its ranks, among all
    char name[COMM_HOST_BYTES], version[24];
    int64_t nonce; // tells two processes apart
} comm_host;
_Static_assert(sizeof(comm_host) == 16 + COMM_HOST_BYTES + 24, "without padding");

typedef struct comm_host_table {
    int count;
    comm_host items[];
} comm_host_table;

typedef struct comm_hosts {
    net_address address;
    net_secret secret;
    uint64_t run;       // hash of its identity
    comm_store *store;  // the connection of this process; NULL: it has none
    store_process kept; // where this process keeps the store
    const comm_host_table
        *table; // in memory that the processes of this host share; NULL: not known yet
    pthread_t watcher;
    bool watches, has_counted, has_asked;
    comm_searcher searcher; // of this host
    _Atomic int leaving, left;
} comm_hosts;

// Opens the rendezvous of w, before or after other processes of the host have attached to it. The process of a host's
// first rank waits for all other hosts. The ranks of a host must be consecutive. E_PEER names the ranks that did not
// join, E_USAGE what differs. Collective over the starting processes of all hosts.
status comm_hosts_join(world *w, const comm_hosts_options *m, err *e);
// The process of rank 0 gives those of the other hosts' first ranks a copy of data [bytes]. The caller releases *out with
// free. E_PEER where the run has failed. Collective over the processes of first ranks.
status comm_hosts_broadcast(world *w, const void *data, size_t bytes, err *e);
status comm_hosts_receive(world *w, void **out, size_t *bytes, err *e);
// Gives a rank its own connection to the store, in the rank's process. It does nothing where w has no hosts. E_PEER.
status comm_hosts_enter(world *w, err *e);
// The name of the host of a rank among all; NULL: there is one host, or it is not known.
const char *comm_hosts_name(const world *w, int rank);

// How the clock of this host lies beside that of rank 0's, where the store is kept. Two measurements, at the begin and
// at the end of a run, show how they drift. After comm_hosts_enter. Not collective.
status comm_hosts_clock(world *w, store_clock *out, err *e);

// Returns whether all ranks reach each other by loopback: they are on one machine, or on hosts of one name that
// joined there.
bool comm_hosts_on_loopback(const world *w);

// Makes the failure of this host that of the run, where there is none. Called by processes of first ranks that do not
// watch.
void comm_hosts_fail(world *w);
// Carries failures between this host and the others in a thread of its own, until the ranks of this host have left, or
// there is a failure. A process that gives no sign of life for the watchdog's time and 5 s more is taken for lost. Called by the
// processes of first ranks after they have started their ranks; the other processes' call does nothing.
status comm_hosts_watch(world *w, err *e);
// The ranks of this host have ended. Returns whether the process may end, too: that of rank 0 waits for all hosts, or
// for a failure. Does not wait.
bool comm_hosts_leave(world *w);
// Ends the watch. w->hosts may be NULL.
void comm_hosts_close(world *w);

#endif
