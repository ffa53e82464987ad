// guard.c -- see guard.h.
#define _GNU_SOURCE // pipe2
#include "launch/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void watch(const launch_guard *g, int from)
{
    char byte;
    ssize_t got;
    setsid(); // a Ctrl-C of the terminal is not for it
    prctl(PR_SET_NAME, "trireme guard");
    // Pipes of the agent's caller must not stay open because of the guard.
    for (int fd = 0; fd < 3; fd++) close(fd);
    do got = read(from, &byte, 1);
    while (got < 0 && errno == EINTR);
    for (int i = 0; i < g->count; i++) {
        const pid_t group = atomic_load(&g->groups[i]);
        if (group > 0) kill(-group, SIGKILL);
    }
    _exit(0);
}

status guard_open(int count, launch_guard *g, err *e)
{
    int ends[2];
    const size_t bytes = (size_t)count * sizeof *g->groups;
    *g = (launch_guard){.alive = -1, .count = count};
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return err_errno(e, "cannot map the list of workers");
    g->groups = memory;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        guard_close(g);
        return err_errno(e, "cannot open a pipe");
    }
    g->pid = fork();
    if (g->pid == 0) {
        close(ends[1]);
        watch(g, ends[0]);
    }
    close(ends[0]);
    g->alive = ends[1];
    if (g->pid > 0) return OK;
    err_errno(e, "cannot start the guard of the workers");
    guard_close(g);
    return E_IO;
}

void guard_close(launch_guard *g)
{
    if (g->alive >= 0) close(g->alive);
    if (g->pid > 0)
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (g->groups) munmap((void *)g->groups, (size_t)g->count * sizeof *g->groups);
    *g = (launch_guard){.alive = -1};
}
