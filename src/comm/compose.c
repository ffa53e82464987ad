// compose.c -- makes collectives of messages. See compose.h. Called by comm.c.
#include "comm/compose.h"

#include "comm/comm_private.h"

#include <string.h>

// Messages that will start together.
typedef struct batch {
    comm *comm;
    const comm_call *call;
    device_stream *on;
    int count;
    comm_message message[COMPOSE_MESSAGES];
} batch;

static status start(batch *b, err *e)
{
    const int count = b->count;
    b->count = 0;
    return count ? comm_start_messages(b->message, count, b->on, e) : OK;
}

// Adds the message between this rank and `peer`, from or to `elements` elements at `array`.
static void add(batch *b, comm_call_kind kind, int peer, const char *array, size_t elements)
{
    b->message[b->count++] = (comm_message){b->comm,
                                            {.kind = kind,
                                             .type = U8,
                                             .peer = peer,
                                             .count = elements * dtype_bytes(b->call->type),
                                             .in = array,
                                             .out = (void *)(uintptr_t)array,
                                             .visit = b->call->visit}};
}

static void copy_own(const batch *b, char *out, const char *in, size_t elements)
{
    const size_t bytes = elements * dtype_bytes(b->call->type);
    if (out != in && bytes) b->on->device->ops->copy(b->on, out, in, bytes);
}

// The call has passed when its arrays may be used again.
static status end(batch *b, err *e)
{
    status result = OK;
    TRY(start(b, e));
    for (int r = 0; r < b->comm->size && !b->comm->can.sends_wait; r++)
        if (b->comm->sent[r]) TRY(b->comm->ops->send_wait(b->comm, r, b->comm->sent[r], b->on, e));
done:
    return result;
}

static size_t count_of(const comm_call *call, const size_t *counts, int rank)
{
    return counts ? counts[rank] : call->count;
}

// Elements before those of a rank.
static size_t elements_before(const comm_call *call, const size_t *counts, int rank)
{
    size_t elements = 0;
    if (!counts) return call->count * (size_t)rank;
    for (int r = 0; r < rank; r++) elements += counts[r];
    return elements;
}

// In round k a rank exchanges with the rank that makes the sum k with it, so all pairs meet once and no rank waits for
// two. Of two ranks the lower one sends first, because a send of a long message may wait for its receiver. Nothing is
// sent where the counts of a pair are 0.
status compose_all_to_all(comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    batch b = {.comm = c, .call = call, .on = on};
    const size_t element = dtype_bytes(call->type);
    for (int k = 0; k < c->size; k++) {
        const int peer = (k - c->rank + c->size) % c->size;
        const char *in =
            (const char *)call->in + elements_before(call, call->in_counts, peer) * element;
        char *out = (char *)call->out + elements_before(call, call->out_counts, peer) * element;
        const size_t sends = count_of(call, call->in_counts, peer),
                     receives = count_of(call, call->out_counts, peer);
        if (k % (COMPOSE_ROUNDS) == 0) TRY(start(&b, e));
        if (peer == c->rank) copy_own(&b, out, in, sends);
        if (peer > c->rank && sends) add(&b, CALL_SEND, peer, in, sends);
        if (peer != c->rank && receives) add(&b, CALL_RECV, peer, out, receives);
        if (peer < c->rank && sends) add(&b, CALL_SEND, peer, in, sends);
    }
    TRY(end(&b, e));
done:
    return result;
}

// The root receives a shard of every other rank, or sends one to it.
static status exchange_with_root(comm *c, const comm_call *call, bool gathers, device_stream *on,
                                 err *e)
{
    status result = OK;
    batch b = {.comm = c, .call = call, .on = on};
    const size_t bytes = call->count * dtype_bytes(call->type);
    const char *all = gathers ? call->out : call->in, *own = gathers ? call->in : call->out;
    if (c->rank != call->peer)
        add(&b, gathers ? CALL_SEND : CALL_RECV, call->peer, own, call->count);
    for (int r = 0; c->rank == call->peer && r < c->size; r++) {
        const char *shard = all + bytes * (size_t)r;
        if (b.count == COMPOSE_MESSAGES) TRY(start(&b, e));
        if (r == c->rank)
            copy_own(&b, (char *)(uintptr_t)(gathers ? shard : own), gathers ? own : shard,
                     call->count);
        else
            add(&b, gathers ? CALL_RECV : CALL_SEND, r, shard, call->count);
    }
    TRY(end(&b, e));
done:
    return result;
}

status compose_gather(comm *c, const comm_call *call, device_stream *on, err *e)
{
    return exchange_with_root(c, call, true, on, e);
}

status compose_scatter(comm *c, const comm_call *call, device_stream *on, err *e)
{
    return exchange_with_root(c, call, false, on, e);
}
