// failure.h -- the record of the first failure of a run, in memory that its ranks share.
//
// The starting process and each rank write it. Everything that waits for another rank reads it, and
// ends when there is a failure. It does not know how ranks are started or what they wait for.
#ifndef TRIREME_RENDEZVOUS_FAILURE_H
#define TRIREME_RENDEZVOUS_FAILURE_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

// Zeroed memory is a record without a failure. A writer claims the record first and fills it after
// that, so no reader sees an incomplete one.
enum { COMM_HOST_BYTES = 72 };

typedef struct comm_failure {
    // 2 + the rank whose failure is the first, and 0 where there is none. It is negative where another process writes
    // how that rank ended.
    _Atomic int claimed;
    _Atomic int known; // true: rank and why may be read
    int rank;
    err why;
    char host[COMM_HOST_BYTES]; // of these ranks, named with them; empty: there is one host
} comm_failure;

// Records the first failure of the run: pending and later calls of every communicator return E_PEER
// within about 20 ms. Rank -1 is the starting process, or says that no single rank failed. Returns
// false, and records nothing, when there is a failure already. Then it waits until that one is known, for three
// seconds at most.
bool comm_failure_set(comm_failure *f, int rank, const err *why);
// Does the same for a rank whose process ended before its work was done. Called by the starting
// process. wait_status comes from waitpid. `why` is one more line of explanation, or NULL. `doing` ends the
// line: what the rank was doing (comm_watchdog_describe), or "".
bool comm_failure_set_lost(comm_failure *f, int rank, pid_t pid, int wait_status, const char *why,
                           const char *doing);

// Does the same for a rank whose process, which another program has started, is gone without having left in
// good order. Called by every process that has a connection to it; more than one may see it.
bool comm_failure_set_exited(comm_failure *f, int rank, pid_t pid, const char *doing);
// Does the same for a failure that another rank or host has noticed: *why is a full line.
bool comm_failure_set_described(comm_failure *f, int rank, const err *why);

static inline bool comm_failure_known(const comm_failure *f)
{
    return atomic_load_explicit(&f->known, memory_order_acquire) != 0;
}

// Returns whether there is a failure, and fills *rank and *out, each of which may be NULL.
// out->code is the code of the failing rank. out->text is a full line, such as "rank 1: …" or "rank
// 1 (pid 7) was killed by signal 9 (Killed)". *rank is -1 when no single rank failed.
bool comm_failure_get(const comm_failure *f, int *rank, err *out);
// Returns E_PEER with the line of the failure, which must be known.
status comm_failure_error(const comm_failure *f, err *e);
// The same where a failure is known, else OK. `failure` is a comm_failure: the function of a device
// (device.failure_of_peers).
status comm_failure_check(const void *failure, err *e);
// Called when a rank is found to have left. A rank that fails closes its communicators first and
// records its failure later. This call waits up to three seconds, more on a busy machine, for that record, so that the cause
// is reported and not its consequence. Returns whether there is a failure.
bool comm_failure_await(const comm_failure *f);

#endif
