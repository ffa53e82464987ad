// local_message.c -- send and recv between two ranks of one machine, over a channel per direction.
//
// A stream runs them through local.c. A message is a header and its bytes. The ring of the channel
// buffers the bytes if they fit; longer ones pass through it in pieces. Two kinds of message are
// only announced: the ring holds the header, and the receiver copies the bytes from the sender's
// buffer.
//   from memory of comm_alloc     the sender does not wait
//   a long one between threads    the sender waits until the bytes are copied
// It does not know collectives.
#include "comm/local/local.h"

#include "base/clock.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 64 << 10, EAGER_BYTES = 1 << 20, ALIGN = 16, ANNOUNCED = 64 };

typedef struct local_header {
    uint64_t bytes;
    const void *ptr; // the announced bytes; NULL: the bytes follow in the ring
} local_header;
_Static_assert(sizeof(local_header) == ALIGN, "headers keep the ring aligned");
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "counters wrap at 2^32");
_Static_assert(RING_BYTES >= 2 * EAGER_BYTES, "an eager message fits behind small ones");

static comm_channel *channel_between(const comm_local *local, int from, int to)
{
    return &local->group->channels[(size_t)from * (size_t)local->base.size + (size_t)to];
}

// The number of bytes to copy at once: at most up to the ring's end.
static size_t piece(size_t left, uint32_t counter, uint32_t available)
{
    const size_t to_end = RING_BYTES - (counter & (RING_BYTES - 1));
    size_t now = left < PIECE_BYTES ? left : PIECE_BYTES;
    if (now > available) now = available;
    return now < to_end ? now : to_end;
}

// Both counters advance in steps of ALIGN, so free and used space are multiples of it.
static uint32_t padded(size_t bytes)
{
    return (uint32_t)size_align(bytes, ALIGN);
}

// The other member of the channel. *sends says whether this rank is the sender.
static int other_end(const comm_local *local, const comm_channel *c, bool *sends)
{
    const ptrdiff_t index = c - local->group->channels;
    const int from = (int)(index / local->base.size), to = (int)(index % local->base.size);
    *sends = from == local->base.rank;
    return *sends ? to : from;
}

// The error of a wait for the other end that ended without its event.
static status absent_error(const local_wait *w, bool sends, err *e)
{
    const comm_local *local = w->call->local;
    if (local_has_failed(local) || !atomic_load(&local->group->members[w->awaited].left) ||
        comm_failure_await(local->world->failure))
        return local_wait_error(w, e);
    err why;
    memset(&why, 0, sizeof why);
    err_set(&why, E_INTERNAL, "rank %d left the group while rank %d waits %s",
            local_rank_of(local, w->awaited), local_rank_of(local, local->base.rank),
            sends ? "for it to receive" : "to receive from it");
    comm_failure_set(local->world->failure, -1, &why); // -1: either of the two may be wrong
    return err_set(e, E_INTERNAL, "%s", why.text);
}

// Waits while a doorbell of the channel, which the other end rings, is `seen`.
static status wait_change(const local_call *x, const comm_channel *c, doorbell *b, uint32_t seen,
                          err *e)
{
    const comm_local *local = x->local;
    char to[32];
    bool sends;
    if (doorbell_read(b) != seen) return OK;
    const local_wait w = {x, other_end(local, c, &sends), to};
    const doorbell_limits limits = local_limits(&w);
    const int64_t start = x->call.visit ? clock_ns() : 0;
    snprintf(to, sizeof to, sends ? "recv from rank %d" : "send to rank %d",
             local_rank_of(local, local->base.rank));
    if (!doorbell_wait(b, seen, &local->group->members[w.awaited].left, &limits))
        return absent_error(&w, sends, e);
    if (x->call.visit)
        comm_visit_add(x->call.visit, clock_ns() - start,
                       local->members ? local->members[w.awaited] : w.awaited);
    return OK;
}

// Waits until a counter that the other end advances is `target` or beyond.
static status wait_counter(const local_call *x, const comm_channel *c, doorbell *b, uint32_t target,
                           err *e)
{
    status result = OK;
    uint32_t now;
    while ((int32_t)((now = doorbell_read(b)) - target) < 0) TRY(wait_change(x, c, b, now, e));
done:
    return result;
}

static status ring_put(const local_call *x, comm_channel *c, const void *data, size_t bytes, err *e)
{
    status result = OK;
    uint32_t written = doorbell_read(&c->written);
    for (size_t done = 0; done < bytes;) {
        const uint32_t taken = doorbell_read(&c->taken);
        const size_t now = piece(bytes - done, written, RING_BYTES - (written - taken));
        if (now == 0) {
            TRY(wait_change(x, c, &c->taken, taken, e));
            continue;
        }
        memcpy(c->ring + (written & (RING_BYTES - 1)), (const char *)data + done, now);
        done += now;
        written += padded(now);
        doorbell_ring(&c->written, written);
    }
done:
    return result;
}

static status ring_take(const local_call *x, comm_channel *c, void *data, size_t bytes, err *e)
{
    status result = OK;
    uint32_t taken = doorbell_read(&c->taken);
    for (size_t done = 0; done < bytes;) {
        const uint32_t written = doorbell_read(&c->written);
        const size_t now = piece(bytes - done, taken, written - taken);
        if (now == 0) {
            TRY(wait_change(x, c, &c->written, written, e));
            continue;
        }
        memcpy((char *)data + done, c->ring + (taken & (RING_BYTES - 1)), now);
        done += now;
        taken += padded(now);
        doorbell_ring(&c->taken, taken);
    }
done:
    return result;
}

status local_run_send(const local_call *x, err *e)
{
    status result = OK;
    comm_local *local = x->local;
    comm_channel *c = channel_between(local, local->base.rank, x->call.peer);
    if (!c->ring) {
        void *ring = NULL;
        TRY(comm_arena_take(local->world->arena, RING_BYTES, false, &ring, e));
        c->ring = ring;
        atomic_fetch_add(&local->group->members[local->base.rank].rings, 1);
    }
    const size_t bytes = comm_call_bytes(&x->call);
    const bool stays = bytes > 0 && local_holds(local, x->call.in);
    const bool direct = stays || (bytes > EAGER_BYTES && local_sees(local, x->call.in));
    const local_header m = {bytes, direct ? x->call.in : NULL};
    if (direct) {
        TRY(wait_counter(x, c, &c->fetched, c->announced + 1 - ANNOUNCED, e));
        c->announced++;
    }
    TRY(ring_put(x, c, &m, sizeof m, e));
    if (!direct)
        TRY(ring_put(x, c, x->call.in, bytes, e));
    else if (!stays)
        TRY(wait_counter(x, c, &c->fetched, c->announced, e));
done:
    return result;
}

status local_run_send_wait(const local_call *x, err *e)
{
    comm_channel *c = channel_between(x->local, x->local->base.rank, x->call.peer);
    return wait_counter(x, c, &c->received, (uint32_t)x->call.count, e);
}

// Waits for the header of the next message and copies it. It stays in the ring.
static status next_message(const local_call *x, comm_channel *c, local_header *m, err *e)
{
    status result = OK;
    const uint32_t taken = doorbell_read(&c->taken);
    while (doorbell_read(&c->written) == taken) TRY(wait_change(x, c, &c->written, taken, e));
    memcpy(m, c->ring + (taken & (RING_BYTES - 1)), sizeof *m);
done:
    return result;
}

static status refuse_length(const local_call *x, const local_header *m, err *e)
{
    comm_local *local = x->local;
    const int from = local_rank_of(local, x->call.peer);
    err why;
    memset(&why, 0, sizeof why);
    err_set(&why, E_INTERNAL, "rank %d sends %llu bytes while rank %d receives %zu", from,
            (unsigned long long)m->bytes, local_rank_of(local, local->base.rank),
            comm_call_bytes(&x->call));
    comm_failure_set(local->world->failure, -1, &why); // -1: either of the two may be wrong
    return err_set(e, E_INTERNAL, "%s", why.text);
}

status local_run_recv(const local_call *x, err *e)
{
    status result = OK;
    comm_local *local = x->local;
    comm_channel *c = channel_between(local, x->call.peer, local->base.rank);
    const size_t bytes = comm_call_bytes(&x->call);
    local_header m;
    TRY(next_message(x, c, &m, e));
    if (m.bytes != bytes) return refuse_length(x, &m, e);
    if (m.ptr) memcpy(x->call.out, m.ptr, bytes);
    doorbell_ring(&c->taken, doorbell_read(&c->taken) + (uint32_t)sizeof m);
    if (m.ptr)
        doorbell_ring(&c->fetched, doorbell_read(&c->fetched) + 1);
    else
        TRY(ring_take(x, c, x->call.out, bytes, e));
    doorbell_ring(&c->received, doorbell_read(&c->received) + 1);
done:
    return result;
}
