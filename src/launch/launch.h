// launch.h -- starts the ranks of one machine as processes or threads, waits for all of them, and
// returns the first failure.
//
// Rank processes are forked without exec, so everything must be validated before. None outlives the
// starting process (PR_SET_PDEATHSIG). When a rank fails, the others have one second to end by
// themselves; then they are killed.
#ifndef TRIREME_LAUNCH_LAUNCH_H
#define TRIREME_LAUNCH_LAUNCH_H

#include "comm/recorder.h"
#include "launch/launcher.h"
#include "rendezvous/world.h"

// The function of a rank. launch_ranks reports its failure (a status other than OK and
// E_INTERRUPTED) as that of the run (comm_failure_set).
typedef status (*launch_rank_main)(world *w, int rank, int ranks, void *arg, err *e);

typedef struct launch_options {
    int ranks;
    bool as_threads;
    // True: the first SIGINT, SIGTERM or SIGHUP asks the ranks to stop, and the second one fails the run.
    // False: the launcher handles no signal.
    bool own_terminal;
    struct {
        int calls;          // of each rank that are recorded (comm/recorder.h); 0: none
        bool compares;      // ranks compare each collective before it runs
        const char *prefix; // of the files that a failed run leaves; borrowed
        const char *within; // the files are written only where this folder is; NULL: always
    } record;
    // Of launch_attach; ranks and as_threads are then not read. NULL: this process starts all ranks.
    world *attached;
    launch_starter starter; // of this process, where it has attached: the run fails when it ends
} launch_options;

// Opens the world of the processes that another launcher has started: each starts its one rank. `version` is the
// program's. The caller runs launch_ranks with it, or launch_fail, and then closes it. E_PEER names the local ranks that
// did not come. Collective over the processes of p.
status launch_attach(const launcher_location *p, const char *version, world **out, err *e);
// Between launch_attach and launch_ranks: *e (NULL not allowed) becomes the failure of the run, unless there is one, and
// then *e becomes that. *first_rank is the rank that failed. Returns its status.
status launch_fail(world *attached, int *first_rank, err *e);

// Runs `fn` on every rank that this process starts, and waits for all ranks. Without a world of launch_attach it
// returns E_USAGE under another launcher (launcher_check).
//   OK             every rank returned OK
//   E_INTERRUPTED  a signal asked the ranks to stop, and they did
//   otherwise      the status of the first rank that failed. *e is its text after "rank R: ", or
//                  "rank R (pid P) was killed by signal 9 (Killed)". *first_rank (NULL allowed) is
//                  the rank.
// With as_threads false the process must not have started any thread before.
status launch_ranks(const launch_options *o, launch_rank_main fn, void *arg, int *first_rank,
                    err *e);

#endif
