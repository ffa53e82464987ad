// local.c -- the communicator of the ranks of one machine: it opens and splits communicators,
// allocates memory, issues calls to streams, and runs each call in its turn.
//
// Opened by the registry, and called through the table of comm.h. The collectives are in
// local_collective.c and local_segments.c, messages in local_message.c. It does not know how ranks were
// started.
#include "comm/local/local.h"

#include "base/alloc.h"
#include "comm/comm_private.h"
#include "comm/solo.h"

#include <stdlib.h>
#include <string.h>

static const comm_ops local_ops;

static comm_local *local_of(comm *c)
{
    return (comm_local *)c;
}

static comm_wait wait_of(const local_wait *w)
{
    const comm_local *local = w->call->local;
    return (comm_wait){.waiting = local_rank_of(local, local->base.rank),
                       .awaited = local_rank_of(local, w->awaited),
                       .first = local->first,
                       .ranks = local->world->ranks,
                       .what = w->call->what,
                       .call = w->to,
                       .label = local->base.label,
                       .last_calls = &local->world->last_calls};
}

static void idle(void *arg)
{
    const local_wait *w = arg;
    const comm_local *local = w->call->local;
    const comm_wait wait = wait_of(w);
    comm_watchdog_wait(local->world->watchdog, &wait);
    if (local->limits.idle) local->limits.idle(local->limits.idle_arg);
}

doorbell_limits local_limits(const local_wait *w)
{
    doorbell_limits l = w->call->local->limits;
    l.idle = idle;
    l.idle_arg = (void *)(uintptr_t)w;
    return l;
}

status local_wait_error(const local_wait *w, err *e)
{
    const comm_local *local = w->call->local;
    const comm_wait wait = wait_of(w);
    return comm_watchdog_error(local->world->watchdog, local->world->failure, &wait, e);
}

static uint64_t activity_of(const comm_local *local)
{
    return atomic_load_explicit(
        &comm_watchdog_activity(local->world->watchdog, local->world_rank)->what,
        memory_order_relaxed);
}

static status run_call(void *arg, err *e)
{
    status result = OK;
    const local_call *x = arg;
    comm_local *local = x->local;
    const local_wait own = {x, local->base.rank, "the end of its own earlier call"};
    if (!doorbell_wait_for(&x->queue->done, x->ticket, &local->limits) || local_has_failed(local)) {
        result = local_wait_error(&own, e);
    } else if (comm_call_row_of(x->call.kind)->is_message) {
        result = x->call.kind == CALL_SEND ? local_run_send(x, e) : local_run_recv(x, e);
    } else {
        comm_arrival alone = {.by = local->base.rank, .last = -1};
        local->running = x;
        local->arrival = x->arrival ? x->arrival : x->call.visit ? &alone : NULL;
        result = local_run_collective(local, &x->call, e);
        local->arrival = NULL;
        if (x->call.visit) comm_visit_add(x->call.visit, alone.waited_ns, alone.last);
    }
    doorbell_ring(&x->queue->done, x->ticket + 1);
    return result;
}

static status run_send_wait(void *arg, err *e)
{
    return local_run_send_wait(arg, e);
}

static local_call call_of(comm_local *local, comm_queue *queue, const comm_call *call,
                          const comm_signature *signature, uint64_t what)
{
    return (local_call){.local = local,
                        .queue = queue,
                        .ticket = (uint32_t)queue->issued++,
                        .what = what,
                        .call = *call,
                        .signature = *signature};
}

static comm_queue *queue_of(comm_local *local, const comm_call *call)
{
    if (!comm_call_row_of(call->kind)->is_message) return &local->collectives;
    return &(call->kind == CALL_SEND ? local->sends : local->receives)[call->peer];
}

// After a failure nothing is issued any more. A caller that rarely synchronises learns of the
// failure here. All memory of comm_alloc lies at one address on every rank, so CALL_SHARE exchanges nothing.
static status local_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    comm_local *local = local_of(c);
    const comm_signature signature = comm_call_signature(call);
    if (local_has_failed(local)) return comm_failure_error(local->world->failure, e);
    if (call->segment) TRY(local_check_segments(local, call, e));
    local_call x = call_of(local, queue_of(local, call), call, &signature, activity_of(local));
    if (on)
        on->device->ops->call(on, run_call, &x, sizeof x);
    else
        TRY(run_call(&x, e));
done:
    return result;
}

status local_run_now(comm *c, const comm_call *call, const comm_signature *whole, uint64_t what,
                     comm_arrival *arrival, err *e)
{
    comm_local *local = local_of(c);
    local_call x = call_of(local, &local->collectives, call, whole, what);
    x.call.visit = NULL;
    x.arrival = arrival;
    return run_call(&x, e);
}

void local_set_members(comm *c, const int *members)
{
    local_of(c)->members = members;
}

void local_set_idle(comm *c, void (*fn)(void *arg), void *arg)
{
    comm_local *local = local_of(c);
    local->limits.idle = fn;
    local->limits.idle_arg = arg;
}

static void local_close(comm *c)
{
    comm_local *local = local_of(c);
    local_leave(local);
    comm_group_leave(local->world->arena, local->group);
    free(local->sends);
    free(local->arrays);
    free(local);
}

static status local_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return comm_arena_alloc(local_of(c)->world->arena, d, bytes, out, e);
}

static void local_release(comm *c, device *d, void *p, size_t bytes)
{
    comm_arena_release(local_of(c)->world->arena, d, p, bytes);
}

static status local_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    comm_local *local = local_of(c);
    const local_call x = {
        .local = local, .call = {.peer = peer, .count = messages}, .what = activity_of(local)};
    if (local_has_failed(local)) return comm_failure_error(local->world->failure, e);
    on->device->ops->call(on, run_send_wait, &x, sizeof x);
    return OK;
}

static void local_abort(comm *c, const err *why)
{
    const comm_local *local = local_of(c);
    comm_failure_set(local->world->failure, local_rank_of(local, local->base.rank), why);
}

static status open_in_group(world *w, int first, comm_group *g, const comm_rendezvous *rendezvous,
                            comm **out, err *e);

// The first member of a new group places it in the arena.
static status open_group(comm_local *local, const comm_members *m, comm_group **out, err *e)
{
    status result = OK;
    int *world_ranks = NULL;
    err why = {0};
    if (m->rank != 0 || m->size == 1) return OK;
    TRY(alloc_array(&world_ranks, (size_t)m->size, sizeof *world_ranks, "a process group", &why));
    for (int i = 0; i < m->size; i++) world_ranks[i] = local->group->world_rank[m->ranks[i]];
    TRY(comm_group_open(local->world->arena, m->size, world_ranks, out, &why));
done:
    free(world_ranks);
    if (result == OK) return OK;
    local_abort(&local->base, &why); // the other members wait for the group
    return err_set(e, result, "%s", why.text);
}

static status local_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    comm_local *local = local_of(c);
    world *w = local->world;
    const int64_t deadline_ms = atomic_load(&w->watchdog->limit_ms);
    comm_members m = {0};
    comm_rendezvous rendezvous;
    comm_group *group = NULL;
    *out = NULL;
    // All ranks come to the same call here, or a rank that does not is named.
    TRY(local_issue(c, &(comm_call){.kind = CALL_SPLIT}, NULL, e));
    TRY(comm_rendezvous_split(&local->rendezvous, color, key, deadline_ms, &m, e));
    TRY(open_group(local, &m, &group, e));
    TRY(comm_rendezvous_join(&local->rendezvous, &m, &group, sizeof group, deadline_ms, &rendezvous,
                             e));
    if (m.size == 1) {
        TRY(comm_solo_open_in(w, local->world_rank, out, e));
    } else {
        TRY(open_in_group(w, local->first, group, &rendezvous, out, e));
        local_set_idle(*out, local->limits.idle, local->limits.idle_arg);
    }
done:
    free(m.ranks);
    return result;
}

static int rank_of(const comm *c, int member)
{
    return local_rank_of((const comm_local *)c, member);
}

static const comm_ops local_ops = {
    .name = "local",
    .close = local_close,
    .alloc = local_alloc,
    .release = local_release,
    .issue = local_issue,
    .send_wait = local_send_wait,
    .abort = local_abort,
    .split = local_split,
    .rank_of = rank_of,
};

const comm_capabilities LOCAL_CAPABILITIES = {.tree_order = true, .zero_copy = true};

// Opens the communicator of member rendezvous->rank of g. Closing it leaves g.
static status open_in_group(world *w, int first, comm_group *g, const comm_rendezvous *rendezvous,
                            comm **out, err *e)
{
    status result = OK;
    const size_t size = (size_t)g->size;
    comm_local *local = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&local, 1, sizeof *local, "a communicator", e));
    TRY(alloc_zeroed(&local->sends, 2 * size, sizeof *local->sends, "a communicator", e));
    TRY(alloc_zeroed(&local->arrays, size, sizeof *local->arrays, "a communicator", e));
    TRY(comm_init(&local->base, &local_ops, &LOCAL_CAPABILITIES, rendezvous->rank, g->size, e));
    local->world = w;
    local->first = first;
    local->group = g;
    local->world_rank = g->world_rank[rendezvous->rank];
    local->receives = local->sends + size;
    local->limits = (doorbell_limits){
        .failure = w->failure, .timeout_ms = &w->watchdog->limit_ms, .spin = w->spin};
    local->rendezvous = *rendezvous;
    *out = &local->base;
done:
    if (result != OK && local) {
        free(local->arrays);
        free(local->sends);
        free(local);
    }
    return result;
}

status local_open_members(const comm_options *o, comm **out, err *e)
{
    status result = OK;
    world *w = o->world;
    comm_group *group = NULL;
    const comm_rendezvous rendezvous = {
        .store = w->store, .failure = w->failure, .rank = o->local_rank, .size = o->local_size};
    *out = NULL;
    if (o->local_rank == 0) TRY(comm_group_open(w->arena, o->local_size, NULL, &group, e));
    TRY(comm_rendezvous_open(&rendezvous, &group, sizeof group, o->deadline_ms, e));
    TRY(open_in_group(w, o->rank - o->local_rank, group, &rendezvous, out, e));
done:
    return result;
}

status local_open_hosts(const comm_options *o, const char *name, comm **out, err *e)
{
    *out = NULL;
    if (o->world && o->local_size == o->size && o->world->ranks == o->size)
        return local_open_members(o, out, e);
    return err_set(e, E_USAGE, "communicator %s: %d of %d ranks are on this machine; valid are all",
                   name, o->local_size, o->size);
}

status local_open(const comm_options *o, comm **out, err *e)
{
    *out = NULL;
    if (o->device->ops->call) return local_open_hosts(o, "local", out, e);
    return err_set(
        e, E_USAGE,
        "communicator local: device %s has memory that the host cannot address; valid is "
        "communicator p2p",
        o->device->ops->name);
}
