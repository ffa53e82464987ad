// network_collective.c -- the other collectives of communicators of network.h. Ranks exchange shards directly; a
// broadcast is a binomial tree, a barrier disseminates. Called on streams, and by hosts that meet.
#include "comm/network/network_private.h"

#include <string.h>

enum { LINE = 64 }; // pieces of a shard are whole elements of every type

static int rank_after(const network_call *x, int distance)
{
    return (x->comm->base.rank + distance) % x->comm->base.size;
}

// Begins to exchange `bytes` of each shard from `first` on. Those for this rank come in `room`.
static status exchange_shards(const network_call *x, size_t first, size_t bytes, char *room, err *e)
{
    status result = OK;
    const int rank = x->comm->base.rank, size = x->comm->base.size;
    const size_t shard = comm_call_bytes(&x->call);
    for (int r = 0; r < size; r++) {
        if (r == rank) continue;
        TRY(network_recv_part(x, r, room, bytes, e));
        room += bytes;
    }
    for (int k = 1; k < size; k++) {
        const int r = rank_after(x, k);
        TRY(network_send_part(x, r, (const char *)x->call.in + shard * (size_t)r + first, bytes,
                              e));
    }
done:
    return result;
}

static void reduce_shard(const network_call *x, size_t first, size_t bytes, char *room)
{
    const int rank = x->comm->base.rank, size = x->comm->base.size;
    const dtype t = x->call.type;
    const size_t element = dtype_bytes(t), shard = x->call.count * element;
    const void *from[REDUCE_SOURCES];
    void *to = (char *)x->call.out + first;
    for (int r = 0; r < size; r++) {
        from[r] = r == rank ? (const char *)x->call.in + shard * (size_t)rank + first : room;
        if (r != rank) room += bytes;
    }
    reduce_arrays(&to, 1, from, size, bytes / element, t, x->call.op);
}

// While a piece is reduced, the next one is exchanged. Each has half of the workspace.
static status run_reduce_scatter(const network_call *x, err *e)
{
    status result = OK;
    const size_t shard = comm_call_bytes(&x->call), half = NETWORK_WORK_BYTES / 2,
                 most = half / (size_t)x->comm->base.size / LINE * LINE,
                 pieces = shard ? (shard + most - 1) / most : 1;
    for (size_t k = 0; k <= pieces; k++) {
        const size_t begin = k * most, last = begin - most;
        char *work = x->comm->work;
        if (k < pieces)
            TRY(exchange_shards(x, begin, shard - begin < most ? shard - begin : most,
                                work + k % 2 * half, e));
        TRY(network_parts_turn(x, e));
        if (k > 0)
            reduce_shard(x, last, shard - last < most ? shard - last : most,
                         work + (k - 1) % 2 * half);
    }
    TRY(network_parts_end(x, e));
done:
    return result;
}

// Ranks exchange pieces, so that none sends much more than another one has asked for.
static status run_all_gather(const network_call *x, err *e)
{
    status result = OK;
    const int size = x->comm->base.size;
    const size_t shard = comm_call_bytes(&x->call),
                 most = NETWORK_WORK_BYTES / 2 / (size_t)size / LINE * LINE;
    char *out = x->call.out, *own = out + shard * (size_t)x->comm->base.rank;
    if (own != x->call.in && shard) memcpy(own, x->call.in, shard);
    for (size_t first = 0; first == 0 || first < shard; first += most) {
        const size_t bytes = shard - first < most ? shard - first : most;
        for (int k = 1; k < size; k++) {
            const int r = rank_after(x, k);
            TRY(network_recv_part(x, r, out + shard * (size_t)r + first, bytes, e));
            TRY(network_send_part(x, r, own + first, bytes, e));
        }
        TRY(network_parts_turn(x, e));
    }
    TRY(network_parts_end(x, e));
done:
    return result;
}

// A rank receives from the one without its lowest bit, counted from the root, and sends to those with a
// lower bit more.
static status run_broadcast(const network_call *x, err *e)
{
    status result = OK;
    const int size = x->comm->base.size, root = x->call.peer,
              own = (x->comm->base.rank + size - root) % size;
    const size_t bytes = comm_call_bytes(&x->call);
    int bit = 1;
    while (bit < size && !(own & bit)) bit *= 2;
    if (own > 0) {
        TRY(network_recv_part(x, (own - bit + root) % size, x->call.out, bytes, e));
        TRY(network_parts_end(x, e));
    }
    for (bit /= 2; bit > 0; bit /= 2)
        if (own + bit < size)
            TRY(network_send_part(x, (own + bit + root) % size, x->call.out, bytes, e));
    TRY(network_parts_end(x, e));
done:
    return result;
}

static status run_barrier(const network_call *x, err *e)
{
    status result = OK;
    const int size = x->comm->base.size;
    for (int distance = 1; distance < size; distance *= 2) {
        TRY(network_recv_part(x, rank_after(x, size - distance), NULL, 0, e));
        TRY(network_send_part(x, rank_after(x, distance), NULL, 0, e));
        TRY(network_parts_end(x, e));
    }
done:
    return result;
}

status network_run_collective(void *call, err *e)
{
    static status (*const run[CALL_KINDS])(const network_call *x, err *e) = {
        [CALL_BARRIER] = run_barrier,
        [CALL_SPLIT] = run_barrier,
        [CALL_SHARE] = run_barrier,
        [CALL_COMPARE] = run_all_gather,
        [CALL_ALL_REDUCE] = network_run_all_reduce,
        [CALL_REDUCE_SCATTER] = run_reduce_scatter,
        [CALL_ALL_GATHER] = run_all_gather,
        [CALL_BROADCAST] = run_broadcast,
    };
    const network_call *x = call;
    return network_run(x, run[x->call.kind], e);
}
