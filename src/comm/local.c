// local.c -- the communicator of ranks on one machine: opening, splitting, memory, and the way of a
// call from its issue to its lane's turn on a stream.
//
// Reached through the comm table. The collectives themselves are in local_collective.c and
// local_segments.c, messages in local_message.c. Knows nothing of how ranks were started.
#include "comm/local.h"

#include "comm/reduce.h"

#include <stdlib.h>
#include <string.h>

static const comm_ops local_ops;

static local *local_of(comm *c)
{
    return (local *)c;
}

status local_wait_error(const call *k, int awaited, const char *to, err *e)
{
    const local *l = k->comm;
    const wait_place at = {.waiting = l->world_rank,
                           .awaited = l->group->world_rank[awaited],
                           .what = k->what,
                           .call = to,
                           .label = l->base.label};
    return world_wait_error(l->world, &at, e);
}

static uint64_t activity_of(const local *l)
{
    return atomic_load_explicit(&world_activity(l->world, l->world_rank)->what,
                                memory_order_relaxed);
}

static status run_collective(const call *k, err *e)
{
    k->comm->running = k;
    return k->kind == CALL_ALL_GATHER_SEGMENTS || k->kind == CALL_REDUCE_SCATTER_SEGMENTS
               ? local_run_segments(k, e)
               : local_run_collective(k, e);
}

static status run_call(void *arg, err *e)
{
    status result = OK;
    const call *k = arg;
    world *w = k->comm->world;
    if (!doorbell_wait_for(&k->lane->done, k->ticket, w) || world_has_failed(w))
        result = local_wait_error(k, k->comm->base.rank, "the end of its own earlier call", e);
    else if (k->kind == CALL_SEND)
        result = local_run_send(k, e);
    else if (k->kind == CALL_RECV)
        result = local_run_recv(k, e);
    else
        result = run_collective(k, e);
    doorbell_ring(&k->lane->done, k->ticket + 1);
    return result;
}

static status run_send_wait(void *arg, err *e)
{
    return local_run_send_wait(arg, e);
}

// After a failure nothing is issued any more: who does not synchronise often learns of it here.
static status issue(call k, lane *in, device_stream *on, err *e)
{
    if (world_has_failed(k.comm->world)) return world_peer_error(k.comm->world, e);
    k.lane = in;
    k.ticket = (uint32_t)in->issued++;
    k.what = activity_of(k.comm);
    on->device->ops->call(on, run_call, &k, sizeof k);
    return OK;
}

// For calls that block the host: takes its turn after everything issued before.
static status run_now(call k, err *e)
{
    k.lane = &k.comm->collectives;
    k.ticket = (uint32_t)k.lane->issued++;
    k.what = activity_of(k.comm);
    return run_call(&k, e);
}

static void local_close(comm *c)
{
    local *l = local_of(c);
    local_leave(l);
    group_leave(l->world, l->group);
    free(l->sends);
    free(l);
}

static status local_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return heap_alloc(local_of(c)->world, d, bytes, out, e);
}

static void local_release(comm *c, device *d, void *p, size_t bytes)
{
    heap_release(local_of(c)->world, d, p, bytes);
}

static status local_all_reduce(comm *c, void *inout, size_t count, dtype t, reduce_op op,
                               device_stream *on, err *e)
{
    local *l = local_of(c);
    return issue((call){.comm = l,
                        .kind = CALL_ALL_REDUCE,
                        .type = t,
                        .op = op,
                        .in = inout,
                        .out = inout,
                        .count = count},
                 &l->collectives, on, e);
}

static status local_reduce_scatter(comm *c, const void *in, void *out, size_t own_count, dtype t,
                                   reduce_op op, device_stream *on, err *e)
{
    local *l = local_of(c);
    return issue((call){.comm = l,
                        .kind = CALL_REDUCE_SCATTER,
                        .type = t,
                        .op = op,
                        .in = in,
                        .out = out,
                        .count = own_count},
                 &l->collectives, on, e);
}

static status local_all_gather(comm *c, const void *in, void *out, size_t own_count, dtype t,
                               device_stream *on, err *e)
{
    local *l = local_of(c);
    return issue((call){.comm = l,
                        .kind = CALL_ALL_GATHER,
                        .type = t,
                        .in = in,
                        .out = out,
                        .count = own_count},
                 &l->collectives, on, e);
}

static status local_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                              err *e)
{
    local *l = local_of(c);
    return issue((call){.comm = l,
                        .kind = CALL_BROADCAST,
                        .type = U8,
                        .root = root,
                        .in = inout,
                        .out = inout,
                        .count = bytes},
                 &l->collectives, on, e);
}

static status local_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                         err *e)
{
    local *l = local_of(c);
    return issue((call){.comm = l, .kind = CALL_SEND, .root = peer, .in = buf, .count = bytes},
                 &l->sends[peer], on, e);
}

static status local_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    local *l = local_of(c);
    return issue((call){.comm = l, .kind = CALL_RECV, .root = peer, .out = buf, .count = bytes},
                 &l->receives[peer], on, e);
}

static status local_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    local *l = local_of(c);
    const call k = {.comm = l, .root = peer, .count = messages, .what = activity_of(l)};
    if (world_has_failed(l->world)) return world_peer_error(l->world, e);
    if (messages > l->sends[peer].issued)
        return err_set(e, E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
                       (unsigned long long)messages, peer,
                       (unsigned long long)l->sends[peer].issued);
    on->device->ops->call(on, run_send_wait, &k, sizeof k);
    return OK;
}

static status local_all_gather_segments(comm *c, const comm_segment *s, int segments,
                                        const void *own, void *whole, dtype t, device_stream *on,
                                        err *e)
{
    status result = OK;
    local *l = local_of(c);
    call k;
    TRY(local_gather_call(l, s, segments, own, whole, t, &k, e));
    TRY(issue(k, &l->collectives, on, e));
done:
    return result;
}

static status local_reduce_scatter_segments(comm *c, const comm_segment *s, int segments,
                                            const void *whole, void *own, dtype t, reduce_op op,
                                            device_stream *on, err *e)
{
    status result = OK;
    local *l = local_of(c);
    call k;
    TRY(local_scatter_call(l, s, segments, whole, own, t, op, &k, e));
    TRY(issue(k, &l->collectives, on, e));
done:
    return result;
}

static status local_barrier(comm *c, err *e)
{
    return run_now((call){.comm = local_of(c), .kind = CALL_BARRIER}, e);
}

static void local_abort(comm *c, const err *why)
{
    const local *l = local_of(c);
    world_fail(l->world, l->world_rank, why);
}

// What each member tells the others in a split.
typedef struct wish {
    int color, key;
} wish;

// The ranks of `color` in the new order; returns how many, and this rank's place.
static int new_members(const wish *wishes, int size, int rank, int *members, int *place)
{
    int count = 0;
    for (int r = 0; r < size; r++) {
        if (wishes[r].color != wishes[rank].color) continue;
        int at = count++;
        for (; at > 0 && wishes[members[at - 1]].key > wishes[r].key; at--)
            members[at] = members[at - 1];
        members[at] = r;
    }
    for (int i = 0; i < count; i++)
        if (members[i] == rank) *place = i;
    return count;
}

static status gather_now(local *l, const void *in, void *out, size_t bytes, err *e)
{
    return run_now(
        (call){
            .comm = l, .kind = CALL_ALL_GATHER, .type = U8, .in = in, .out = out, .count = bytes},
        e);
}

static status local_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    local *l = local_of(c);
    wish wishes[WORLD_RANKS];
    group *groups[WORLD_RANKS];
    int members[WORLD_RANKS], world_ranks[WORLD_RANKS], place = 0;
    group *mine = NULL;
    const wish own = {color, key};
    *out = NULL;
    TRY(gather_now(l, &own, wishes, sizeof own, e));
    const int size = new_members(wishes, c->size, c->rank, members, &place);
    for (int i = 0; i < size; i++) world_ranks[i] = l->group->world_rank[members[i]];
    // The first of each new group makes it and tells the others where it is.
    if (place == 0 && size > 1) {
        err why;
        memset(&why, 0, sizeof why);
        result = group_open(l->world, size, world_ranks, &mine, &why);
        if (result != OK) {
            local_abort(c, &why);
            FAIL(result, "%s", why.text);
        }
    }
    TRY(gather_now(l, &mine, groups, sizeof mine, e));
    if (size == 1)
        TRY(solo_comm_open_in(l->world, l->world_rank, out, e));
    else
        TRY(local_comm_open(l->world, groups[members[0]], place, out, e));
done:
    return result;
}

static const comm_ops local_ops = {
    .name = "local",
    .close = local_close,
    .alloc = local_alloc,
    .release = local_release,
    .all_reduce = local_all_reduce,
    .reduce_scatter = local_reduce_scatter,
    .all_gather = local_all_gather,
    .broadcast = local_broadcast,
    .send = local_send,
    .recv = local_recv,
    .send_wait = local_send_wait,
    .all_gather_segments = local_all_gather_segments,
    .reduce_scatter_segments = local_reduce_scatter_segments,
    .barrier = local_barrier,
    .abort = local_abort,
    .split = local_split,
};

status local_comm_open(world *w, group *g, int rank, comm **out, err *e)
{
    status result = OK;
    const size_t size = (size_t)g->size;
    local *l = calloc(1, sizeof *l);
    lane *lanes = calloc(2 * size, sizeof *lanes);
    *out = NULL;
    if (!l || !lanes) FAIL(E_FIT, "no memory for a communicator of %d ranks", g->size);
    l->base = (comm){.ops = &local_ops, .rank = rank, .size = g->size};
    l->world = w;
    l->group = g;
    l->world_rank = g->world_rank[rank];
    l->sends = lanes;
    l->receives = lanes + size;
    *out = &l->base;
done:
    if (result != OK) {
        free(lanes);
        free(l);
    }
    return result;
}
