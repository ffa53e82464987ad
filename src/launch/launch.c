// launch.c -- runs the ranks of one machine and returns the first failure. See launch.h. Called by
// cmd/ and api/. processes.c and threads.c start the ranks; rendezvous/world.c has what ranks share. It
// does not know what a rank does.
#include "launch/launch.h"

#include "base/file.h"
#include "base/text.h"
#include "launch/workers.h"
#include "net/user_secret.h"
#include "rendezvous/attach.h"
#include "rendezvous/hosts.h"

#include <stdlib.h>
#include <string.h>

// Rank 0 tries for so long to get the port of the store, which an earlier run may still have.
enum { STORE_PORT_MS = 10000 };

status workers_run_rank(world *w, int rank, launch_rank_main fn, void *arg)
{
    err why;
    memset(&why, 0, sizeof why);
    status result = comm_hosts_enter(w, &why);
    if (result == OK) result = fn(w, rank, w->all_ranks, arg, &why);
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
    if (comm_recorder_dump(w->last_calls.recorder, w->first, w->count, o->record.prefix, &e) == OK)
        return;
    text_addf(&both, "%s; the flight recorder was not written: %s", why->text, e.text);
    if (!both.failed) err_set(why, why->code, "%s", both.chars);
    text_clear(&both);
}

// Finds where the hosts meet. On the host of rank 0 a process keeps the store there. A name that stands for this host
// alone on this host, such as its own in /etc/hosts, stands for all of its addresses.
static status open_rendezvous(const launcher_location *p, comm_hosts_options *m, err *e)
{
    status result = OK;
    const char *host = p->rendezvous.host;
    TRY(net_address_resolve(host, p->rendezvous.port, &m->address, e));
    net_address own = m->address;
    const bool is_named =
        strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0 && strcmp(host, "localhost") != 0;
    if (p->rank == 0 && (!net_address_is_own(&own) || (net_address_is_loopback(&own) && is_named)))
        net_address_set_any(&own);
    TRY(net_secret_find(NULL, &own, "a store", &m->secret, e));
    if (p->rank == 0) TRY(store_process_open(&own, &m->secret, STORE_PORT_MS, m->kept, e));
done:
    return result;
}

static status attach(const launcher_location *p, const char *version, world **out, err *e)
{
    status result = OK;
    const comm_rank_location location = {.rank = p->local_rank,
                                         .ranks = p->local_ranks,
                                         .first_rank = p->rank - p->local_rank,
                                         .identity = p->identity,
                                         .version = version,
                                         .deadline_ms = p->deadline_ms};
    if (p->starts < p->local_ranks)
        TRY(world_attach(&location, out, e));
    else
        TRY(world_open(p->local_ranks, false, out, e));
    (*out)->first_rank = location.first_rank;
    (*out)->all_ranks = p->ranks;
done:
    return result;
}

status launch_attach(const launcher_location *p, const char *version, world **out, err *e)
{
    status result = OK;
    store_process kept = {.alive = -1};
    comm_hosts_options m = {
        .run = p->run, .version = version, .kept = &kept, .deadline_ms = p->deadline_ms};
    const bool has_hosts = p->local_ranks < p->ranks;
    *out = NULL;
    workers_allow_files(p->local_ranks);
    if (has_hosts) TRY(open_rendezvous(p, &m, e));
    TRY(attach(p, version, out, e));
    if (has_hosts) TRY(comm_hosts_join(*out, &m, e));
done:
    if (result != OK && *out) {
        launch_fail(*out, NULL, e);
        world_close(*out);
        *out = NULL;
    }
    store_process_close(&kept);
    return result;
}

status launch_fail(world *attached, int *first_rank, err *e)
{
    comm_failure_set(attached->failure, attached->first_rank + attached->first, e);
    comm_hosts_fail(attached);
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
    launch_terminal t = {.fd = -1, .starter_fd = -1, .starter = &o->starter};
    bool interrupted = false;
    TRY(open_world(o, &w, e));
    if (!o->attached) TRY(comm_recorder_open(w, o->record.calls, o->record.compares, e));
    TRY(terminal_open(&t, o->own_terminal, e));
    TRY(starter_watch(t.starter, w, &t.starter_fd, e));
    TRY((w->as_threads ? workers_run_threads : workers_run_processes)(w, fn, arg, &t, &interrupted,
                                                                      e));
    TRY(end_of(o, w, &t, interrupted, first_rank, e));
done:
    terminal_close(&t);
    if (!o->attached) world_close(w);
    return result;
}
