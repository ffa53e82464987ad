// local_message.c -- send and recv between two ranks of one machine: a ring of bytes per direction.
//
// Run by a stream through local.c. A message is a header and its bytes, which wait in the ring
// while they fit and flow through it when they do not. A message from memory of comm_alloc, and a
// long one between threads, is only a header, and the receiver copies it from where it lies; the
// sender waits for that with the latter only. Knows nothing of collectives.
#include "comm/local.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 64 << 10, EAGER_BYTES = 1 << 20, ALIGN = 16, ANNOUNCED = 64 };

typedef struct message {
    uint64_t bytes;
    const void *at; // NULL: the bytes follow in the ring
} message;
_Static_assert(sizeof(message) == ALIGN, "headers keep the ring aligned");
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "counters wrap at 2^32");
_Static_assert(RING_BYTES >= 2 * EAGER_BYTES, "an eager message fits behind small ones");

static channel *channel_between(const local *l, int from, int to)
{
    return &l->group->channels[(size_t)from * (size_t)l->base.size + (size_t)to];
}

// How much to move at once: no further than the ring's end.
static size_t piece(size_t left, uint32_t counter, uint32_t available)
{
    const size_t to_end = RING_BYTES - (counter & (RING_BYTES - 1));
    size_t now = left < PIECE_BYTES ? left : PIECE_BYTES;
    if (now > available) now = available;
    return now < to_end ? now : to_end;
}

// Both counters advance in steps of ALIGN, so room and content are multiples of it.
static uint32_t padded(size_t bytes)
{
    return (uint32_t)((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
}

// The other member of this call's channel; `sends`: this one writes to it.
static int other_end(const local *l, const channel *c, bool *sends)
{
    const ptrdiff_t at = c - l->group->channels;
    const int from = (int)(at / l->base.size), to = (int)(at % l->base.size);
    *sends = from == l->base.rank;
    return *sends ? to : from;
}

// Why a wait for the other end ended without what it waited for.
static status absent(const call *k, const channel *c, err *e)
{
    const local *l = k->comm;
    char to[64];
    bool sends;
    const int other = other_end(l, c, &sends), other_rank = l->group->world_rank[other];
    if (world_has_failed(l->world) || !atomic_load(&l->group->members[other].left) ||
        world_leaver_failed(l->world)) {
        snprintf(to, sizeof to, sends ? "recv from rank %d" : "send to rank %d", l->world_rank);
        return local_wait_error(k, other, to, e);
    }
    err why;
    memset(&why, 0, sizeof why);
    err_set(&why, E_INTERNAL, "rank %d left the group while rank %d waits %s", other_rank,
            l->world_rank, sends ? "for it to receive" : "to receive from it");
    world_fail(l->world, -1, &why); // which of the two is wrong, nobody can tell
    return err_set(e, E_INTERNAL, "%s", why.text);
}

// Waits while a number of the channel that the other end changes is `seen`.
static status wait_change(const call *k, const channel *c, doorbell *b, uint32_t seen, err *e)
{
    const local *l = k->comm;
    bool sends;
    const int other = other_end(l, c, &sends);
    return doorbell_wait(b, seen, &l->group->members[other].left, l->world) ? OK : absent(k, c, e);
}

// Waits until a counter that the other end advances is `target` or beyond.
static status wait_counter(const call *k, const channel *c, doorbell *b, uint32_t target, err *e)
{
    status result = OK;
    uint32_t now;
    while ((int32_t)((now = doorbell_read(b)) - target) < 0) TRY(wait_change(k, c, b, now, e));
done:
    return result;
}

static status ring_put(const call *k, channel *c, const void *data, size_t bytes, err *e)
{
    status result = OK;
    uint32_t written = doorbell_read(&c->written);
    for (size_t done = 0; done < bytes;) {
        const uint32_t taken = doorbell_read(&c->taken);
        const size_t now = piece(bytes - done, written, RING_BYTES - (written - taken));
        if (now == 0) {
            TRY(wait_change(k, c, &c->taken, taken, e));
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

static status ring_take(const call *k, channel *c, void *data, size_t bytes, err *e)
{
    status result = OK;
    uint32_t taken = doorbell_read(&c->taken);
    for (size_t done = 0; done < bytes;) {
        const uint32_t written = doorbell_read(&c->written);
        const size_t now = piece(bytes - done, taken, written - taken);
        if (now == 0) {
            TRY(wait_change(k, c, &c->written, written, e));
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

status local_run_send(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    channel *c = channel_between(l, l->base.rank, k->root);
    if (!c->ring) {
        void *ring = NULL;
        TRY(heap_take(l->world, RING_BYTES, false, &ring, e));
        c->ring = ring;
    }
    const bool stays = k->count > 0 && world_holds(l->world, k->in);
    const bool direct = stays || (k->count > EAGER_BYTES && world_sees(l->world, k->in));
    const message m = {k->count, direct ? k->in : NULL};
    if (direct) {
        TRY(wait_counter(k, c, &c->fetched, c->announced + 1 - ANNOUNCED, e));
        c->announced++;
    }
    TRY(ring_put(k, c, &m, sizeof m, e));
    if (!direct)
        TRY(ring_put(k, c, k->in, k->count, e));
    else if (!stays)
        TRY(wait_counter(k, c, &c->fetched, c->announced, e));
done:
    return result;
}

status local_run_send_wait(const call *k, err *e)
{
    channel *c = channel_between(k->comm, k->comm->base.rank, k->root);
    return wait_counter(k, c, &c->received, (uint32_t)k->count, e);
}

// Waits for the next message's header, and leaves it in the ring.
static status next_message(const call *k, channel *c, message *m, err *e)
{
    status result = OK;
    const uint32_t taken = doorbell_read(&c->taken);
    while (doorbell_read(&c->written) == taken) TRY(wait_change(k, c, &c->written, taken, e));
    memcpy(m, c->ring + (taken & (RING_BYTES - 1)), sizeof *m);
done:
    return result;
}

static status refuse_length(const call *k, const message *m, err *e)
{
    local *l = k->comm;
    const int from = l->group->world_rank[k->root];
    err why;
    memset(&why, 0, sizeof why);
    err_set(&why, E_INTERNAL, "rank %d sends %llu bytes while rank %d receives %zu", from,
            (unsigned long long)m->bytes, l->world_rank, k->count);
    world_fail(l->world, -1, &why); // which of the two is wrong, nobody can tell
    return err_set(e, E_INTERNAL, "%s", why.text);
}

status local_run_recv(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    channel *c = channel_between(l, k->root, l->base.rank);
    message m;
    TRY(next_message(k, c, &m, e));
    if (m.bytes != k->count) return refuse_length(k, &m, e);
    if (m.at) memcpy(k->out, m.at, k->count);
    doorbell_ring(&c->taken, doorbell_read(&c->taken) + (uint32_t)sizeof m);
    if (m.at)
        doorbell_ring(&c->fetched, doorbell_read(&c->fetched) + 1);
    else
        TRY(ring_take(k, c, k->out, k->count, e));
    doorbell_ring(&c->received, doorbell_read(&c->received) + 1);
done:
    return result;
}
