// launch.c -- runs the ranks of one machine and returns the first failure. See launch.h. Called by
// cmd/ and api/. processes.c and threads.c start the ranks; comm/world.c has what ranks share. It
// does not know what a rank does.
#include "launch/launch.h"

#include "launch/workers.h"

#include <string.h>

status workers_run_rank(world *w, int rank, int ranks, launch_rank_main fn, void *arg)
{
    err why;
    memset(&why, 0, sizeof why);
    const status result = fn(w, rank, ranks, arg, &why);
    if (result != OK && result != E_INTERRUPTED) {
        if (why.code == OK) err_set(&why, result, "failed and gave no reason");
        comm_failure_set(w->failure, rank, &why);
    }
    return result;
}

status launch_ranks(const launch_options *o, launch_rank_main fn, void *arg, int *first_rank,
                    err *e)
{
    status result = OK;
    world *w = NULL;
    launch_terminal t = {.fd = -1};
    bool interrupted = false;
    err why;
    TRY(launcher_check(e));
    TRY(world_open(o->ranks, o->as_threads, &w, e));
    TRY(terminal_open(&t, o->own_terminal, e));
    TRY((o->as_threads ? workers_run_threads : workers_run_processes)(w, o->ranks, fn, arg, &t,
                                                                      &interrupted, e));
    if (comm_failure_get(w->failure, first_rank, &why)) {
        if (e) *e = why;
        result = why.code;
    } else if (interrupted) {
        FAIL(E_INTERRUPTED, "stopped by signal %d (%s)", t.first, strsignal(t.first));
    }
done:
    terminal_close(&t);
    world_close(w);
    return result;
}
