// p2p_watch.c -- the watcher of the communicator p2p: a thread of each rank. The host of a rank may wait
// for a stream that waits for another rank, so somebody else has to look. When the run has failed, it
// releases all flags, and no stream waits any more. It also bounds a stream's wait by the watchdog's
// limit: a flag for another rank that stays set says that the rank does not come. A flag that was taken
// away and set again between two looks is not told from one that stayed, so many short waits in a row
// must have ended before the limit is over: the watcher looks every few milliseconds.
#include "comm/p2p/p2p_private.h"

// A wait that has taken so long is told (comm_watchdog_wait).
enum { LONG_NS = 20000000 };

static void release_flags(const p2p_comm *c)
{
    const size_t pairs = (size_t)c->base.size * (size_t)c->base.size;
    device_flag *f = (device_flag *)(void *)c->memory->pair;
    for (size_t i = 0; i < pairs * sizeof(p2p_pair) / sizeof *f; i++) device_flag_release(&f[i]);
}

static bool any_set(const device_flag *f, int count)
{
    for (int i = 0; i < count; i++)
        if (atomic_load_explicit(&f[i].is_set, memory_order_relaxed)) return true;
    return false;
}

// Has this rank set a flag that rank `to` has not taken away?
static bool waits_for(const p2p_comm *c, int to)
{
    const p2p_pair *p = p2p_pair_of(c, c->base.rank, to);
    return any_set(&p->meets[0][0], (int)STREAMS * (int)PHASES) || any_set(p->sent, P2P_SLOTS);
}

static comm_wait wait_of(const p2p_comm *c, int awaited)
{
    const p2p_rank *own = c->own;
    const char *latest = atomic_load(&c->latest);
    return (comm_wait){.waiting = own->world_rank,
                       .awaited = p2p_host(c)->group->world_rank[awaited],
                       .ranks = own->world->ranks,
                       .what = p2p_host_call(c, &(comm_call){.kind = CALL_BARRIER}).what,
                       .call = latest ? latest : "a call",
                       .label = c->base.label,
                       .last_calls = &own->world->last_calls};
}

// The flag for the rank stays. When it has not come within the limit, that is the failure of the run.
static void bound_wait(const p2p_comm *c, int awaited, int64_t limit_ns)
{
    err e = {.code = OK};
    const world *w = c->own->world;
    const comm_wait wait = wait_of(c, awaited);
    comm_watchdog_wait(w->watchdog, &wait);
    if (limit_ns > 0 && c->waits_ns[awaited] > limit_ns)
        comm_watchdog_error(w->watchdog, w->failure, &wait, &e);
}

static void look(p2p_comm *c, int64_t passed_ns)
{
    const int64_t limit_ns = atomic_load(&c->own->world->watchdog->limit_ms) * 1000000;
    const uint64_t issued = atomic_load(&c->issued);
    for (int r = 0; r < c->base.size; r++) {
        const bool waits = issued == c->seen && waits_for(c, r);
        c->waits_ns[r] = waits ? c->waits_ns[r] + passed_ns : 0;
        if (c->waits_ns[r] > LONG_NS) bound_wait(c, r, limit_ns);
    }
    c->seen = issued;
}

static void look_at_all(void *arg, int64_t passed_ns)
{
    p2p_rank *own = arg;
    const bool failed = comm_failure_known(own->world->failure);
    for (p2p_comm *c = own->first; c; c = c->next)
        if (failed)
            release_flags(c);
        else
            look(c, passed_ns);
}

status p2p_watch_start(p2p_rank *own, err *e)
{
    return comm_watcher_start(&own->watcher, "p2p", look_at_all, own, e);
}

void p2p_watch_stop(p2p_rank *own)
{
    comm_watcher_stop(&own->watcher);
}

void p2p_watch_add(p2p_comm *c)
{
    pthread_mutex_lock(&c->own->watcher.lock);
    c->next = c->own->first;
    c->own->first = c;
    pthread_mutex_unlock(&c->own->watcher.lock);
}

void p2p_watch_remove(p2p_comm *c)
{
    pthread_mutex_lock(&c->own->watcher.lock);
    p2p_comm **at = &c->own->first;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    pthread_mutex_unlock(&c->own->watcher.lock);
}
