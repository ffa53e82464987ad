// processes.c -- ranks as processes: forked without exec, watched through pidfds, never left
// behind.
//
// Called by launch.c. A rank that ends badly fails the world; the others get a second to leave by
// themselves and are then killed. If this process dies, the kernel kills the ranks
// (PR_SET_PDEATHSIG). Knows nothing of what a rank does.
#include "base/clock.h"
#include "base/maps.h"
#include "launch/fault.h"
#include "launch/workers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 100, LEAVE_MS = 1000 };

// A rank's exit code is this plus its status; anything else is not the end of its work.
enum { EXIT_BASE = 100 };

typedef struct crew {
    world *world;
    int ranks, alive;
    pid_t pids[WORLD_RANKS]; // 0: gone
    int pidfds[WORLD_RANKS];
    int faults; // socket, see fault.h
    bool interrupted;
} crew;

static _Noreturn void rank_process(crew *c, int rank, pid_t parent, rank_main fn, void *arg,
                                   terminal *t)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); // it died before the line above
    for (int r = 0; r < rank; r++) close(c->pidfds[r]);
    if (t->fd >= 0) close(t->fd);
    if (c->faults >= 0) close(c->faults);
    fault_install();
    const status result = workers_run_rank(c->world, rank, c->ranks, fn, arg);
    fflush(NULL);
    // Without the starting process's atexit handlers, which will run there.
    _exit(EXIT_BASE + (int)result);
}

static status start_rank(crew *c, int rank, rank_main fn, void *arg, terminal *t, err *e)
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

static void kill_all(crew *c)
{
    for (int r = 0; r < c->ranks; r++)
        if (c->pids[r]) kill(c->pids[r], SIGKILL);
}

static void note_lost(crew *c, int rank, int how)
{
    char why[MAPS_LINE_BYTES];
    const bool told =
        WIFSIGNALED(how) && WTERMSIG(how) == SIGBUS && fault_receive(c->faults, why, sizeof why);
    world_lost(c->world, rank, c->pids[rank], how, told ? why : NULL);
}

// Takes note of a rank that has ended; a process that nobody waited for keeps its number.
static void reap(crew *c, int rank)
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
static void watch(crew *c, terminal *t)
{
    struct pollfd fds[WORLD_RANKS + 1];
    int rank_of[WORLD_RANKS], n = 0;
    for (int r = 0; r < c->ranks; r++) {
        if (!c->pids[r]) continue;
        rank_of[n] = r;
        fds[n++] = (struct pollfd){.fd = c->pidfds[r], .events = POLLIN};
    }
    fds[n] = (struct pollfd){.fd = t->fd, .events = POLLIN};
    if (poll(fds, (nfds_t)n + 1, POLL_MS) <= 0) return;
    if (fds[n].revents) terminal_read(t, c->world);
    for (int i = 0; i < n; i++)
        if (fds[i].revents) reap(c, rank_of[i]);
}

static void see_to_the_end(crew *c, terminal *t)
{
    int64_t deadline = INT64_MAX;
    while (c->alive > 0) {
        watch(c, t);
        if (deadline == INT64_MAX && world_failure(c->world, NULL, NULL))
            deadline = clock_ns() + (int64_t)LEAVE_MS * 1000000;
        if (clock_ns() >= deadline) kill_all(c);
    }
}

status workers_run_processes(world *w, int ranks, rank_main fn, void *arg, terminal *t,
                             bool *interrupted, err *e)
{
    status result = OK;
    crew c = {.world = w, .ranks = ranks, .faults = fault_listen()};
    fflush(NULL); // what is buffered belongs to this process alone
    for (int r = 0; r < ranks; r++) TRY(start_rank(&c, r, fn, arg, t, e));
    see_to_the_end(&c, t);
    *interrupted = c.interrupted;
done:
    if (result != OK) {
        kill_all(&c);
        for (int r = 0; r < ranks; r++)
            if (c.pids[r]) reap(&c, r);
    }
    if (c.faults >= 0) close(c.faults);
    return result;
}
