// proc.c -- reads memory figures from /proc and sets signal masks for background threads. The memory
// budget, the plan and the benchmarks call it.
#define _GNU_SOURCE // sched_getaffinity, sched_getcpu, CPU_COUNT
#include "base/proc.h"

#include "base/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t proc_bytes(const char *path, const char *key)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), " %llu", &kib) == 1)
            break;
    if (f) fclose(f);
    return kib * 1024;
}

uint64_t proc_available_bytes(void)
{
    const uint64_t machine = proc_bytes("/proc/meminfo", "MemAvailable:"),
                   own = cgroup_memory_left("");
    return own < machine ? own : machine;
}

uint64_t proc_own_bytes(void)
{
    return proc_bytes("/proc/self/smaps_rollup", "Pss:");
}

uint64_t proc_private_bytes(void)
{
    unsigned long long resident = 0, shared = 0;
    char line[128] = "";
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC); // without the heap, as in a step
    if (fd >= 0 && read(fd, line, sizeof line - 1) < 0) line[0] = 0;
    if (fd >= 0) close(fd);
    if (sscanf(line, "%*u %llu %llu", &resident, &shared) != 2) resident = shared = 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void proc_boot_id(char *out, size_t bytes)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || !fgets(out, (int)bytes, f)) out[0] = 0;
    if (f) fclose(f);
    out[strcspn(out, "\n")] = 0;
}

int proc_usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN); // more cores than a cpu_set_t holds
    return online > 0 ? (int)online : 1;
}

int proc_core(void)
{
    return sched_getcpu();
}

void proc_leave_core(int core)
{
    cpu_set_t all, others;
    if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0) return;
    others = all;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    sched_setaffinity(0, sizeof all, &all);
}

void proc_host_name(char *out, size_t bytes)
{
    if (gethostname(out, bytes - 1) != 0 || !out[0]) snprintf(out, bytes, "localhost");
    out[bytes - 1] = 0;
}

status proc_identify(proc_identity *out, err *e)
{
    struct stat space;
    *out = (proc_identity){.pid = (uint64_t)getpid()};
    if (stat("/proc/self/ns/pid", &space) != 0)
        return err_errno(e, "/proc/self/ns/pid, which tells this process from those of containers");
    out->space = (uint64_t)space.st_ino;
    return OK;
}

void proc_block_signals(sigset_t *before)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, before);
}
