// guard.c -- see guard.h.
#define _GNU_SOURCE // pipe2, memmem
#include "launch/guard.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

// A process that dies while it starts another one leaves that to the next pass.
enum { MOST_PASSES = 1000, READ_BYTES = 1 << 16, PATH_BYTES = 32 };

// Returns whether the process was started with this entry, which ends in its final 0, in its environment.
static bool has_entry(int pid, const char *entry, size_t bytes)
{
    char path[PATH_BYTES], read_bytes[READ_BYTES];
    size_t kept = 0;
    ssize_t got;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    while (!found && (got = read(fd, read_bytes + kept, sizeof read_bytes - kept)) > 0) {
        const size_t count = kept + (size_t)got;
        found = memmem(read_bytes, count, entry, bytes) != NULL;
        kept = count < bytes ? count : bytes - 1;
        memmove(read_bytes, read_bytes + count - kept, kept);
    }
    close(fd);
    return found;
}

// Kills the process through a descriptor, so that no other process of that number is killed.
static bool kill_marked(int pid, const char *entry, size_t bytes)
{
    const int fd = pidfd_open(pid, 0);
    const bool is_marked = fd >= 0 && has_entry(pid, entry, bytes);
    if (is_marked) pidfd_send_signal(fd, SIGKILL, NULL, 0);
    if (fd >= 0) close(fd);
    return is_marked;
}

// Returns whether there was any. A process that has ended has no environment.
static bool kill_all_marked(const char *mark)
{
    char entry[sizeof GUARD_VARIABLE + 1 + GUARD_MARK_BYTES];
    bool any = false;
    const int bytes = snprintf(entry, sizeof entry, GUARD_VARIABLE "=%s", mark) + 1;
    DIR *d = opendir("/proc");
    for (struct dirent *x = d ? readdir(d) : NULL; x; x = readdir(d))
        if (isdigit((unsigned char)x->d_name[0]))
            any = kill_marked(atoi(x->d_name), entry, (size_t)bytes) || any;
    if (d) closedir(d);
    return any;
}

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
    for (int i = 0; got == 0 && i < MOST_PASSES && kill_all_marked(g->mark); i++) continue;
    _exit(0);
}

static status draw_mark(char out[GUARD_MARK_BYTES], err *e)
{
    unsigned char bytes[(GUARD_MARK_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_errno(e, "cannot draw the mark of the agent");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return OK;
}

status guard_open(int count, launch_guard *g, err *e)
{
    int ends[2];
    const size_t bytes = (size_t)count * sizeof *g->groups;
    *g = (launch_guard){.alive = -1, .count = count};
    const status got = draw_mark(g->mark, e);
    if (got != OK) return got;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return err_errno(e, "cannot map the list of workers");
    g->groups = memory;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        guard_close(g, true);
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
    guard_close(g, true);
    return E_IO;
}

void guard_close(launch_guard *g, bool has_succeeded)
{
    // Without this byte the guard takes the end of the pipe for that of the agent.
    if (has_succeeded && g->alive >= 0) (void)!write(g->alive, "", 1);
    if (g->alive >= 0) close(g->alive);
    if (g->pid > 0)
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (g->groups) munmap((void *)g->groups, (size_t)g->count * sizeof *g->groups);
    *g = (launch_guard){.alive = -1};
}
