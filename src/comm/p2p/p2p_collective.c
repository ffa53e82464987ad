// p2p_collective.c -- the collectives of the communicator p2p (p2p.h): hosts meet, streams meet, this
// rank's share of the work, streams meet again. Called through the table of comm.h.
//
//   all_reduce       each rank reduces its shard of all arrays, and writes it to all arrays
//   reduce_scatter   each rank reduces its shard of all arrays
//   all_gather       each rank copies the shards of the others
//   broadcast        each rank copies the array of the root
#include "comm/p2p/p2p_private.h"

#include "base/size.h"

// A collective under way.
typedef struct p2p_call {
    p2p_comm *comm;
    const comm_call *call;
    device_stream *on;
    void *array[P2P_RANKS]; // of each rank, at this rank's addresses
} p2p_call;

// All hosts come to the call, and learn the arrays of all ranks.
static status meet_hosts(p2p_call *x, void *array, size_t bytes, err *e)
{
    status result = OK;
    const p2p_comm *c = x->comm;
    comm_local *host = p2p_host(c);
    const local_call call = p2p_host_call(c, x->call);
    device_handle shown;
    TRY(p2p_export(c, array, bytes, &shown, e));
    host->running = &call;
    TRY(local_announce(host, NULL, &shown, sizeof shown, e));
    for (int r = 0; r < c->base.size; r++) {
        const device_handle *h = (const void *)local_staging(host, r, host->round);
        x->array[r] = array;
        if (r != c->base.rank && bytes > 0) TRY(p2p_import(c, h, &x->array[r], e));
    }
done:
    return result;
}

// Hosts meet, and then streams. `bytes` of `array` may be used by other ranks until end_call.
static status begin_call(p2p_call *x, const void *array, size_t bytes, err *e)
{
    status result = OK;
    TRY(meet_hosts(x, (void *)(uintptr_t)array, bytes, e));
    atomic_fetch_add(&x->comm->issued, 1);
    p2p_meet_streams(x->comm, x->on, PHASE_BEGIN);
done:
    return result;
}

static void end_call(const p2p_call *x)
{
    p2p_meet_streams(x->comm, x->on, PHASE_END);
}

static void copy(const p2p_call *x, void *to, const void *from, size_t bytes)
{
    if (to != from && bytes > 0) x->on->device->ops->copy(x->on, to, from, bytes);
}

// Reduces `count` elements from `first` on of all arrays.
static kernel_call reduction(const p2p_call *x, size_t first, size_t count)
{
    const dtype t = x->call->type;
    kernel_call k = {
        .kind = K_REDUCE,
        .u.reduce = {
            .count = (int64_t)count, .ranks = x->comm->base.size, .type = t, .op = x->call->op}};
    for (int r = 0; r < x->comm->base.size; r++)
        k.u.reduce.in[r] = kernel_element(x->array[r], (int64_t)first, t);
    return k;
}

// Shards start at multiples of this many bytes, so that packs are aligned where the arrays are.
enum { SHARD_ALIGN = 128 };

static status all_reduce(p2p_call *x, err *e)
{
    status result = OK;
    const comm *c = &x->comm->base;
    const comm_call *call = x->call;
    const size_t size = (size_t)c->size, count = call->count;
    TRY(begin_call(x, call->out, comm_call_bytes(call), e));
    const size_t shard =
                     size_align((count + size - 1) / size, SHARD_ALIGN / dtype_bytes(call->type)),
                 before = shard * (size_t)c->rank, first = before < count ? before : count,
                 mine = count - first < shard ? count - first : shard;
    kernel_call k = reduction(x, first, mine);
    k.u.reduce.outs = c->size;
    for (int r = 0; r < c->size; r++) k.u.reduce.out[r] = (void *)(uintptr_t)k.u.reduce.in[r];
    if (mine > 0) device_launch(x->on, &k);
    end_call(x);
done:
    return result;
}

static status reduce_scatter(p2p_call *x, err *e)
{
    status result = OK;
    const comm *c = &x->comm->base;
    const comm_call *call = x->call;
    TRY(begin_call(x, call->in, comm_call_bytes(call) * (size_t)c->size, e));
    kernel_call k = reduction(x, call->count * (size_t)c->rank, call->count);
    k.u.reduce.outs = 1;
    k.u.reduce.out[0] = call->out;
    if (call->count > 0) device_launch(x->on, &k);
    end_call(x);
done:
    return result;
}

// Each rank starts with the next one, so that not all read from the same.
static status all_gather(p2p_call *x, err *e)
{
    status result = OK;
    const comm *c = &x->comm->base;
    const size_t bytes = comm_call_bytes(x->call);
    TRY(begin_call(x, x->call->in, bytes, e));
    for (int i = 0; i < c->size; i++) {
        const int r = (c->rank + i) % c->size;
        copy(x, (char *)x->call->out + bytes * (size_t)r, x->array[r], bytes);
    }
    end_call(x);
done:
    return result;
}

static status broadcast(p2p_call *x, err *e)
{
    status result = OK;
    const size_t bytes = comm_call_bytes(x->call);
    TRY(begin_call(x, x->call->out, bytes, e));
    copy(x, x->call->out, x->array[x->call->peer], bytes);
    end_call(x);
done:
    return result;
}

status p2p_run_collective(p2p_comm *c, const comm_call *call, device_stream *on, err *e)
{
    static status (*const run[CALL_KINDS])(p2p_call * x, err * e) = {
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_BROADCAST] = broadcast,
    };
    status result = OK;
    p2p_call x = {.comm = c, .call = call, .on = on};
    TRY(p2p_check(c, e));
    if (c->base.size == 1) {
        copy(&x, call->out, call->in, comm_call_bytes(call));
        return OK;
    }
    atomic_store(&c->latest, comm_call_row_of(call->kind)->name);
    TRY(run[call->kind](&x, e));
done:
    return result;
}
