// cpu_team.h -- the threads that run the kernels of one context. Kernels call it. It knows no
// kernel.
//
// The work of a kernel is divided into items, and each thread gets a run of consecutive items. A
// thread that has finished its own items takes items that another thread has not begun. So a thread
// that the system does not schedule delays the others only by the item that it has begun. An idle
// thread looks for work for some microseconds and then sleeps.
#ifndef TRIREME_DEVICE_CPU_CPU_TEAM_H
#define TRIREME_DEVICE_CPU_CPU_TEAM_H

#include "base/err.h"

#include <stdint.h>

typedef struct cpu_team cpu_team;

// Does one item of the work on thread `thread` of the team. The assignment of items to threads
// differs from call to call, and no result may depend on it.
typedef void (*cpu_team_work)(const void *arg, int64_t item, int thread);

// Opens a team of `threads` >= 1 threads, with the calling thread as thread 0. The caller closes
// it. E_FIT when the system does not start so many.
status cpu_team_open(int threads, cpu_team **out, err *e);
void cpu_team_close(cpu_team *t); // NULL allowed

// Runs items 0 … items-1 (items < 2^31) and returns when all are done. The caller is thread 0. Only
// one thread may call it at a time, and `work` must not call it.
void cpu_team_run(cpu_team *t, int64_t items, cpu_team_work work, const void *arg);

#endif
