// nccl_watch.c -- what the watcher of the communicator nccl does: when the run has failed, it ends all cliques, so that
// no stream waits any more. It makes an error of the library the failure of the run. And it bounds waits by the
// watchdog's limit: the library does not say which rank is late, so a rank that waits for an eighth of the limit writes
// so into the store, and at the limit the rank that has not written is named. Called by watcher.c, with its lock held.
#include "comm/nccl/nccl_private.h"

#include <inttypes.h>
#include <stdio.h>

enum { CALL_MS = 1000, TELLS_AFTER = 8 };

static void abort_clique(nccl_comm *c)
{
    if (c->clique) c->own->library->abort(c->clique);
    c->clique = NULL;
}

// ---- Late ranks

static void key_of(const nccl_comm *c, int rank, char out[STORE_KEY_BYTES])
{
    snprintf(out, STORE_KEY_BYTES, "nccl/%" PRId64 "/waits/%d", c->rendezvous.group, rank);
}

// Writes that this rank waits, or that it does not. Another thread of the rank may use the store: then the next look
// does it.
static void report(nccl_comm *c, bool waits)
{
    char key[STORE_KEY_BYTES];
    if (waits == c->told || pthread_mutex_trylock(&c->own->rendezvous) != 0) return;
    key_of(c, c->base.rank, key);
    const status told = waits ? comm_store_set(c->rendezvous.store, key, "1", 1, CALL_MS, NULL)
                              : comm_store_remove(c->rendezvous.store, key, CALL_MS, NULL);
    if (told == OK) c->told = waits;
    pthread_mutex_unlock(&c->own->rendezvous);
}

// The first member that has not written that it waits; -1: all have. False: another thread uses the store.
static bool find_late(nccl_comm *c, int *late)
{
    char key[STORE_KEY_BYTES], value[8];
    *late = -1;
    if (pthread_mutex_trylock(&c->own->rendezvous) != 0) return false;
    for (int r = 0; r < c->base.size && *late < 0; r++) {
        key_of(c, r, key);
        if (r != c->base.rank &&
            comm_store_get(c->rendezvous.store, key, value, sizeof value, NULL, 0, NULL) != OK)
            *late = r;
    }
    pthread_mutex_unlock(&c->own->rendezvous);
    return true;
}

static void fail_without_name(const nccl_comm *c, const char *call, double limit_s)
{
    err why = {.code = OK};
    err_set(&why, E_PEER,
            "Watchdog caught collective operation timeout: all %d ranks%s%s wait in %s for %.3g s: "
            "their calls differ, or the network between them does not work (NCCL_DEBUG=INFO says "
            "more)",
            c->base.size, c->base.label ? " of " : "", c->base.label ? c->base.label : "", call,
            limit_s);
    comm_failure_set(c->own->world->failure, -1, &why);
}

static const char *latest_call(const nccl_comm *c)
{
    const char *latest = atomic_load(&c->latest);
    return latest ? latest : "a call";
}

static comm_wait wait_of(const nccl_comm *c, int late)
{
    const world *w = c->own->world;
    return (comm_wait){
        .waiting = c->own->rank,
        .awaited = c->ranks[late],
        .first = w->first_rank,
        .ranks = w->ranks,
        .what =
            atomic_load(&comm_watchdog_activity(w->watchdog, c->own->rank - w->first_rank)->what),
        .call = latest_call(c),
        .label = c->base.label,
        .last_calls = &w->last_calls};
}

// No rank has come within the limit: that is the failure of the run.
static void fail_wait(nccl_comm *c, double limit_s)
{
    err e = {.code = OK};
    int late;
    const world *w = c->own->world;
    if (!find_late(c, &late)) return;
    if (late < 0) {
        fail_without_name(c, latest_call(c), limit_s);
        return;
    }
    const comm_wait wait = wait_of(c, late);
    comm_watchdog_error(w->watchdog, w->failure, &wait, &e);
}

// After half of the limit the rank asks the store for whom it waits, and says so to ranks that wait for it.
static void say_wait(nccl_comm *c, int64_t limit_ns)
{
    if (c->late < 0 && c->waits_ns > c->asks_ns && find_late(c, &c->late))
        c->asks_ns = c->waits_ns + limit_ns / TELLS_AFTER;
    if (c->late < 0) return;
    const comm_wait wait = wait_of(c, c->late);
    comm_watchdog_wait(c->own->world->watchdog, &wait);
}

static bool waits(nccl_comm *c)
{
    if (atomic_load(&c->settling)) return true;
    for (int k = 0; k < STREAMS; k++)
        if (atomic_load_explicit(&c->begun[k].is_set, memory_order_relaxed)) return true;
    return false;
}

static void bound_wait(nccl_comm *c, int64_t passed_ns)
{
    const int64_t limit_ns = atomic_load(&c->own->world->watchdog->limit_ms) * 1000000;
    const uint64_t issued = atomic_load(&c->issued);
    c->waits_ns = issued == c->seen && waits(c) ? c->waits_ns + passed_ns : 0;
    c->seen = issued;
    if (limit_ns == 0) return;
    if (c->waits_ns == 0) {
        c->late = -1;
        c->asks_ns = limit_ns / 2;
    }
    report(c, c->waits_ns > limit_ns / TELLS_AFTER);
    say_wait(c, limit_ns);
    if (c->waits_ns > limit_ns) fail_wait(c, (double)limit_ns * 1e-9);
}

// ---- Errors of the library

// A rank that died is an error of the library, too, but its own record says how it died.
static void take_error(nccl_comm *c)
{
    err why = {.code = OK};
    bool done;
    comm_failure *f = c->own->world->failure;
    if (c->own->library->poll(c->clique, &done, &why) == OK) return;
    if (!comm_failure_await(f)) comm_failure_set(f, c->own->rank, &why);
}

void nccl_look(void *arg, int64_t passed_ns)
{
    nccl_rank *own = arg;
    for (nccl_comm *c = own->first; c; c = c->next) {
        if (comm_failure_known(own->world->failure)) {
            abort_clique(c);
        } else if (c->clique) {
            bound_wait(c, passed_ns);
            take_error(c);
        }
    }
}
