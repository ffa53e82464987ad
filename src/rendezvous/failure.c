// failure.c -- see failure.h. The first writer wins. A later one waits until the record is complete, because it goes on to
// tell others of the failure. A rank that died while it wrote is replaced by the line that says how it died.
//
// Called by launch/, by ranks that fail, and by everything that waits for a rank.
#include "rendezvous/failure.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

// A rank waits for so long for the failure record of a rank that has left its communicators, or that has claimed it.
enum { LEAVER_WAIT_MS = 3000 };

static bool claim(comm_failure *f, int value)
{
    int none = 0;
    return atomic_compare_exchange_strong(&f->claimed, &none, value);
}

// A writer that comes second waits for the first one's record. That takes long only where its process waits for a core, or
// is dead.
static bool claim_or_await(comm_failure *f, int rank)
{
    if (claim(f, rank + 2)) return true;
    comm_failure_await(f);
    return false;
}

static void publish(comm_failure *f, int rank)
{
    f->rank = rank;
    atomic_store_explicit(&f->known, 1, memory_order_release);
}

bool comm_failure_set(comm_failure *f, int rank, const err *why)
{
    if (!claim_or_await(f, rank)) return false;
    f->why = *why;
    if (rank >= 0 && f->host[0])
        err_prefix(&f->why, "rank %d (host %s): ", rank, f->host);
    else if (rank >= 0)
        err_prefix(&f->why, "rank %d: ", rank);
    publish(f, rank);
    return true;
}

bool comm_failure_set_described(comm_failure *f, int rank, const err *why)
{
    if (!claim_or_await(f, rank)) return false;
    f->why = *why;
    publish(f, rank);
    return true;
}

// A rank that died between its claim and its record cannot complete it. Several processes may see its end, and one of them
// writes: its claim has another value than that of the rank itself.
static bool claim_lost(comm_failure *f, int rank)
{
    int dead = rank + 2;
    if (!claim(f, -(rank + 2)) &&
        (comm_failure_known(f) || !atomic_compare_exchange_strong(&f->claimed, &dead, -(rank + 2))))
        return false;
    memset(&f->why, 0, sizeof f->why);
    return true;
}

// "rank 2 (pid 7)", or with its host.
static void set_lost(comm_failure *f, int rank, pid_t pid, const char *how, const char *doing)
{
    err_set(&f->why, E_PEER, "rank %d (%s%s%spid %d) %s%s", rank, f->host[0] ? "host " : "",
            f->host, f->host[0] ? ", " : "", (int)pid, how, doing);
    publish(f, rank);
}

bool comm_failure_set_lost(comm_failure *f, int rank, pid_t pid, int wait_status, const char *why,
                           const char *doing)
{
    if (!claim_lost(f, rank)) return false;
    char how[ERR_TEXT_BYTES];
    if (WIFSIGNALED(wait_status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)%s%s", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)), why ? ": " : "", why ? why : "");
    else
        snprintf(how, sizeof how, "ended with exit code %d before its work was done",
                 WEXITSTATUS(wait_status));
    set_lost(f, rank, pid, how, doing);
    return true;
}

bool comm_failure_set_exited(comm_failure *f, int rank, pid_t pid, const char *doing)
{
    if (!claim_lost(f, rank)) return false;
    set_lost(f, rank, pid, "was killed or ended before its work was done", doing);
    return true;
}

bool comm_failure_get(const comm_failure *f, int *rank, err *out)
{
    if (!comm_failure_known(f)) return false;
    if (rank) *rank = f->rank;
    if (out) *out = f->why;
    return true;
}

status comm_failure_error(const comm_failure *f, err *e)
{
    return err_set(e, E_PEER, "%s", f->why.text);
}

status comm_failure_check(const void *failure, err *e)
{
    const comm_failure *f = failure;
    return comm_failure_known(f) ? comm_failure_error(f, e) : OK;
}

bool comm_failure_await(const comm_failure *f)
{
    const struct timespec one_ms = {0, 1000 * 1000};
    for (int i = 0; i < LEAVER_WAIT_MS && !comm_failure_known(f); i++) nanosleep(&one_ms, NULL);
    return comm_failure_known(f);
}
