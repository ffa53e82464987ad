// proc.h -- what the kernel says of this process, and its threads' signals.
#ifndef TRIREME_BASE_PROC_H
#define TRIREME_BASE_PROC_H

#include <signal.h>
#include <stdint.h>

// Bytes of the line "KEY  N kB" of a file such as /proc/meminfo; `key` with its colon. 0 when there
// is none.
uint64_t proc_bytes(const char *path, const char *key);

// Memory that this process has now, pages that it shares divided by how many share them.
uint64_t proc_own_bytes(void);

// Blocks the calling thread's signals and those of threads that it starts from now on, so that
// signals for the process reach other threads. Those stay that a thread's own access raises
// (SIGBUS, SIGSEGV, SIGFPE, SIGILL): blocked, they would kill before any handler. The caller
// restores `before`.
void proc_block_signals(sigset_t *before);

#endif
