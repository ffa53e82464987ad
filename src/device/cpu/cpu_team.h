// cpu_team.h -- the threads that run one context's kernels. A kernel's work is cut into items; each
// thread has a run of neighbouring items, and who is done with its own takes those that another has
// not begun. So a thread that the system does not let run holds nobody up but for an item that it
// has begun. An idle thread looks for work for some microseconds and then sleeps.
#ifndef TRIREME_DEVICE_CPU_CPU_TEAM_H
#define TRIREME_DEVICE_CPU_CPU_TEAM_H

#include "base/err.h"

#include <stdint.h>

typedef struct cpu_team cpu_team;

// One item of the work, on thread `thread` of the team. Which thread runs which item differs from
// call to call, and one thread may run several or none: no result may depend on it.
typedef void (*cpu_team_work)(const void *arg, int64_t item, int thread);

// The processors that this process may use by its affinity mask, at least 1.
int cpu_team_cores(void);

// A team of `threads` >= 1, the calling thread counted. E_FIT where the system starts no more.
status cpu_team_open(int threads, cpu_team **out, err *e);
void cpu_team_close(cpu_team *t); // NULL allowed

// Runs items 0 … items-1 (items < 2^31) and returns when all are done. The caller is thread 0. One
// caller at a time; work does not call this again.
void cpu_team_run(cpu_team *t, int64_t items, cpu_team_work work, const void *arg);

#endif
