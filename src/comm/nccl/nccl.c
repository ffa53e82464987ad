// nccl.c -- opens, splits and closes the communicator nccl (nccl.h), and holds its table. Hosts meet in the store: to
// open, to split, and for what moves no data. Opened by the registry.
#include "comm/nccl/nccl_private.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/comm_private.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, SPINS = 200, CLOSE_MS = 5000 };

static const comm_ops nccl_ops;

const comm_capabilities NCCL_CAPABILITIES = {.tree_order = true,
                                             .needs_workspace = true,
                                             .sends_wait = true,
                                             .device_memory = true,
                                             .can_be_recorded = true,
                                             .own_bytes =
                                                 STREAMS * NCCL_PART_BYTES + NCCL_BUFFER_BYTES};

// ---- Calls of the library

static void pause_host(int turn)
{
    const struct timespec some = {0, 50 * 1000};
    if (turn < SPINS)
        sched_yield();
    else
        nanosleep(&some, NULL);
}

// Waits until the library has done what it was asked for, for deadline_ms at most (0: for ever; the watcher bounds it).
// *clique is NULL when the run has failed: the watcher has ended it.
static status settle(nccl_rank *own, device_clique *const *clique, int64_t deadline_ms, err *e)
{
    const int64_t end_ns = clock_ns() + deadline_ms * 1000000;
    for (int turn = 0;; turn++) {
        bool done = true;
        status result = OK;
        pthread_mutex_lock(&own->watcher.lock);
        if (*clique) result = own->library->poll(*clique, &done, e);
        pthread_mutex_unlock(&own->watcher.lock);
        if (comm_failure_known(own->world->failure))
            return comm_failure_error(own->world->failure, e);
        if (result != OK || done) return result;
        if (deadline_ms > 0 && clock_ns() > end_ns)
            return err_set(e, E_PEER, "%s did not connect the ranks within %.3g s",
                           own->library->name, (double)deadline_ms * 1e-3);
        pause_host(turn);
    }
}

static status settle_call(nccl_comm *c, err *e)
{
    atomic_store(&c->settling, 1);
    const status result = settle(c->own, &c->clique, 0, e);
    atomic_store(&c->settling, 0);
    return result;
}

status nccl_call(nccl_comm *c, nccl_library_call issue, const device_collective *x,
                 device_stream *on, err *e)
{
    status result = OK;
    pthread_mutex_lock(&c->own->watcher.lock);
    if (c->clique) result = issue(c->clique, x, on, e);
    pthread_mutex_unlock(&c->own->watcher.lock);
    return result == OK ? settle_call(c, e) : result;
}

status nccl_exchange(nccl_comm *c, const device_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    pthread_mutex_lock(&c->own->watcher.lock);
    if (c->clique) result = c->own->library->exchange(c->clique, m, count, on, e);
    pthread_mutex_unlock(&c->own->watcher.lock);
    return result == OK ? settle_call(c, e) : result;
}

// ---- The rank

static void rank_close(nccl_rank *own)
{
    if (!own) return;
    comm_watcher_stop(&own->watcher);
    pthread_mutex_destroy(&own->rendezvous);
    own->device->failure_of_peers = NULL;
    free(own);
}

// A communicator has no use of it any more.
static void rank_leave(nccl_rank *own)
{
    if (--own->users == 0) rank_close(own);
}

static status rank_open(const comm_options *o, nccl_rank **out, err *e)
{
    status result = OK;
    nccl_rank *own = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&own, 1, sizeof *own, "a communicator", e));
    own->users = 1;
    own->world = o->world;
    own->rank = o->rank;
    own->device = o->device;
    own->library = o->device->ops->collectives;
    own->any_order = o->any_order;
    TRY(comm_watcher_start(&own->watcher, "nccl", nccl_look, own, e));
    pthread_mutex_init(&own->rendezvous, NULL);
    o->device->failure_arg = o->world->failure;
    o->device->failure_of_peers = comm_failure_check;
    *out = own;
    own = NULL;
done:
    free(own);
    return result;
}

// ---- Members

// After a failure the watcher ends cliques; here it may be sooner. Else what was sent is on its way before the end.
static void clique_close(nccl_rank *own, device_clique **clique)
{
    err e = {.code = OK};
    const comm_failure *f = own->world->failure;
    status result = OK;
    pthread_mutex_lock(&own->watcher.lock);
    if (*clique && !comm_failure_known(f)) result = own->library->finish(*clique, &e);
    pthread_mutex_unlock(&own->watcher.lock);
    if (result == OK && *clique) result = settle(own, clique, CLOSE_MS, &e);
    pthread_mutex_lock(&own->watcher.lock);
    if (*clique && result == OK)
        own->library->close(*clique);
    else if (*clique)
        own->library->abort(*clique);
    *clique = NULL;
    pthread_mutex_unlock(&own->watcher.lock);
}

static void free_member(nccl_comm *c)
{
    device *d = c->own->device;
    if (c->work) {
        device_release(d, MEMORY_DEVICE, c->work, (size_t)STREAMS * NCCL_PART_BYTES);
        device_count_given(d, NCCL_BUFFER_BYTES);
    }
    if (c->sent) d->ops->event_close(c->sent);
    if (c->begun) d->ops->sharing->close_flags(d, c->begun, true);
    free(c->begun);
    free(c->ranks);
    free(c);
}

// What a group of several ranks needs of the device.
static status take_memory(nccl_comm *c, err *e)
{
    status result = OK;
    device *d = c->own->device;
    void *work = NULL;
    device_flag *flags = NULL;
    TRY(alloc_aligned(&flags, PAGE, 1, PAGE, "a communicator", e));
    memset(flags, 0, PAGE);
    TRY(d->ops->sharing->open_flags(d, flags, PAGE, e));
    c->begun = flags;
    flags = NULL;
    TRY(device_alloc(d, MEMORY_DEVICE, (size_t)STREAMS * NCCL_PART_BYTES, &work, e));
    c->work = work;
    device_count_taken(d, NCCL_BUFFER_BYTES);
done:
    free(flags);
    return result;
}

// Opens the communicator of a group, whose members are `ranks` among all ranks; NULL: all. Takes *clique over.
static status member_open(nccl_rank *own, const comm_rendezvous *rendezvous, const int *ranks,
                          device_clique **clique, comm **out, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    const size_t size = (size_t)rendezvous->size;
    nccl_comm *c = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, what, e));
    c->own = own;
    TRY(comm_init(&c->base, &nccl_ops, &NCCL_CAPABILITIES, rendezvous->rank, rendezvous->size, e));
    c->base.can.tree_order = !own->any_order;
    c->number = own->opened++;
    c->rendezvous = *rendezvous;
    TRY(alloc_array(&c->ranks, size, sizeof *c->ranks, what, e));
    for (size_t r = 0; r < size; r++) c->ranks[r] = ranks ? ranks[r] : (int)r;
    if (size > 1) TRY(take_memory(c, e));
    pthread_mutex_lock(&own->watcher.lock);
    c->clique = *clique;
    *clique = NULL;
    c->next = own->first;
    own->first = c;
    pthread_mutex_unlock(&own->watcher.lock);
    own->users++;
    *out = &c->base;
    c = NULL;
done:
    if (c) {
        comm_clear(&c->base);
        free_member(c);
    }
    return result;
}

// The streams of the rank have no work of c any more.
static void nccl_close(comm *base)
{
    nccl_comm *c = nccl_of(base);
    nccl_rank *own = c->own;
    clique_close(own, &c->clique);
    pthread_mutex_lock(&own->watcher.lock);
    nccl_comm **at = &own->first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&own->watcher.lock);
    free_member(c);
    rank_leave(own);
}

// ---- Hosts synchronise

// Ranks compare it when they synchronise.
typedef struct nccl_identity {
    int32_t kind;    // a comm_call_kind
    int32_t version; // of the library
} nccl_identity;

static status compare_identities(const nccl_rank *own, const nccl_comm *c, const char *all,
                                 size_t block, const nccl_identity *mine, err *e)
{
    for (int r = 0; r < c->base.size; r++) {
        nccl_identity theirs;
        memcpy(&theirs, all + (size_t)r * block, sizeof theirs);
        if (theirs.kind != mine->kind)
            return err_set(e, E_INTERNAL, "rank %d calls %s while rank %d calls %s", c->ranks[r],
                           comm_call_row_of((comm_call_kind)theirs.kind)->name, own->rank,
                           comm_call_row_of((comm_call_kind)mine->kind)->name);
        if (theirs.version != mine->version)
            return err_set(e, E_USAGE,
                           "communicator nccl: rank %d has version %d of %s, rank %d has %d; "
                           "valid: one version on all hosts",
                           c->ranks[r], theirs.version, own->library->name, own->rank,
                           mine->version);
    }
    return OK;
}

// The hosts of the group come with a value each, as comm_rendezvous_all_gather. Each rendezvous has keys of its own.
static status gather_values(nccl_comm *c, const void *value, size_t bytes, int64_t deadline_ms,
                            char **all, size_t *block, err *e)
{
    pthread_mutex_lock(&c->own->rendezvous);
    c->rendezvous.splits++;
    const status result =
        comm_rendezvous_all_gather(&c->rendezvous, value, bytes, deadline_ms, all, block, e);
    pthread_mutex_unlock(&c->own->rendezvous);
    return result;
}

// The hosts of the group come to a call of a kind. A rank that does not come is named.
static status synchronise(nccl_comm *c, comm_call_kind kind, int64_t deadline_ms, err *e)
{
    status result = OK;
    char *all = NULL;
    size_t block = 0;
    nccl_identity mine = {.kind = kind};
    TRY(nccl_check(c, e));
    TRY(c->own->library->open(c->own->device, &mine.version, e));
    if (c->base.size == 1) return OK;
    TRY(gather_values(c, &mine, sizeof mine, deadline_ms, &all, &block, e));
    TRY(compare_identities(c->own, c, all, block, &mine, e));
done:
    free(all);
    return result;
}

static int64_t limit_of(const nccl_comm *c)
{
    return atomic_load(&c->own->world->watchdog->limit_ms);
}

// Gathers a few bytes of each host.
static status gather(nccl_comm *c, const comm_call *call, err *e)
{
    status result = OK;
    const size_t bytes = comm_call_bytes(call);
    char *all = NULL;
    size_t block = 0;
    TRY(nccl_check(c, e));
    TRY(gather_values(c, call->in, bytes, limit_of(c), &all, &block, e));
    for (size_t r = 0; r < (size_t)c->base.size; r++)
        memcpy((char *)call->out + r * bytes, all + r * block, bytes);
done:
    free(all);
    return result;
}

// Nobody reads the memory of another rank, so CALL_SHARE exchanges nothing.
static status nccl_issue(comm *base, const comm_call *call, device_stream *on, err *e)
{
    nccl_comm *c = nccl_of(base);
    if (on) return nccl_run_collective(c, call, on, e);
    return call->kind == CALL_COMPARE ? gather(c, call, e)
                                      : synchronise(c, call->kind, limit_of(c), e);
}

static status nccl_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    (void)c;
    *out = NULL;
    return device_alloc(d, MEMORY_ZEROED, bytes, out, e);
}

static void nccl_release(comm *c, device *d, void *p, size_t bytes)
{
    (void)c;
    device_release(d, MEMORY_ZEROED, p, bytes);
}

static void nccl_abort(comm *c, const err *why)
{
    comm_failure_set(nccl_of(c)->own->world->failure, nccl_of(c)->own->rank, why);
}

// ---- Splitting

// Makes the clique of the new group m, whose id its first rank has told.
static status make_clique(nccl_comm *c, const comm_members *m, const device_clique_id *id,
                          device_clique **out, err *e)
{
    status result = OK;
    nccl_rank *own = c->own;
    const bool splits = own->library->can_split(own->device);
    pthread_mutex_lock(&own->watcher.lock);
    if (splits && c->clique)
        result = own->library->split(c->clique, m->size > 1 ? m->ranks[0] : -1, m->rank, out, e);
    else if (!splits && m->size > 1)
        result = own->library->join(own->device, id, m->rank, m->size, out, e);
    pthread_mutex_unlock(&own->watcher.lock);
    if (result == OK && splits) result = settle_call(c, e);
    if (result == OK && m->size > 1) result = settle(own, out, limit_of(c), e);
    return result;
}

static status split_group(nccl_comm *c, int color, int key, comm_members *m, device_clique_id *id,
                          comm_rendezvous *rendezvous, err *e)
{
    status result = OK;
    nccl_rank *own = c->own;
    const int64_t deadline_ms = limit_of(c);
    pthread_mutex_lock(&own->rendezvous);
    TRY(comm_rendezvous_split(&c->rendezvous, color, key, deadline_ms, m, e));
    if (m->rank == 0 && m->size > 1 && !own->library->can_split(own->device))
        TRY(own->library->make_id(own->device, id, e));
    TRY(comm_rendezvous_join(&c->rendezvous, m, id, sizeof *id, deadline_ms, rendezvous, e));
done:
    pthread_mutex_unlock(&own->rendezvous);
    return result;
}

static status nccl_split(comm *base, int color, int key, comm **out, err *e)
{
    status result = OK;
    nccl_comm *c = nccl_of(base);
    device_clique *clique = NULL;
    device_clique_id id = {{0}};
    comm_members m = {0};
    comm_rendezvous rendezvous;
    *out = NULL;
    TRY(synchronise(c, CALL_SPLIT, limit_of(c), e)); // a rank that does not come is named
    TRY(split_group(c, color, key, &m, &id, &rendezvous, e));
    if (base->size > 1) TRY(make_clique(c, &m, &id, &clique, e));
    if (m.size == 1 && clique) {
        c->own->library->close(clique);
        clique = NULL;
    }
    for (int r = 0; r < m.size; r++) m.ranks[r] = c->ranks[m.ranks[r]];
    TRY(member_open(c->own, &rendezvous, m.ranks, &clique, out, e));
done:
    if (clique) c->own->library->abort(clique);
    free(m.ranks);
    return result;
}

static int nccl_rank_of(const comm *c, int member)
{
    return ((const nccl_comm *)c)->ranks[member];
}

static const comm_ops nccl_ops = {
    .name = "nccl",
    .close = nccl_close,
    .alloc = nccl_alloc,
    .release = nccl_release,
    .issue = nccl_issue,
    .group = nccl_issue_group,
    .send_wait = nccl_send_wait,
    .abort = nccl_abort,
    .split = nccl_split,
    .rank_of = nccl_rank_of,
};

// ---- Opening

// All ranks come, and then join the clique of all.
static status join_all(nccl_comm *c, int64_t deadline_ms, err *e)
{
    status result = OK;
    nccl_rank *own = c->own;
    device_clique *clique = NULL;
    device_clique_id id = {{0}};
    TRY(synchronise(c, CALL_BARRIER, deadline_ms, e));
    if (c->base.rank == 0) TRY(own->library->make_id(own->device, &id, e));
    TRY(comm_rendezvous_open(&c->rendezvous, &id, sizeof id, deadline_ms, e));
    TRY(own->library->join(own->device, &id, c->base.rank, c->base.size, &clique, e));
    result = settle(own, &clique, deadline_ms, e);
    pthread_mutex_lock(&own->watcher.lock);
    if (result == OK) c->clique = clique;
    pthread_mutex_unlock(&own->watcher.lock);
    if (result != OK) own->library->abort(clique);
done:
    return result;
}

status nccl_open(const comm_options *o, comm **out, err *e)
{
    status result = OK;
    nccl_rank *own = NULL;
    device_clique *none = NULL;
    int version;
    const comm_rendezvous rendezvous = {
        .store = o->store, .failure = o->world->failure, .rank = o->rank, .size = o->size};
    *out = NULL;
    if (!o->device->ops->collectives || !o->device->ops->sharing)
        FAIL(E_USAGE, "communicator nccl: device %s has no collectives of NCCL; valid is cuda",
             o->device->ops->name);
    result = o->device->ops->collectives->open(o->device, &version, e);
    if (result != OK) {
        err_prefix(e, "communicator nccl: ");
        return result;
    }
    TRY(rank_open(o, &own, e));
    TRY(member_open(own, &rendezvous, NULL, &none, out, e));
    TRY(join_all(nccl_of(*out), o->deadline_ms, e));
done:
    if (result != OK && *out) {
        comm_close(*out);
        *out = NULL;
    }
    if (own) rank_leave(own);
    return result;
}
