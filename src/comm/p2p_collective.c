// p2p_collective.c -- the collectives of the communicator p2p (p2p.h): hosts meet, streams meet, this
// rank's share of the work, streams meet again. Called through the table of comm.h.
//
//   all_reduce       each rank reduces its shard of all arrays, and writes it to all arrays
//   reduce_scatter   each rank reduces its shard of all arrays
//   all_gather       each rank copies the shards of the others
//   broadcast        each rank copies the array of the root
#include "comm/p2p_private.h"

#include "base/size.h"

// What a rank shows to the others when a call is issued.
typedef struct call_show {
    device_handle array;
} call_show;

// A collective under way.
typedef struct p2p_call {
    p2p_comm *comm;
    device_stream *on;
    void *array[P2P_RANKS]; // of each rank, at this rank's addresses
} p2p_call;

// All hosts come to the call, and learn the arrays of all ranks.
static status meet_hosts(p2p_call *x, comm_call *call, void *array, size_t bytes, err *e)
{
    status result = OK;
    p2p_comm *c = x->comm;
    comm_local *host = p2p_host(c);
    call_show show;
    TRY(p2p_check(c, e));
    TRY(p2p_export(c, array, bytes, &show.array, e));
    host->running = call;
    TRY(local_announce(call, NULL, &show, sizeof show, e));
    for (int r = 0; r < c->base.size; r++) {
        const call_show *s = (const void *)local_staging(host, r, host->round);
        x->array[r] = array;
        if (r != c->base.rank && bytes > 0) TRY(p2p_import(c, &s->array, &x->array[r], e));
    }
    atomic_fetch_add(&c->issued, 1);
done:
    return result;
}

// Begins a collective. `bytes` of `array` may be used by other ranks until end_call.
static status begin_call(p2p_call *x, comm *c, comm_call call, void *array, size_t bytes,
                         device_stream *on, err *e)
{
    status result = OK;
    const comm_call at = p2p_host_call(p2p_of(c), call.kind);
    call.local = at.local;
    call.what = at.what;
    *x = (p2p_call){.comm = p2p_of(c), .on = on};
    atomic_store(&x->comm->latest, comm_call_name(call.kind));
    TRY(meet_hosts(x, &call, array, bytes, e));
    p2p_meet_streams(x->comm, on, PHASE_BEGIN);
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
static kernel_call reduction(const p2p_call *x, size_t first, size_t count, dtype t, reduce_op op)
{
    kernel_call k = {
        .kind = K_REDUCE,
        .u.reduce = {.count = (int64_t)count, .ranks = x->comm->base.size, .type = t, .op = op}};
    for (int r = 0; r < x->comm->base.size; r++)
        k.u.reduce.in[r] = kernel_element(x->array[r], (int64_t)first, t);
    return k;
}

// Shards start at multiples of this many bytes, so that packs are aligned where the arrays are.
enum { SHARD_ALIGN = 128 };

status p2p_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                      device_stream *on, err *e)
{
    status result = OK;
    p2p_call x;
    const size_t size = (size_t)c->size;
    if (size == 1) return p2p_check(p2p_of(c), e);
    const comm_call call = {.kind = CALL_ALL_REDUCE, .type = t, .op = op, .count = count};
    TRY(begin_call(&x, c, call, inout, count * dtype_bytes(t), on, e));
    const size_t shard = size_align((count + size - 1) / size, SHARD_ALIGN / dtype_bytes(t)),
                 before = shard * (size_t)c->rank, first = before < count ? before : count,
                 mine = count - first < shard ? count - first : shard;
    kernel_call k = reduction(&x, first, mine, t, op);
    k.u.reduce.outs = c->size;
    for (int r = 0; r < c->size; r++) k.u.reduce.out[r] = (void *)(uintptr_t)k.u.reduce.in[r];
    if (mine > 0) device_launch(on, &k);
    end_call(&x);
done:
    return result;
}

status p2p_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                          comm_reduce_op op, device_stream *on, err *e)
{
    status result = OK;
    p2p_call x = {.comm = p2p_of(c), .on = on};
    const size_t bytes = shard_count * dtype_bytes(t);
    const comm_call call = {.kind = CALL_REDUCE_SCATTER, .type = t, .op = op, .count = shard_count};
    if (c->size == 1) {
        TRY(p2p_check(x.comm, e));
        copy(&x, out, in, bytes);
        return OK;
    }
    TRY(begin_call(&x, c, call, (void *)(uintptr_t)in, bytes * (size_t)c->size, on, e));
    kernel_call k = reduction(&x, shard_count * (size_t)c->rank, shard_count, t, op);
    k.u.reduce.outs = 1;
    k.u.reduce.out[0] = out;
    if (shard_count > 0) device_launch(on, &k);
    end_call(&x);
done:
    return result;
}

status p2p_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                      device_stream *on, err *e)
{
    status result = OK;
    p2p_call x = {.comm = p2p_of(c), .on = on};
    const size_t bytes = shard_count * dtype_bytes(t);
    const comm_call call = {.kind = CALL_ALL_GATHER, .type = t, .count = shard_count};
    if (c->size == 1) {
        TRY(p2p_check(x.comm, e));
        copy(&x, out, in, bytes);
        return OK;
    }
    TRY(begin_call(&x, c, call, (void *)(uintptr_t)in, bytes, on, e));
    // Each rank starts with the next one, so that not all read from the same.
    for (int i = 0; i < c->size; i++) {
        const int r = (c->rank + i) % c->size;
        copy(&x, (char *)out + bytes * (size_t)r, x.array[r], bytes);
    }
    end_call(&x);
done:
    return result;
}

status p2p_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e)
{
    status result = OK;
    p2p_call x;
    const comm_call call = {.kind = CALL_BROADCAST, .type = U8, .root = root, .count = bytes};
    if (c->size == 1) return p2p_check(p2p_of(c), e);
    TRY(begin_call(&x, c, call, inout, bytes, on, e));
    copy(&x, inout, x.array[root], bytes);
    end_call(&x);
done:
    return result;
}
