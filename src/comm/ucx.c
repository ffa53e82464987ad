// ucx.c -- opens, splits and closes the communicator ucx (ucx.h), and holds its table. A call becomes work on
// a stream. It has no calls over segments, so comm.c packs shards. Opened by the registry.
#include "comm/ucx_private.h"

#include "base/alloc.h"

#include <stdlib.h>

static const comm_ops ucx_ops;

const comm_capabilities UCX_CAPABILITIES = {.tree_order = true,
                                            .needs_workspace = true,
                                            .sends_wait = true,
                                            .own_thread = true,
                                            .own_bytes = UCX_WORK_BYTES};

// ---- Calls

ucx_call ucx_call_of(comm *base, ucx_side side, ucx_terms terms)
{
    ucx_comm *c = ucx_of(base);
    const ucx_rank *own = c->own;
    ucx_call x = {.comm = c, .side = side, .terms = terms};
    if (side != UCX_BETWEEN) x.ticket = c->sequence[side].issued++;
    x.what = atomic_load_explicit(
        &comm_watchdog_activity(own->world->watchdog, own->local_rank)->what, memory_order_relaxed);
    return x;
}

status ucx_issue(const ucx_call *x, device_stream_fn fn, device_stream *on, err *e)
{
    const comm_failure *f = x->comm->own->world->failure;
    if (comm_failure_known(f)) return comm_failure_error(f, e);
    on->device->ops->call(on, fn, x, sizeof *x);
    return OK;
}

// `whole`: the count of the call that this one is a part of, or 0.
static ucx_call collective(comm *c, const comm_call_shape *shape, uint64_t whole, const void *in,
                           void *out)
{
    static const uint8_t kinds[] = {[CALL_ALL_REDUCE] = UCX_ALL_REDUCE,
                                    [CALL_REDUCE_SCATTER] = UCX_REDUCE_SCATTER,
                                    [CALL_ALL_GATHER] = UCX_ALL_GATHER,
                                    [CALL_BROADCAST] = UCX_BROADCAST};
    ucx_terms terms = {.kind = kinds[shape->kind],
                       .type = shape->type,
                       .op = shape->op,
                       .root = shape->root,
                       .count = shape->count,
                       .whole = whole};
    if (terms.kind == UCX_ALL_REDUCE)
        terms.algorithm =
            (uint8_t)ucx_algorithm_choose(ucx_of(c)->own->algorithm, c->size, (dtype)terms.type,
                                          terms.count * dtype_bytes((dtype)terms.type));
    ucx_call x = ucx_call_of(c, UCX_ON_STREAM, terms);
    x.in = in;
    x.out = out;
    return x;
}

static status issue_collective(comm *c, comm_call_shape shape, const void *in, void *out,
                               device_stream *on, err *e)
{
    const ucx_call x = collective(c, &shape, 0, in, out);
    return ucx_issue(&x, ucx_run_collective, on, e);
}

status ucx_run_now(comm *c, const comm_call_shape *shape, const comm_call_shape *whole,
                   const void *in, void *out, uint64_t what, err *e)
{
    ucx_call x = collective(c, shape, whole->count, in, out);
    x.what = what;
    return ucx_run_collective(&x, e);
}

static status ucx_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                             device_stream *on, err *e)
{
    return issue_collective(
        c,
        (comm_call_shape){
            .kind = CALL_ALL_REDUCE, .type = (uint8_t)t, .op = (uint8_t)op, .count = count},
        inout, inout, on, e);
}

static status ucx_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                 comm_reduce_op op, device_stream *on, err *e)
{
    return issue_collective(c,
                            (comm_call_shape){.kind = CALL_REDUCE_SCATTER,
                                              .type = (uint8_t)t,
                                              .op = (uint8_t)op,
                                              .count = shard_count},
                            in, out, on, e);
}

static status ucx_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                             device_stream *on, err *e)
{
    return issue_collective(
        c, (comm_call_shape){.kind = CALL_ALL_GATHER, .type = (uint8_t)t, .count = shard_count}, in,
        out, on, e);
}

static status ucx_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e)
{
    return issue_collective(
        c, (comm_call_shape){.kind = CALL_BROADCAST, .type = U8, .root = root, .count = bytes},
        inout, inout, on, e);
}

static status ucx_barrier(comm *c, err *e)
{
    return ucx_meet(c, UCX_BARRIER, e);
}

// Nobody reads the memory of another rank, so there is nothing to exchange.
static status ucx_share(comm *c, err *e)
{
    return ucx_meet(c, UCX_SHARE, e);
}

static status ucx_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    (void)c;
    *out = NULL;
    return device_alloc(d, MEMORY_ZEROED, bytes, out, e);
}

static void ucx_release(comm *c, device *d, void *p, size_t bytes)
{
    (void)c;
    device_release(d, MEMORY_ZEROED, p, bytes);
}

static void ucx_abort(comm *c, const err *why)
{
    ucx_fail(ucx_of(c)->own, ucx_of(c)->own->rank, why);
}

// ---- Opening

static void free_member(ucx_comm *c)
{
    if (!c) return;
    for (int s = 0; s < UCX_SIDES; s++) {
        ucx_sequence *sequence = &c->sequence[s];
        free(sequence->sent);
        free(sequence->received);
        free(sequence->to);
        free(sequence->from);
        for (int i = 0; i < 2; i++) free(sequence->request[i]);
    }
    free(c->sends);
    free(c->receives);
    free(c->sent);
    if (c->work) device_release(c->own->device, MEMORY_DEVICE, c->work, UCX_WORK_BYTES);
    free(c->ranks);
    free(c);
}

static status open_sequence(ucx_sequence *sequence, size_t size, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    TRY(alloc_zeroed(&sequence->sent, size, sizeof *sequence->sent, what, e));
    TRY(alloc_zeroed(&sequence->received, size, sizeof *sequence->received, what, e));
    TRY(alloc_zeroed(&sequence->to, size, sizeof *sequence->to, what, e));
    TRY(alloc_zeroed(&sequence->from, size, sizeof *sequence->from, what, e));
    for (int i = 0; i < 2; i++)
        TRY(alloc_zeroed(&sequence->request[i], 4 * size, sizeof **sequence->request, what, e));
done:
    return result;
}

// Opens the communicator of a group, whose members are `ranks` among all ranks.
static status member_open(ucx_rank *own, const comm_rendezvous *meeting, const int *ranks,
                          comm **out, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    const size_t size = (size_t)meeting->size;
    ucx_comm *c = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, what, e));
    c->base = (comm){
        .ops = &ucx_ops, .rank = meeting->rank, .size = meeting->size, .can = UCX_CAPABILITIES};
    c->own = own;
    c->meeting = *meeting;
    TRY(alloc_array(&c->ranks, size, sizeof *c->ranks, what, e));
    for (size_t r = 0; r < size; r++) c->ranks[r] = ranks ? ranks[r] : (int)r;
    for (int s = 0; s < UCX_SIDES; s++) TRY(open_sequence(&c->sequence[s], size, e));
    TRY(alloc_zeroed(&c->sends, size, sizeof *c->sends, what, e));
    TRY(alloc_zeroed(&c->receives, size, sizeof *c->receives, what, e));
    TRY(alloc_zeroed(&c->sent, size, sizeof *c->sent, what, e));
    if (size > 1) {
        void *work = NULL;
        TRY(device_alloc(own->device, MEMORY_DEVICE, UCX_WORK_BYTES, &work, e));
        c->work = work;
    }
    own->users++;
    *out = &c->base;
done:
    if (result != OK) free_member(c);
    return result;
}

static status ucx_split(comm *base, int color, int key, comm **out, err *e)
{
    status result = OK;
    ucx_comm *c = ucx_of(base);
    const int64_t deadline_ms = atomic_load(&c->own->world->watchdog->limit_ms);
    comm_members m = {0};
    comm_rendezvous meeting;
    char nothing = 0;
    *out = NULL;
    TRY(ucx_meet(base, UCX_SPLIT, e)); // a rank that does not come is named
    TRY(comm_rendezvous_split(&c->meeting, color, key, deadline_ms, &m, e));
    TRY(comm_rendezvous_join(&c->meeting, &m, &nothing, sizeof nothing, deadline_ms, &meeting, e));
    for (int r = 0; r < m.size; r++) m.ranks[r] = c->ranks[m.ranks[r]];
    TRY(member_open(c->own, &meeting, m.ranks, out, e));
done:
    free(m.ranks);
    return result;
}

// The streams of the rank have no work of c any more.
static void ucx_close(comm *base)
{
    ucx_comm *c = ucx_of(base);
    ucx_rank *own = c->own;
    free_member(c);
    ucx_rank_leave(own);
}

static const comm_ops ucx_ops = {
    .name = "ucx",
    .close = ucx_close,
    .alloc = ucx_alloc,
    .release = ucx_release,
    .all_reduce = ucx_all_reduce,
    .reduce_scatter = ucx_reduce_scatter,
    .all_gather = ucx_all_gather,
    .broadcast = ucx_broadcast,
    .send = ucx_send,
    .recv = ucx_recv,
    .send_wait = ucx_send_wait,
    .group_begin = ucx_group_begin,
    .group_end = ucx_group_end,
    .barrier = ucx_barrier,
    .gather_now = ucx_gather_now,
    .abort = ucx_abort,
    .split = ucx_split,
    .share = ucx_share,
};

status ucx_open(const comm_options *o, comm **out, err *e)
{
    status result = OK;
    int algorithm;
    ucx_rank *own = NULL;
    *out = NULL;
    if (!o->device->ops->call)
        FAIL(E_USAGE, "communicator ucx: device %s has memory that the host cannot address",
             o->device->ops->name);
    TRY(ucx_algorithm_named(getenv("TRIREME_ALGO"), &algorithm, e));
    const comm_rendezvous meeting = {
        .store = o->store, .failure = o->world->failure, .rank = o->rank, .size = o->size};
    TRY(ucx_rank_open(o, algorithm, &own, e));
    own->users++;
    TRY(member_open(own, &meeting, NULL, out, e));
    // A rank answers the connections of the others only while it waits here. The second turn is for answers that
    // are still queued: UCX aborts when it ends a worker with one.
    for (int turn = 0; turn < 2; turn++) {
        TRY(ucx_rank_connect(own, o->deadline_ms, e));
        TRY(ucx_meet(*out, UCX_BARRIER, e));
    }
done:
    if (result != OK && *out) {
        ucx_close(*out);
        *out = NULL;
    }
    if (own) ucx_rank_leave(own);
    return result;
}
