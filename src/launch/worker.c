// worker.c -- see worker.h.
#define _GNU_SOURCE // execvpe, pipe2, sched_setaffinity
#include "launch/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// The child calls only what is safe after a fork of a process with threads.
static _Noreturn void become(const worker_command *c, pid_t parent, int error_pipe)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        for (int s = 1; s < NSIG; s++) sigaction(s, &standard, NULL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        const bool bound =
            !c->cores ||
            sched_setaffinity(0, sizeof *c->cores, (const cpu_set_t *)(const void *)c->cores) == 0;
        const bool joined = (c->out < 0 || dup2(c->out, STDOUT_FILENO) >= 0) &&
                            (c->error < 0 || dup2(c->error, STDERR_FILENO) >= 0);
        if (bound && joined) execvpe(c->argv[0], c->argv, c->env);
        const int why = errno;
        if (write(error_pipe, &why, sizeof why) < 0) _exit(127);
    }
    _exit(127);
}

// Returns the errno with which the child could not run the program; 0: it runs.
static int read_errno(int from)
{
    int why = 0;
    ssize_t got;
    do got = read(from, &why, sizeof why);
    while (got < 0 && errno == EINTR);
    return got == sizeof why ? why : 0;
}

status worker_start(const worker_command *c, worker_process *out, err *e)
{
    status result = OK;
    int error_pipe[2] = {-1, -1};
    *out = (worker_process){.pidfd = -1};
    if (pipe2(error_pipe, O_CLOEXEC) != 0) return err_errno(e, "cannot start %s", c->argv[0]);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(c, parent, error_pipe[1]);
    close(error_pipe[1]);
    if (pid < 0) {
        result = err_errno(e, "cannot start %s", c->argv[0]);
        goto done;
    }
    setpgid(pid, pid); // the child does it, too; whoever comes first
    out->pid = pid;
    const int why = read_errno(error_pipe[0]);
    if (why) {
        worker_reap(out);
        errno = why;
        result = err_errno(e, "cannot run %s", c->argv[0]);
        if (e) e->code = E_USAGE;
        result = E_USAGE;
        goto done;
    }
    out->pidfd = pidfd_open(pid, 0);
    if (out->pidfd < 0) {
        result = err_errno(e, "cannot watch %s", c->argv[0]);
        worker_signal(out, SIGKILL);
        worker_reap(out);
    }
done:
    close(error_pipe[0]);
    return result;
}

void worker_signal(const worker_process *w, int signal_number)
{
    if (w->pid && kill(-w->pid, signal_number) != 0) kill(w->pid, signal_number);
}

int worker_reap(worker_process *w)
{
    int how = 0;
    pid_t got;
    // The process group keeps its number as long as the worker has not been waited for.
    siginfo_t info;
    do got = waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT);
    while (got < 0 && errno == EINTR);
    kill(-w->pid, SIGKILL);
    do got = waitpid(w->pid, &how, 0);
    while (got < 0 && errno == EINTR);
    if (w->pidfd >= 0) close(w->pidfd);
    *w = (worker_process){.pidfd = -1};
    return how;
}
