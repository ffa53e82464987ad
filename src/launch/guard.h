// guard.h -- a process that kills the workers' process groups when their agent is gone, however it ended. The
// kernel kills the workers themselves (PR_SET_PDEATHSIG), but not what they have started.
//
// Opened by agent.c before it starts threads. It knows only numbers of process groups.
#ifndef TRIREME_LAUNCH_GUARD_H
#define TRIREME_LAUNCH_GUARD_H

#include "base/err.h"

#include <sys/types.h>

typedef struct launch_guard {
    pid_t pid;
    int alive;             // its other end closes when this process ends
    _Atomic pid_t *groups; // [count] in memory that both processes share; 0: none
    int count;
} launch_guard;

// Starts the guard for up to `count` groups. The caller writes g->groups.
status guard_open(int count, launch_guard *g, err *e);
// Ends the guard; groups that are still there are killed.
void guard_close(launch_guard *g);

#endif
