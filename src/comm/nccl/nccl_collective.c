// nccl_collective.c -- the collectives of the communicator nccl (nccl.h). Copies are calls of the library. Sums are,
// too, where any order is allowed; else ranks exchange parts through the workspace, piece by piece:
//
//   reduce_scatter   each rank receives its shard of all arrays, and adds them (nccl_tree.c)
//   all_reduce       the same; then each rank sends its shard of the sum to all others
//
// Called through the table of comm.h.
#include "comm/nccl/nccl_private.h"

#include "base/size.h"

// A sum under way.
typedef struct nccl_sum {
    nccl_comm *comm;
    device_stream *on;
    const char *in; // [ranks] shards
    size_t count;   // elements of all shards
    size_t shard;   // of each; the last ones may have fewer
    dtype type;
    reduce_op op;
    char *work; // the part of the stream's kind
    int messages;
    device_message message[2 * NCCL_RANKS];
} nccl_sum;

// ---- What the watcher sees

void nccl_begin(nccl_comm *c, const char *name, device_stream *on)
{
    device_flag *f = &c->begun[on->kind];
    atomic_store(&c->latest, name);
    atomic_fetch_add(&c->issued, 1);
    c->own->device->ops->sharing->set_flags(on, &f, 1);
}

void nccl_end(nccl_comm *c, device_stream *on)
{
    device_flag *f = &c->begun[on->kind];
    c->own->device->ops->sharing->wait_flags(on, &f, 1);
}

// ---- Calls of the library

// Between the two marks of the watcher.
static status run(nccl_comm *c, const comm_call *call, nccl_library_call library, dtype t,
                  size_t count, device_stream *on, err *e)
{
    status result = OK;
    const device_collective x = {.in = call->in,
                                 .out = call->out,
                                 .count = count,
                                 .type = t,
                                 .op = call->op,
                                 .root = call->peer};
    nccl_begin(c, comm_call_row_of(call->kind)->name, on);
    TRY(nccl_call(c, library, &x, on, e));
    nccl_end(c, on);
done:
    return result;
}

static status all_gather(nccl_comm *c, const comm_call *call, device_stream *on, err *e)
{
    return run(c, call, c->own->library->all_gather, U8, comm_call_bytes(call), on, e);
}

static status broadcast(nccl_comm *c, const comm_call *call, device_stream *on, err *e)
{
    return run(c, call, c->own->library->broadcast, U8, comm_call_bytes(call), on, e);
}

// ---- Sums in the order of the tree

static size_t shard_count(const nccl_sum *s, int rank)
{
    const size_t before = s->shard * (size_t)rank;
    if (before >= s->count) return 0;
    return s->count - before < s->shard ? s->count - before : s->shard;
}

static const char *element(const nccl_sum *s, int rank, size_t first)
{
    return s->in + (s->shard * (size_t)rank + first) * dtype_bytes(s->type);
}

// Adds a message of `count` elements to the next exchange; of none where there are none.
static void add(nccl_sum *s, int peer, const void *buf, size_t count, bool receives)
{
    if (count == 0) return;
    s->message[s->messages++] = (device_message){.buf = (void *)(uintptr_t)buf,
                                                 .bytes = count * dtype_bytes(s->type),
                                                 .peer = peer,
                                                 .receives = receives};
}

static status exchange(nccl_sum *s, err *e)
{
    const int messages = s->messages;
    s->messages = 0;
    return messages ? nccl_exchange(s->comm, s->message, messages, s->on, e) : OK;
}

// Of a shard of `all` elements, those of the piece from `first` on.
static size_t piece_of(size_t all, size_t first, size_t most)
{
    return all <= first ? 0 : all - first < most ? all - first : most;
}

// out [this rank's shard] = the sum of this rank's shards of all arrays.
static status sum_shard(nccl_sum *s, char *out, err *e)
{
    status result = OK;
    const int size = s->comm->base.size, rank = s->comm->base.rank;
    const size_t most = nccl_tree_room(NCCL_PART_BYTES, size, s->type);
    for (size_t first = 0; first < s->shard; first += most) {
        const size_t mine = piece_of(shard_count(s, rank), first, most);
        const void *in[NCCL_RANKS];
        for (int k = 1; k < size; k++) {
            const int to = (rank + k) % size, from = (rank + size - k) % size;
            void *place = nccl_tree_place(s->work, NCCL_PART_BYTES, size, s->type, from);
            add(s, to, element(s, to, first), piece_of(shard_count(s, to), first, most), false);
            add(s, from, place, mine, true);
            in[from] = place;
        }
        in[rank] = element(s, rank, first);
        TRY(exchange(s, e));
        nccl_tree_reduce(s->on, in, size, rank, out + first * dtype_bytes(s->type), s->work,
                         NCCL_PART_BYTES, mine, s->type, s->op);
    }
done:
    return result;
}

// Each rank sends its shard to all others.
static status spread(nccl_sum *s, err *e)
{
    const int size = s->comm->base.size, rank = s->comm->base.rank;
    for (int k = 1; k < size; k++) {
        const int to = (rank + k) % size, from = (rank + size - k) % size;
        add(s, to, element(s, rank, 0), shard_count(s, rank), false);
        add(s, from, element(s, from, 0), shard_count(s, from), true);
    }
    return exchange(s, e);
}

static nccl_sum sum_of(nccl_comm *c, const comm_call *call, size_t count, size_t shard,
                       device_stream *on)
{
    return (nccl_sum){.comm = c,
                      .on = on,
                      .in = call->in,
                      .count = count,
                      .shard = shard,
                      .type = call->type,
                      .op = call->op,
                      .work = c->work + (size_t)on->kind * NCCL_PART_BYTES};
}

// Shards start at multiples of this many bytes, so that packs are aligned where the arrays are.
enum { SHARD_ALIGN = 128 };

static status all_reduce(nccl_comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    const size_t size = (size_t)c->base.size, count = call->count;
    if (c->own->any_order)
        return run(c, call, c->own->library->all_reduce, call->type, count, on, e);
    const size_t shard =
        size_align((count + size - 1) / size, SHARD_ALIGN / dtype_bytes(call->type));
    nccl_sum s = sum_of(c, call, count, shard, on);
    nccl_begin(c, "all_reduce", on);
    TRY(sum_shard(&s, (char *)(uintptr_t)element(&s, c->base.rank, 0), e));
    TRY(spread(&s, e));
    nccl_end(c, on);
done:
    return result;
}

static status reduce_scatter(nccl_comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    const size_t count = call->count;
    if (c->own->any_order)
        return run(c, call, c->own->library->reduce_scatter, call->type, count, on, e);
    nccl_sum s = sum_of(c, call, count * (size_t)c->base.size, count, on);
    nccl_begin(c, "reduce_scatter", on);
    TRY(sum_shard(&s, call->out, e));
    nccl_end(c, on);
done:
    return result;
}

status nccl_run_collective(nccl_comm *c, const comm_call *call, device_stream *on, err *e)
{
    static status (*const run_kind[CALL_KINDS])(nccl_comm * c, const comm_call *call,
                                                device_stream *on, err *e) = {
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_BROADCAST] = broadcast,
    };
    status result = OK;
    TRY(nccl_check(c, e));
    if (call->count == 0) return OK;
    if (c->base.size > 1)
        TRY(run_kind[call->kind](c, call, on, e));
    else if (call->in != call->out)
        on->device->ops->copy(on, call->out, call->in, comm_call_bytes(call));
done:
    return result;
}
