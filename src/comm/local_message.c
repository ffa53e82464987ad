// local_message.c -- send and recv between two ranks of one machine: a ring of bytes per direction.
//
// Run by a stream through local.c. A message is a header and its bytes, which wait in the ring
// while they fit and flow through it when they do not; a long message from memory that both ranks
// see is only a header, and the receiver copies it from where it lies. Knows nothing of
// collectives.
#include "comm/local.h"

#include <string.h>

enum { PIECE_BYTES = 64 << 10, EAGER_BYTES = 1 << 20, ALIGN = 16 };

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

// The other end of this call's channel did not come.
static status absent(const local *l, const channel *c, err *e)
{
    const group *g = l->group;
    const ptrdiff_t at = c - g->channels;
    const int from = (int)(at / g->size), to = (int)(at % g->size);
    return world_wait_error(l->world, g->world_rank[from == l->base.rank ? to : from],
                            "its end of a message", e);
}

static status ring_put(local *l, channel *c, const void *data, size_t bytes, err *e)
{
    uint32_t written = bell_read(&c->written);
    for (size_t done = 0; done < bytes;) {
        const uint32_t taken = bell_read(&c->taken);
        const size_t now = piece(bytes - done, written, RING_BYTES - (written - taken));
        if (now == 0) {
            if (!bell_wait(&c->taken, taken, l->world)) return absent(l, c, e);
            continue;
        }
        memcpy(c->ring + (written & (RING_BYTES - 1)), (const char *)data + done, now);
        done += now;
        written += padded(now);
        bell_ring(&c->written, written);
    }
    return OK;
}

static status ring_take(local *l, channel *c, void *data, size_t bytes, err *e)
{
    uint32_t taken = bell_read(&c->taken);
    for (size_t done = 0; done < bytes;) {
        const uint32_t written = bell_read(&c->written);
        const size_t now = piece(bytes - done, taken, written - taken);
        if (now == 0) {
            if (!bell_wait(&c->written, written, l->world)) return absent(l, c, e);
            continue;
        }
        memcpy((char *)data + done, c->ring + (taken & (RING_BYTES - 1)), now);
        done += now;
        taken += padded(now);
        bell_ring(&c->taken, taken);
    }
    return OK;
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
    const bool direct = k->count > EAGER_BYTES && world_sees(l->world, k->in);
    const message m = {k->count, direct ? k->in : NULL};
    TRY(ring_put(l, c, &m, sizeof m, e));
    if (direct) {
        // The receiver takes the header only after it has copied the bytes.
        if (!bell_wait_for(&c->taken, bell_read(&c->written), l->world)) result = absent(l, c, e);
    } else {
        TRY(ring_put(l, c, k->in, k->count, e));
    }
done:
    return result;
}

// Waits for the next message's header, and leaves it in the ring.
static status next_message(local *l, channel *c, message *m, err *e)
{
    const uint32_t taken = bell_read(&c->taken);
    while (bell_read(&c->written) == taken)
        if (!bell_wait(&c->written, taken, l->world)) return absent(l, c, e);
    memcpy(m, c->ring + (taken & (RING_BYTES - 1)), sizeof *m);
    return OK;
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
    TRY(next_message(l, c, &m, e));
    if (m.bytes != k->count) return refuse_length(k, &m, e);
    if (m.at) memcpy(k->out, m.at, k->count);
    bell_ring(&c->taken, bell_read(&c->taken) + (uint32_t)sizeof m);
    if (!m.at) TRY(ring_take(l, c, k->out, k->count, e));
done:
    return result;
}
