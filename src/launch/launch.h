// launch.h -- starts the ranks of one machine as processes or threads, waits for all of them, and
// returns the first failure.
//
// Rank processes are forked without exec, so everything must be validated before. None outlives the
// starting process (PR_SET_PDEATHSIG). When a rank fails, the others have one second to end by
// themselves; then they are killed.
#ifndef TRIREME_LAUNCH_LAUNCH_H
#define TRIREME_LAUNCH_LAUNCH_H

#include "comm/world.h"

// The function of a rank. launch_ranks reports its failure (a status other than OK and
// E_INTERRUPTED) as that of the run (comm_failure_set).
typedef status (*launch_rank_main)(world *w, int rank, int ranks, void *arg, err *e);

typedef struct launch_options {
    int ranks;
    bool as_threads;
    // True: the first SIGINT or SIGTERM asks the ranks to stop, and the second one fails the run.
    // False: the launcher handles neither signal.
    bool own_terminal;
    struct {
        int calls;          // of each rank that are recorded (comm/recorder.h); 0: none
        bool compares;      // ranks compare each collective before it runs
        const char *prefix; // of the files that a failed run leaves; borrowed
        const char *within; // the files are written only where this folder is; NULL: always
    } record;
} launch_options;

// E_USAGE where the environment says that another launcher (torchrun, mpirun, srun, ...) has
// started several processes such as this one; the text names the variable. launch_ranks checks it,
// too. Callers that write files before that call it first.
status launcher_check(err *e);

// Runs `fn` on every rank and waits for all of them.
//   OK             every rank returned OK
//   E_INTERRUPTED  a signal asked the ranks to stop, and they did
//   otherwise      the status of the first rank that failed. *e is its text after "rank R: ", or
//                  "rank R (pid P) was killed by signal 9 (Killed)". *first_rank (NULL allowed) is
//                  the rank.
// With as_threads false the process must not have started any thread before.
status launch_ranks(const launch_options *o, launch_rank_main fn, void *arg, int *first_rank,
                    err *e);

#endif
