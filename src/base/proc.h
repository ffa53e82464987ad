// proc.h -- memory figures of this machine and process from /proc, its cores and name, the core of a thread, the signal mask of
// threads, and the pause of a core that spins.
#ifndef TRIREME_BASE_PROC_H
#define TRIREME_BASE_PROC_H

#include "base/err.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

// Returns the bytes that the line "KEY  N kB" of a file such as /proc/meminfo states, or 0 if there
// is no such line. `key` includes the colon.
uint64_t proc_bytes(const char *path, const char *key);

// Returns the bytes of memory that this process may still take: what the machine has left, and no more than
// what the limits of its control groups leave.
uint64_t proc_available_bytes(void);

// Returns the resident bytes of this process. A page that several processes share counts in equal
// parts for each of them.
uint64_t proc_own_bytes(void);

// Returns the resident bytes that this process shares with no other one and that lie in no file: what a leak takes.
uint64_t proc_private_bytes(void);

// Returns how many cores this process may use, at least 1 (its affinity mask, as nproc says).
int proc_usable_cores(void);

// Returns the core that the calling thread runs on, or -1 where the kernel does not say.
int proc_core(void);

// Moves the calling thread from `core` to another core of its affinity mask, which stays as it is. So the kernel
// may move the thread back. It does nothing where the mask has no other core.
void proc_leave_core(int core);

// Writes the name of this host, cut to what `out` [bytes] holds, or "localhost" where it has none.
void proc_host_name(char *out, size_t bytes);

// Writes the id of the machine's start, which its processes have in common, cut to what `out` [bytes] holds; empty where
// the kernel does not say it.
void proc_boot_id(char *out, size_t bytes);

// Tells this process from every other one of the machine. A number of a process alone does not: containers count their
// own, so that two processes may both be number 1.
typedef struct proc_identity {
    uint64_t space, pid; // the namespace in which processes are counted, and the number there
} proc_identity;
// E_IO where /proc does not say it.
status proc_identify(proc_identity *out, err *e);

// Blocks signals in the calling thread and in threads that it starts later, so that signals for the
// process reach other threads. It does not block the signals that a thread's own access raises
// (SIGBUS, SIGSEGV, SIGFPE, SIGILL): the kernel kills a process that blocks them instead of calling
// its handler. *before receives the old mask, which the caller restores.
void proc_block_signals(sigset_t *before);

// Tells the core that this thread spins, so that the core's other thread gets its resources.
static inline void proc_pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
