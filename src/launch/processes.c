// processes.c -- runs ranks as processes, which are forked without exec and watched through pidfds.
//
// Called by launch.c. A rank that fails or dies fails the world. The others have LEAVE_MS to end by
// themselves; then they are killed. If this process dies, the kernel kills the ranks
// (PR_SET_PDEATHSIG). It does not know what a rank does.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/maps.h"
#include "launch/fault.h"
#include "launch/workers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// The starting process has a descriptor open for each rank, and a few more.
enum { POLL_MS = 100, LEAVE_MS = 1000, OTHER_FILES = 64 };

// A rank exits with this plus its status. Any other code means that something else ended the
// process.
enum { EXIT_BASE = 100 };

typedef struct launch_workers {
    world *world;
    int ranks, alive;
    pid_t *pids;        // [ranks]; 0: has ended
    int *pidfds;        // [ranks]
    struct pollfd *fds; // [ranks + 1], for watch
    int *polled;        // [ranks]: the rank of each of fds
    int faults;         // socket, see fault.h
    bool interrupted;
} launch_workers;

static _Noreturn void rank_process(launch_workers *c, int rank, pid_t parent, launch_rank_main fn,
                                   void *arg, launch_terminal *t)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); // the parent died before the line above
    for (int r = 0; r < rank; r++) close(c->pidfds[r]);
    if (t->fd >= 0) close(t->fd);
    if (c->faults >= 0) close(c->faults);
    fault_install();
    const status result = workers_run_rank(c->world, rank, c->ranks, fn, arg);
    fflush(NULL);
    // _exit skips the atexit handlers, which the starting process runs.
    _exit(EXIT_BASE + (int)result);
}

static status start_rank(launch_workers *c, int rank, launch_rank_main fn, void *arg,
                         launch_terminal *t, err *e)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return err_errno(e, "cannot start rank %d", rank);
    if (pid == 0) rank_process(c, rank, parent, fn, arg, t);
    c->pids[rank] = pid;
    c->alive++;
    c->pidfds[rank] = pidfd_open(pid, 0);
    if (c->pidfds[rank] < 0) return err_errno(e, "cannot watch rank %d", rank);
    return OK;
}

static void kill_all(launch_workers *c)
{
    for (int r = 0; r < c->ranks; r++)
        if (c->pids[r]) kill(c->pids[r], SIGKILL);
}

static void note_lost(launch_workers *c, int rank, int how)
{
    char why[MAPS_LINE_BYTES];
    const bool has_reason =
        WIFSIGNALED(how) && WTERMSIG(how) == SIGBUS && fault_receive(c->faults, why, sizeof why);
    comm_failure_set_lost(c->world->failure, rank, c->pids[rank], how, has_reason ? why : NULL);
}

// Collects a rank that has ended. Until waitpid returns, no other process gets its pid.
static void reap(launch_workers *c, int rank)
{
    int how = 0;
    pid_t got;
    do got = waitpid(c->pids[rank], &how, 0);
    while (got < 0 && errno == EINTR);
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) - EXIT_BASE : -1;
    if (code == E_INTERRUPTED)
        c->interrupted = true;
    else if (code < OK || code > E_INTERNAL)
        note_lost(c, rank, how);
    if (c->pidfds[rank] >= 0) close(c->pidfds[rank]);
    c->pids[rank] = 0;
    c->alive--;
}

// Waits up to POLL_MS for a rank to end or a signal to come.
static void watch(launch_workers *c, launch_terminal *t)
{
    struct pollfd *fds = c->fds;
    int n = 0;
    for (int r = 0; r < c->ranks; r++) {
        if (!c->pids[r]) continue;
        c->polled[n] = r;
        fds[n++] = (struct pollfd){.fd = c->pidfds[r], .events = POLLIN};
    }
    fds[n] = (struct pollfd){.fd = t->fd, .events = POLLIN};
    if (poll(fds, (nfds_t)n + 1, POLL_MS) <= 0) return;
    if (fds[n].revents) terminal_read(t, c->world);
    for (int i = 0; i < n; i++)
        if (fds[i].revents) reap(c, c->polled[i]);
}

static void wait_for_all(launch_workers *c, launch_terminal *t)
{
    int64_t deadline = INT64_MAX;
    while (c->alive > 0) {
        watch(c, t);
        if (deadline == INT64_MAX && comm_failure_get(c->world->failure, NULL, NULL))
            deadline = clock_ns() + (int64_t)LEAVE_MS * 1000000;
        if (clock_ns() >= deadline) kill_all(c);
    }
}

// Raises the soft limit of open files where it is too low for the ranks, as far as the hard limit
// allows.
static void allow_files(int ranks)
{
    struct rlimit limit;
    const rlim_t need = (rlim_t)ranks + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) return;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static status tables_open(launch_workers *c, err *e)
{
    status result = OK;
    const size_t ranks = (size_t)c->ranks;
    TRY(alloc_zeroed(&c->pids, ranks, sizeof *c->pids, "the list of ranks", e));
    TRY(alloc_zeroed(&c->pidfds, ranks, sizeof *c->pidfds, "the list of ranks", e));
    TRY(alloc_zeroed(&c->fds, ranks + 1, sizeof *c->fds, "the list of ranks", e));
    TRY(alloc_zeroed(&c->polled, ranks, sizeof *c->polled, "the list of ranks", e));
done:
    return result;
}

static void tables_close(launch_workers *c)
{
    free(c->pids);
    free(c->pidfds);
    free(c->fds);
    free(c->polled);
}

status workers_run_processes(world *w, int ranks, launch_rank_main fn, void *arg,
                             launch_terminal *t, bool *interrupted, err *e)
{
    status result = OK;
    launch_workers c = {.world = w, .ranks = ranks, .faults = fault_listen()};
    TRY(tables_open(&c, e));
    allow_files(ranks);
    fflush(NULL); // otherwise every rank would print what is buffered here
    for (int r = 0; r < ranks; r++) TRY(start_rank(&c, r, fn, arg, t, e));
    wait_for_all(&c, t);
    *interrupted = c.interrupted;
done:
    if (c.alive > 0) kill_all(&c);
    for (int r = 0; c.alive > 0; r++)
        if (c.pids[r]) reap(&c, r);
    if (c.faults >= 0) close(c.faults);
    tables_close(&c);
    return result;
}
