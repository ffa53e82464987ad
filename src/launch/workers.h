// workers.h -- the two ways of running ranks (processes.c, threads.c) and the signals of the
// terminal (terminal.c). Used in launch/ only.
#ifndef TRIREME_LAUNCH_WORKERS_H
#define TRIREME_LAUNCH_WORKERS_H

#include "launch/launch.h"

#include <signal.h>

// SIGINT, SIGTERM and SIGHUP, blocked and read from a file descriptor while ranks run; and the end of the process that has
// started this one.
typedef struct launch_terminal {
    int fd;          // -1: the signals are left alone
    int signals;     // received so far
    int first;       // number of the first signal
    sigset_t before; // the mask to restore
    const launch_starter *starter;
    int starter_fd; // -1: it is not watched, or has ended
} launch_terminal;

status terminal_open(launch_terminal *t, bool own_terminal, err *e);
// Reads all pending signals. The first one asks the ranks to stop, the second one fails the world.
void terminal_read(launch_terminal *t, world *w);
// The starter has ended.
void terminal_starter_ended(launch_terminal *t, world *w);
void terminal_close(launch_terminal *t); // restores the signal mask

// Runs fn as `rank` and reports its failure as that of the run (comm_failure_set). Returns its status.
status workers_run_rank(world *w, int rank, launch_rank_main fn, void *arg);

// Raises the soft limit of open files where it is too low for a descriptor of each rank, as far as the hard limit
// allows.
void workers_allow_files(int ranks);

// Both run fn on the ranks that this process starts, and return when they have ended. Where another launcher has
// started a process for each rank, that of rank 0 returns when all ranks have ended. The world keeps the failures of
// ranks; the status tells why ranks could not be started. *interrupted: a rank stopped because it was asked to.
status workers_run_processes(world *w, launch_rank_main fn, void *arg, launch_terminal *t,
                             bool *interrupted, err *e);
status workers_run_threads(world *w, launch_rank_main fn, void *arg, launch_terminal *t,
                           bool *interrupted, err *e);

#endif
