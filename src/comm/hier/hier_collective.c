// hier_collective.c -- the collectives of the communicator hier. Where the layout is HIER_EVEN, a call has steps inside
// of the host (local) and steps between hosts (remote). The sum of a host is a subtree of the tree of all ranks, so the
// steps give the bits of one sum. 16-bit types pass as fp32 between the steps, and are rounded once. Called on streams.
#include "comm/hier/hier_private.h"

#include "base/size.h"

#include <string.h>

// ---- Steps

// For whom this rank has waited in the steps before is held for late where this rank comes last to the next one. So a
// wait for a host is charged to the rank that came last there.
static status run_step(const hier_call *x, comm *c, const comm_call *step, err *e)
{
    const int rank = x->comm->base.rank;
    comm_arrival met = {.by = x->met && x->met->last >= 0 ? x->met->last : rank, .last = -1};
    comm_arrival *arrival = x->met ? &met : NULL;
    const status result = c == x->comm->local
                              ? local_run_now(c, step, &x->signature, x->what, arrival, e)
                              : network_run_now(c, step, &x->signature, x->what, arrival, e);
    if (x->met) comm_visit_add(x->met, met.waited_ns, met.last);
    return result;
}

static status local_step(const hier_call *x, const comm_call *step, err *e)
{
    return run_step(x, x->comm->local, step, e);
}

static status remote_step(const hier_call *x, const comm_call *step, err *e)
{
    return run_step(x, x->comm->remote, step, e);
}

static comm_call step_of(const hier_call *x, comm_call_kind kind, dtype t, size_t count,
                         const void *in, void *out)
{
    return (comm_call){kind, .type = t, .op = x->call.op, .count = count, .in = in, .out = out};
}

// The type in which the sums of hosts travel.
static dtype sum_type(dtype t)
{
    return dtype_bytes(t) == 2 ? F32 : t;
}

// ---- all_reduce

// Every rank sums the arrays of its host, and then those of the hosts.
static status reduce_small(const hier_call *x, char *data, size_t count, dtype t, err *e)
{
    status result = OK;
    const comm_call step = step_of(x, CALL_ALL_REDUCE, t, count, data, data);
    TRY(local_step(x, &step, e));
    TRY(remote_step(x, &step, e));
done:
    return result;
}

// Each rank of a host sums one shard over the host, and then over the hosts. The few elements that do not divide come
// first: so ranks whose counts differ meet with shards that differ.
static status reduce_in_place(const hier_call *x, char *data, size_t count, dtype t, err *e)
{
    status result = OK;
    const size_t element = dtype_bytes(t), ranks = (size_t)x->comm->local->size;
    const size_t shard = count / ranks, rest = count % ranks;
    char *own = data + (size_t)x->comm->local->rank * shard * element;
    const comm_call reduces = step_of(x, CALL_REDUCE_SCATTER, t, shard, data, own),
                    sums = step_of(x, CALL_ALL_REDUCE, t, shard, own, own),
                    gathers = step_of(x, CALL_ALL_GATHER, t, shard, own, data);
    if (count * element <= HIER_SMALL_BYTES) return reduce_small(x, data, count, t, e);
    if (rest) TRY(reduce_small(x, data + shard * ranks * element, rest, t, e));
    TRY(local_step(x, &reduces, e));
    TRY(remote_step(x, &sums, e));
    TRY(local_step(x, &gathers, e));
done:
    return result;
}

static status all_reduce(const hier_call *x, err *e)
{
    status result = OK;
    const dtype t = x->call.type, sum = sum_type(t);
    const size_t count = x->call.count, most = HIER_WORK_BYTES / dtype_bytes(sum);
    char *work = x->comm->work;
    if (sum == t) return reduce_in_place(x, x->call.out, count, t, e);
    for (size_t i = 0; i == 0 || i < count; i += most) {
        const size_t n = count - i < most ? count - i : most;
        char *data = (char *)x->call.out + i * dtype_bytes(t);
        dtype_convert(work, sum, data, t, n);
        TRY(reduce_in_place(x, work, n, sum, e));
        dtype_convert(data, t, work, sum, n);
    }
done:
    return result;
}

// ---- reduce_scatter and all_gather: shards pass through the workspace, in pieces for which it has room. There they
// are ordered by the number of a rank in its host, and then by host.

static size_t piece_of(const hier_comm *c, size_t element)
{
    return HIER_WORK_BYTES / element / (size_t)c->base.size;
}

// The rank whose piece is number `i` in the workspace.
static size_t rank_at(const hier_comm *c, size_t i)
{
    const size_t hosts = (size_t)c->remote->size;
    return i % hosts * (size_t)c->local->size + i / hosts;
}

static status reduce_scatter(const hier_call *x, err *e)
{
    status result = OK;
    const hier_comm *c = x->comm;
    const dtype t = x->call.type, sum = sum_type(t);
    const size_t element = dtype_bytes(t), wide = dtype_bytes(sum), count = x->call.count,
                 most = piece_of(c, wide), hosts = (size_t)c->remote->size;
    for (size_t i = 0; i == 0 || i < count; i += most) {
        const size_t n = count - i < most ? count - i : most;
        char *own = c->work + (size_t)c->local->rank * hosts * n * wide;
        char *out = (char *)x->call.out + i * element,
             *to = sum == t ? out : own + (size_t)c->remote->rank * n * wide;
        for (size_t p = 0; p < (size_t)c->base.size; p++)
            dtype_convert(c->work + p * n * wide, sum,
                          (const char *)x->call.in + (rank_at(c, p) * count + i) * element, t, n);
        const comm_call local = step_of(x, CALL_REDUCE_SCATTER, sum, hosts * n, c->work, own),
                        remote = step_of(x, CALL_REDUCE_SCATTER, sum, n, own, to);
        TRY(local_step(x, &local, e));
        TRY(remote_step(x, &remote, e));
        if (sum != t) dtype_convert(out, t, to, sum, n);
    }
done:
    return result;
}

static status all_gather(const hier_call *x, err *e)
{
    status result = OK;
    const hier_comm *c = x->comm;
    const dtype t = x->call.type;
    const size_t element = dtype_bytes(t), count = x->call.count, most = piece_of(c, element),
                 hosts = (size_t)c->remote->size;
    for (size_t i = 0; i == 0 || i < count; i += most) {
        const size_t n = count - i < most ? count - i : most;
        char *own = c->work + (size_t)c->local->rank * hosts * n * element;
        const char *in = (const char *)x->call.in + i * element;
        const comm_call remote = step_of(x, CALL_ALL_GATHER, t, n, in, own),
                        local = step_of(x, CALL_ALL_GATHER, t, hosts * n, own, c->work);
        TRY(remote_step(x, &remote, e));
        TRY(local_step(x, &local, e));
        for (size_t p = 0; p < (size_t)c->base.size && n; p++)
            memcpy((char *)x->call.out + (rank_at(c, p) * count + i) * element,
                   c->work + p * n * element, n * element);
    }
done:
    return result;
}

// ---- broadcast

// The ranks with the root's number in their hosts receive it first.
static status broadcast(const hier_call *x, err *e)
{
    status result = OK;
    const hier_comm *c = x->comm;
    const int ranks = c->local->size, number = x->call.peer % ranks;
    comm_call step = x->call;
    step.peer = x->call.peer / ranks;
    if (c->local->rank == number) TRY(remote_step(x, &step, e));
    step.peer = number;
    TRY(local_step(x, &step, e));
done:
    return result;
}

// ---- Running a call

static status run_even(const hier_call *x, err *e)
{
    static status (*const run[CALL_KINDS])(const hier_call *x, err *e) = {
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_BROADCAST] = broadcast,
    };
    return run[x->call.kind](x, e);
}

static status run_body(const hier_call *x, err *e)
{
    const hier_comm *c = x->comm;
    switch (c->layout) {
    case HIER_ONE_HOST:
        return local_step(x, &x->call, e);
    case HIER_EVEN:
        return run_even(x, e);
    default:
        return run_step(x, c->all, &x->call, e);
    }
}

// An earlier call that does not end becomes the failure of the run, which ends this wait.
static status wait_turn(hier_comm *c, uint32_t ticket, err *e)
{
    doorbell_wait_for(&c->queue.done, ticket, &c->limits);
    return hier_check(c, e);
}

status hier_drain(hier_comm *c, err *e)
{
    return wait_turn(c, (uint32_t)c->queue.issued, e);
}

// Ranks of other hosts learn of a failure that is known on this one.
status hier_run_collective(void *call, err *e)
{
    hier_call *x = call;
    hier_comm *c = x->comm;
    comm_visit met = COMM_VISIT_NONE;
    x->met = x->call.visit ? &met : NULL;
    status result = wait_turn(c, x->ticket, e);
    if (result == OK) result = run_body(x, e);
    if (x->met) comm_visit_join(x->call.visit, &met);
    x->met = NULL;
    if (result != OK && c->own->root) comm_abort(c->own->root, e);
    doorbell_ring(&c->queue.done, x->ticket + 1);
    return result;
}
