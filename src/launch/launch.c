// launch.c -- runs the ranks of one machine and returns the first failure. See launch.h. Called by
// cmd/ and api/. processes.c and threads.c start the ranks; comm/world.c has what ranks share. It
// does not know what a rank does.
#include "launch/launch.h"

#include "base/file.h"
#include "base/text.h"
#include "comm/attach.h"
#include "launch/workers.h"

#include <string.h>

status workers_run_rank(world *w, int rank, launch_rank_main fn, void *arg)
{
    err why;
    memset(&why, 0, sizeof why);
    const status result = fn(w, rank, w->ranks, arg, &why);
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
    if (comm_recorder_dump(w->recorder, w->first, w->count, o->record.prefix, &e) == OK) return;
    text_addf(&both, "%s; the flight recorder was not written: %s", why->text, e.text);
    if (!both.failed) err_set(why, why->code, "%s", both.chars);
    text_clear(&both);
}

status launch_attach(const launcher_place *p, const char *version, world **out, err *e)
{
    const comm_place place = {.rank = p->rank,
                              .ranks = p->ranks,
                              .identity = p->identity,
                              .version = version,
                              .deadline_ms = p->deadline_ms};
    workers_allow_files(p->ranks);
    return world_attach(&place, out, e);
}

status launch_fail(world *attached, int *first_rank, err *e)
{
    // Where another rank's failure is being written, it is awaited.
    if (!comm_failure_set(attached->failure, attached->first, e))
        comm_failure_await(attached->failure);
    comm_failure_get(attached->failure, first_rank, e);
    return e->code;
}

static status open_world(const launch_options *o, world **out, err *e)
{
    status result = OK;
    *out = o->attached;
    if (o->attached) return OK;
    TRY(launcher_check(e));
    TRY(world_open(o->ranks, o->as_threads, out, e));
done:
    return result;
}

static status end_of(const launch_options *o, const world *w, const launch_terminal *t,
                     bool interrupted, int *first_rank, err *e)
{
    err why;
    if (comm_failure_get(w->failure, first_rank, &why)) {
        dump_record(o, w, &why);
        if (e) *e = why;
        return why.code;
    }
    if (!interrupted) return OK;
    if (!t->first) return err_set(e, E_INTERRUPTED, "stopped by a signal to another rank");
    return err_set(e, E_INTERRUPTED, "stopped by signal %d (%s)", t->first, strsignal(t->first));
}

status launch_ranks(const launch_options *o, launch_rank_main fn, void *arg, int *first_rank,
                    err *e)
{
    status result = OK;
    world *w = NULL;
    launch_terminal t = {.fd = -1};
    bool interrupted = false;
    TRY(open_world(o, &w, e));
    if (!o->attached) TRY(world_record(w, o->record.calls, o->record.compares, e));
    TRY(terminal_open(&t, o->own_terminal, e));
    TRY((w->as_threads ? workers_run_threads : workers_run_processes)(w, fn, arg, &t, &interrupted,
                                                                      e));
    TRY(end_of(o, w, &t, interrupted, first_rank, e));
done:
    terminal_close(&t);
    if (!o->attached) world_close(w);
    return result;
}
