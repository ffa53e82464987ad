// workers.h -- the two ways of running ranks, and the terminal's signals. Inside launch/ only.
#ifndef TRIREME_LAUNCH_CREW_H
#define TRIREME_LAUNCH_CREW_H

#include "launch/launch.h"

#include <signal.h>

// SIGINT and SIGTERM, blocked and read from a file descriptor while ranks run.
typedef struct terminal {
    int fd; // -1: the signals are left alone
    int signals;
    int first; // signal number
    sigset_t before;
} terminal;

status terminal_open(terminal *t, bool own_terminal, err *e);
// Reads what has come: the first signal asks the ranks to stop, the second one fails the world.
void terminal_read(terminal *t, world *w);
void terminal_close(terminal *t); // restores the signal mask

// Runs fn as `rank` and reports its failure with world_fail. Returns its status.
status workers_run_rank(world *w, int rank, int ranks, rank_main fn, void *arg);

// Each runs fn on every rank and returns when all ranks are gone; failures are in the world.
// *interrupted: some rank stopped in good order. The status is for what kept ranks from starting.
status workers_run_processes(world *w, int ranks, rank_main fn, void *arg, terminal *t,
                             bool *interrupted, err *e);
status workers_run_threads(world *w, int ranks, rank_main fn, void *arg, terminal *t,
                           bool *interrupted, err *e);

#endif
