// launch.c -- runs the ranks of one machine and returns the first failure. See launch.h. Called by
// cmd/ and api/. processes.c and threads.c start the ranks; comm/world.c has what ranks share. It
// does not know what a rank does.
#include "launch/launch.h"

#include "base/file.h"
#include "base/text.h"
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

// A run that has not made its folder, or whose folder was removed, leaves no files. A file that cannot be
// written is added to the failure, which stays the reason of the run's end.
static void dump_record(const launch_options *o, const world *w, err *why)
{
    err e = {0};
    text both = {0};
    if (!o->record.calls || (o->record.within && !file_is_directory(o->record.within))) return;
    if (comm_recorder_dump(w->recorder, o->record.prefix, &e) == OK) return;
    text_addf(&both, "%s; the flight recorder was not written: %s", why->text, e.text);
    if (!both.failed) err_set(why, why->code, "%s", both.chars);
    text_clear(&both);
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
    TRY(world_record(w, o->record.calls, o->record.compares, e));
    TRY(terminal_open(&t, o->own_terminal, e));
    TRY((o->as_threads ? workers_run_threads : workers_run_processes)(w, o->ranks, fn, arg, &t,
                                                                      &interrupted, e));
    if (comm_failure_get(w->failure, first_rank, &why)) {
        dump_record(o, w, &why);
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
