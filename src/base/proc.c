// proc.c -- reads memory figures from /proc and sets signal masks for background threads. The memory
// budget, the plan and the benchmarks call it.
#include "base/proc.h"

#include <stdio.h>
#include <string.h>

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

uint64_t proc_own_bytes(void)
{
    return proc_bytes("/proc/self/smaps_rollup", "Pss:");
}

void proc_block_signals(sigset_t *before)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, before);
}
