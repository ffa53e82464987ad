// local.c -- the communicator of the ranks of one machine: it opens and splits communicators,
// allocates memory, issues calls to streams, and runs each call in its turn.
//
// Called through the table of comm.h. The collectives are in local_collective.c and
// local_segments.c, messages in local_message.c. It does not know how ranks were started.
#include "comm/local.h"

#include "base/alloc.h"
#include "comm/reduce.h"

#include <stdlib.h>
#include <string.h>

static const comm_ops local_ops;

static comm_local *local_of(comm *c)
{
    return (comm_local *)c;
}

status local_wait_error(const comm_call *call, int awaited, const char *to, err *e)
{
    const comm_local *local = call->local;
    const world_wait wait = {.waiting = local->world_rank,
                             .awaited = local->group->world_rank[awaited],
                             .what = call->what,
                             .call = to,
                             .label = local->base.label};
    return world_wait_error(local->world, &wait, e);
}

static uint64_t activity_of(const comm_local *local)
{
    return atomic_load_explicit(&world_activity(local->world, local->world_rank)->what,
                                memory_order_relaxed);
}

static status run_collective(const comm_call *call, err *e)
{
    call->local->running = call;
    return call->kind == CALL_ALL_GATHER_SEGMENTS || call->kind == CALL_REDUCE_SCATTER_SEGMENTS
               ? local_run_segments(call, e)
               : local_run_collective(call, e);
}

static status run_call(void *arg, err *e)
{
    status result = OK;
    const comm_call *call = arg;
    world *w = call->local->world;
    if (!doorbell_wait_for(&call->queue->done, call->ticket, w) || world_has_failed(w))
        result =
            local_wait_error(call, call->local->base.rank, "the end of its own earlier call", e);
    else if (call->kind == CALL_SEND)
        result = local_run_send(call, e);
    else if (call->kind == CALL_RECV)
        result = local_run_recv(call, e);
    else
        result = run_collective(call, e);
    doorbell_ring(&call->queue->done, call->ticket + 1);
    return result;
}

static status run_send_wait(void *arg, err *e)
{
    return local_run_send_wait(arg, e);
}

// After a failure nothing is issued any more. A caller that rarely synchronises learns of the
// failure here.
static status issue(comm_call call, comm_queue *queue, device_stream *on, err *e)
{
    if (world_has_failed(call.local->world)) return world_peer_error(call.local->world, e);
    call.queue = queue;
    call.ticket = (uint32_t)queue->issued++;
    call.what = activity_of(call.local);
    on->device->ops->call(on, run_call, &call, sizeof call);
    return OK;
}

// Runs a call that blocks the host, after all collectives issued before it.
static status run_now(comm_call call, err *e)
{
    call.queue = &call.local->collectives;
    call.ticket = (uint32_t)call.queue->issued++;
    call.what = activity_of(call.local);
    return run_call(&call, e);
}

static void local_close(comm *c)
{
    comm_local *local = local_of(c);
    local_leave(local);
    comm_group_leave(local->world, local->group);
    free(local->sends);
    free(local);
}

static status local_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return heap_alloc(local_of(c)->world, d, bytes, out, e);
}

static void local_release(comm *c, device *d, void *p, size_t bytes)
{
    heap_release(local_of(c)->world, d, p, bytes);
}

static status local_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                               device_stream *on, err *e)
{
    comm_local *local = local_of(c);
    return issue((comm_call){.local = local,
                             .kind = CALL_ALL_REDUCE,
                             .type = t,
                             .op = op,
                             .in = inout,
                             .out = inout,
                             .count = count},
                 &local->collectives, on, e);
}

static status local_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                   comm_reduce_op op, device_stream *on, err *e)
{
    comm_local *local = local_of(c);
    return issue((comm_call){.local = local,
                             .kind = CALL_REDUCE_SCATTER,
                             .type = t,
                             .op = op,
                             .in = in,
                             .out = out,
                             .count = shard_count},
                 &local->collectives, on, e);
}

static status local_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                               device_stream *on, err *e)
{
    comm_local *local = local_of(c);
    return issue((comm_call){.local = local,
                             .kind = CALL_ALL_GATHER,
                             .type = t,
                             .in = in,
                             .out = out,
                             .count = shard_count},
                 &local->collectives, on, e);
}

static status local_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                              err *e)
{
    comm_local *local = local_of(c);
    return issue((comm_call){.local = local,
                             .kind = CALL_BROADCAST,
                             .type = U8,
                             .root = root,
                             .in = inout,
                             .out = inout,
                             .count = bytes},
                 &local->collectives, on, e);
}

static status local_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                         err *e)
{
    comm_local *local = local_of(c);
    return issue(
        (comm_call){.local = local, .kind = CALL_SEND, .root = peer, .in = buf, .count = bytes},
        &local->sends[peer], on, e);
}

static status local_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    comm_local *local = local_of(c);
    return issue(
        (comm_call){.local = local, .kind = CALL_RECV, .root = peer, .out = buf, .count = bytes},
        &local->receives[peer], on, e);
}

static status local_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    comm_local *local = local_of(c);
    const comm_call call = {
        .local = local, .root = peer, .count = messages, .what = activity_of(local)};
    if (world_has_failed(local->world)) return world_peer_error(local->world, e);
    if (messages > local->sends[peer].issued)
        return err_set(e, E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
                       (unsigned long long)messages, peer,
                       (unsigned long long)local->sends[peer].issued);
    on->device->ops->call(on, run_send_wait, &call, sizeof call);
    return OK;
}

static status local_all_gather_segments(comm *c, const comm_segment *s, int segments,
                                        const void *shard, void *full, dtype t, device_stream *on,
                                        err *e)
{
    status result = OK;
    comm_local *local = local_of(c);
    comm_call call;
    TRY(local_gather_call(local, s, segments, shard, full, t, &call, e));
    TRY(issue(call, &local->collectives, on, e));
done:
    return result;
}

static status local_reduce_scatter_segments(comm *c, const comm_segment *s, int segments,
                                            const void *full, void *shard, dtype t,
                                            comm_reduce_op op, device_stream *on, err *e)
{
    status result = OK;
    comm_local *local = local_of(c);
    comm_call call;
    TRY(local_scatter_call(local, s, segments, full, shard, t, op, &call, e));
    TRY(issue(call, &local->collectives, on, e));
done:
    return result;
}

static status local_barrier(comm *c, err *e)
{
    return run_now((comm_call){.local = local_of(c), .kind = CALL_BARRIER}, e);
}

static void local_abort(comm *c, const err *why)
{
    const comm_local *local = local_of(c);
    world_fail(local->world, local->world_rank, why);
}

// The arguments of comm_split, which each member tells the others.
typedef struct local_split_key {
    int color, key;
} local_split_key;

// Fills members [0 … count-1] with the ranks of this rank's color, in the new order, and *new_rank
// with the index of this rank. Returns count.
static int new_members(const local_split_key *keys, int size, int rank, int *members, int *new_rank)
{
    int count = 0;
    for (int r = 0; r < size; r++) {
        if (keys[r].color != keys[rank].color) continue;
        int i = count++;
        for (; i > 0 && keys[members[i - 1]].key > keys[r].key; i--) members[i] = members[i - 1];
        members[i] = r;
    }
    for (int i = 0; i < count; i++)
        if (members[i] == rank) *new_rank = i;
    return count;
}

static status gather_now(comm_local *local, const void *in, void *out, size_t bytes, err *e)
{
    return run_now((comm_call){.local = local,
                               .kind = CALL_ALL_GATHER,
                               .type = U8,
                               .in = in,
                               .out = out,
                               .count = bytes},
                   e);
}

static status local_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    comm_local *local = local_of(c);
    local_split_key keys[WORLD_RANKS];
    comm_group *groups[WORLD_RANKS];
    int members[WORLD_RANKS], world_ranks[WORLD_RANKS], new_rank = 0;
    comm_group *mine = NULL;
    const local_split_key own = {color, key};
    *out = NULL;
    TRY(gather_now(local, &own, keys, sizeof own, e));
    const int size = new_members(keys, c->size, c->rank, members, &new_rank);
    for (int i = 0; i < size; i++) world_ranks[i] = local->group->world_rank[members[i]];
    // The first member of each new group opens it and tells the others its address.
    if (new_rank == 0 && size > 1) {
        err why;
        memset(&why, 0, sizeof why);
        result = comm_group_open(local->world, size, world_ranks, &mine, &why);
        if (result != OK) {
            local_abort(c, &why);
            FAIL(result, "%s", why.text);
        }
    }
    TRY(gather_now(local, &mine, groups, sizeof mine, e));
    if (size == 1)
        TRY(comm_solo_open_in(local->world, local->world_rank, out, e));
    else
        TRY(local_comm_open(local->world, groups[members[0]], new_rank, out, e));
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

status local_comm_open(world *w, comm_group *g, int rank, comm **out, err *e)
{
    status result = OK;
    const size_t size = (size_t)g->size;
    comm_local *local = NULL;
    comm_queue *queues = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&local, 1, sizeof *local, "a communicator", e));
    TRY(alloc_zeroed(&queues, 2 * size, sizeof *queues, "a communicator", e));
    local->base = (comm){.ops = &local_ops, .rank = rank, .size = g->size};
    local->world = w;
    local->group = g;
    local->world_rank = g->world_rank[rank];
    local->sends = queues;
    local->receives = queues + size;
    *out = &local->base;
done:
    if (result != OK) {
        free(queues);
        free(local);
    }
    return result;
}
