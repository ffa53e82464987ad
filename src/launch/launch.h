// launch.h -- starts the ranks of one machine, as processes or threads, and sees them to their end.
//
// The parent forks without exec (everything is validated before), watches every child, names the
// first failure, and leaves nothing behind: children die with their parent (PR_SET_PDEATHSIG),
// survivors of a failed rank get one second to leave by themselves and are then killed.
#ifndef TRIREME_LAUNCH_LAUNCH_H
#define TRIREME_LAUNCH_LAUNCH_H

#include "comm/world.h"

// What a rank runs. Its failure (status other than OK and E_INTERRUPTED) is reported with
// world_fail by launch_ranks itself.
typedef status (*rank_main)(world *w, int rank, int ranks, void *arg, err *e);

typedef struct launch_options {
    int ranks;
    bool as_threads;
    bool own_terminal; // handle SIGINT and SIGTERM: first one asks the ranks to stop, a second one
                       // aborts
} launch_options;

// E_USAGE, naming the variable, when the environment says that another launcher (torchrun, mpirun,
// srun, ...) has started several processes such as this one. launch_ranks checks it, too; called
// alone before anything is written.
status launcher_check(err *e);

// Runs `fn` on every rank and waits for all of them.
//   OK             every rank returned OK
//   E_INTERRUPTED  the ranks stopped in good order at a signal
//   otherwise      the first failing rank's status; *e is its text prefixed with "rank R: ", or
//                  "rank R (pid P) was killed by signal 9 (Killed)"; *first_rank (NULL allowed) its
//                  number
// Must be called before the process has started any thread when as_threads is false.
status launch_ranks(const launch_options *o, rank_main fn, void *arg, int *first_rank, err *e);

#endif
