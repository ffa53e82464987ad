// processes.c -- runs ranks as processes, which are forked without exec and watched through pidfds.
//
// Called by launch.c. Where another launcher has started a process for each rank, each of them forks its rank in this
// way and also watches its connections (rendezvous/peers.h). A rank that fails or dies fails the world. The others have LEAVE_MS to end by
// themselves; then they are killed. If this process dies, the kernel kills the ranks
// (PR_SET_PDEATHSIG). It does not know what a rank does.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/maps.h"
#include "launch/fault.h"
#include "launch/oom.h"
#include "launch/workers.h"
#include "rendezvous/hosts.h"
#include "rendezvous/peers.h"

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
    int first, count, alive; // ranks first to first + count - 1 are started here
    pid_t *pids;             // [count]; 0: has ended
    int *pidfds;             // [count]
    struct pollfd *fds;      // [count + 2 + comm_peers_count], for watch
    int *polled;             // [count]: the index of each of fds
    int faults;              // socket, see fault.h
    oom_count before;        // the ranks started
    bool interrupted;
} launch_workers;

static _Noreturn void rank_process(launch_workers *c, int i, pid_t parent, launch_rank_main fn,
                                   void *arg, launch_terminal *t)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); // the parent died before the line above
    for (int before = 0; before < i; before++) close(c->pidfds[before]);
    comm_peers_close(c->world);
    if (t->fd >= 0) close(t->fd);
    if (t->starter_fd >= 0) close(t->starter_fd);
    if (c->faults >= 0) close(c->faults);
    fault_install();
    const status result = workers_run_rank(c->world, c->world->first_rank + c->first + i, fn, arg);
    fflush(NULL);
    // _exit skips the atexit handlers, which the starting process runs.
    _exit(EXIT_BASE + (int)result);
}

static status start_rank(launch_workers *c, int i, launch_rank_main fn, void *arg,
                         launch_terminal *t, err *e)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return err_errno(e, "cannot start rank %d", c->world->first_rank + c->first + i);
    if (pid == 0) rank_process(c, i, parent, fn, arg, t);
    c->pids[i] = pid;
    c->alive++;
    c->pidfds[i] = pidfd_open(pid, 0);
    if (c->pidfds[i] < 0)
        return err_errno(e, "cannot watch rank %d", c->world->first_rank + c->first + i);
    return OK;
}

static void kill_all(launch_workers *c)
{
    for (int i = 0; i < c->count; i++)
        if (c->pids[i]) kill(c->pids[i], SIGKILL);
}

static void note_lost(launch_workers *c, int i, int how)
{
    char fault[MAPS_LINE_BYTES], doing[COMM_DOING_BYTES];
    world *w = c->world;
    const char *why = NULL;
    const int rank = c->first + i, number = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    if (number == SIGBUS && fault_receive(c->faults, fault, sizeof fault)) why = fault;
    if (number == SIGKILL) why = oom_explain(c->before, "");
    comm_watchdog_describe(w->watchdog, rank, rank, "was", &w->last_calls, doing, sizeof doing);
    comm_failure_set_lost(w->failure, w->first_rank + rank, c->pids[i], how, why, doing);
}

// Collects a rank that has ended. Until waitpid returns, no other process gets its pid.
static void reap(launch_workers *c, int i)
{
    int how = 0;
    pid_t got;
    do got = waitpid(c->pids[i], &how, 0);
    while (got < 0 && errno == EINTR);
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) - EXIT_BASE : -1;
    if (code == E_INTERRUPTED)
        c->interrupted = true;
    else if (code < OK || code > E_INTERNAL)
        note_lost(c, i, how);
    if (c->pidfds[i] >= 0) close(c->pidfds[i]);
    c->pids[i] = 0;
    c->alive--;
}

// Waits up to POLL_MS for a rank to end, a signal to come, or the process of another rank to be gone. Returns whether
// any of the latter is left.
static bool watch(launch_workers *c, launch_terminal *t)
{
    struct pollfd *fds = c->fds;
    int n = 0;
    for (int i = 0; i < c->count; i++) {
        if (!c->pids[i]) continue;
        c->polled[n] = i;
        fds[n++] = (struct pollfd){.fd = c->pidfds[i], .events = POLLIN};
    }
    fds[n] = (struct pollfd){.fd = t->fd, .events = POLLIN};
    fds[n + 1] = (struct pollfd){.fd = t->starter_fd, .events = POLLIN};
    comm_peers_poll(c->world, fds + n + 2);
    if (poll(fds, (nfds_t)(n + 2 + comm_peers_count(c->world)), POLL_MS) > 0) {
        if (fds[n].revents) terminal_read(t, c->world);
        if (fds[n + 1].revents) terminal_starter_ended(t, c->world);
        for (int i = 0; i < n; i++)
            if (fds[i].revents) reap(c, c->polled[i]);
    }
    return comm_peers_check(c->world);
}

static void wait_for_all(launch_workers *c, launch_terminal *t)
{
    int64_t deadline = INT64_MAX;
    bool has_peers = comm_peers_count(c->world) > 0;
    while (c->alive > 0 || (has_peers && c->first == 0 && deadline == INT64_MAX) ||
           !comm_hosts_leave(c->world)) {
        has_peers = watch(c, t);
        if (deadline == INT64_MAX && comm_failure_get(c->world->failure, NULL, NULL))
            deadline = clock_ns() + (int64_t)LEAVE_MS * 1000000;
        if (clock_ns() >= deadline) kill_all(c);
    }
}

void workers_allow_files(int ranks)
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
    const size_t ranks = (size_t)c->count, peers = (size_t)comm_peers_count(c->world);
    TRY(alloc_zeroed(&c->pids, ranks, sizeof *c->pids, "the list of ranks", e));
    TRY(alloc_zeroed(&c->pidfds, ranks, sizeof *c->pidfds, "the list of ranks", e));
    TRY(alloc_zeroed(&c->fds, ranks + 2 + peers, sizeof *c->fds, "the list of ranks", e));
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

status workers_run_processes(world *w, launch_rank_main fn, void *arg, launch_terminal *t,
                             bool *interrupted, err *e)
{
    status result = OK;
    launch_workers c = {.world = w,
                        .first = w->first,
                        .count = w->count,
                        .faults = fault_listen(),
                        .before = oom_read("")};
    TRY(tables_open(&c, e));
    workers_allow_files(c.count);
    fflush(NULL); // otherwise every rank would print what is buffered here
    for (int i = 0; i < c.count; i++) TRY(start_rank(&c, i, fn, arg, t, e));
    TRY(comm_hosts_watch(w, e));
    wait_for_all(&c, t);
    comm_peers_leave(w);
    *interrupted = c.interrupted;
done:
    if (c.alive > 0) kill_all(&c);
    for (int i = 0; c.alive > 0; i++)
        if (c.pids[i]) reap(&c, i);
    if (c.faults >= 0) close(c.faults);
    tables_close(&c);
    return result;
}
