// guard.h -- a process that kills what workers have started when their agent is gone, however it ended. The kernel kills
// the workers themselves (PR_SET_PDEATHSIG).
//
// Opened by agent.c before it starts threads. It kills the workers' process groups, and after a run that has not succeeded
// every process that has the mark of this agent in the environment with which it was started: also one with a session
// of its own. One that was started without that variable, or whose environment only root may read, stays.
#ifndef TRIREME_LAUNCH_GUARD_H
#define TRIREME_LAUNCH_GUARD_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define GUARD_VARIABLE "TRIREME_AGENT"
enum { GUARD_MARK_BYTES = 33 };

typedef struct launch_guard {
    pid_t pid;
    int alive;             // its other end closes when this process ends
    _Atomic pid_t *groups; // [count] in memory that both processes share; 0: none
    int count;
    char mark[GUARD_MARK_BYTES]; // the value of GUARD_VARIABLE for the workers
} launch_guard;

// Starts the guard for up to `count` groups. The caller writes g->groups.
status guard_open(int count, launch_guard *g, err *e);
// Ends the guard; groups that are still there are killed, and unless the run has succeeded all that workers have started.
void guard_close(launch_guard *g, bool has_succeeded);

#endif
