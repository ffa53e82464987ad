// hier_message.c -- the messages of the communicator hier: by local between ranks of one host, else by the network. A
// send waits for its receive inside of a host, too, as hier says of all its sends (capability sends_wait): a caller
// overwrites what it sent when the stream has passed. In a group, all sends begin before anything waits: a send inside
// of a host from memory that is not of comm_alloc is then copied to the arena, and receives inside of hosts are issued
// at the end. Called through the table of comm.h.
#include "comm/hier_private.h"

#include <string.h>

// ---- Copies of what is sent in a group

typedef struct send_copy {
    hier_rank *own;
    const void *from;
    void *copy;
    size_t bytes;
} send_copy;

static status run_copy(void *arg, err *e)
{
    const send_copy *x = arg;
    (void)e;
    memcpy(x->copy, x->from, x->bytes);
    return OK;
}

static status run_give(void *arg, err *e)
{
    const send_copy *x = arg;
    (void)e;
    comm_arena_give(x->own->world->arena, x->copy);
    return OK;
}

static status full_group(err *e)
{
    return err_set(e, E_INTERNAL, "more than %d messages start together", HIER_LATER);
}

// A send of a group. It ends with the group.
static status send_later(hier_comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                         err *e)
{
    status result = OK;
    hier_rank *own = c->own;
    void *copy = NULL;
    if (own->laters == HIER_LATER) return full_group(e);
    if (!comm_arena_holds(own->world->arena, buf)) {
        TRY(comm_arena_take(own->world->arena, bytes, false, &copy, e));
        const send_copy x = {.from = buf, .copy = copy, .bytes = bytes};
        on->device->ops->call(on, run_copy, &x, sizeof x);
    }
    TRY(comm_send(c->near, copy ? copy : buf, bytes, c->place[peer], on, e));
    own->later[own->laters++] = (hier_later){.near = c->near,
                                             .peer = c->place[peer],
                                             .on = on,
                                             .messages = c->sends[peer],
                                             .copy = copy};
done:
    return result;
}

// ---- The table

static bool is_near(const hier_comm *c, int peer)
{
    return c->place[peer] >= 0;
}

status hier_send(comm *base, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    hier_comm *c = hier_of(base);
    TRY(hier_check(c, e));
    c->sends[peer]++;
    if (!is_near(c, peer)) return comm_send(c->all, buf, bytes, peer, on, e);
    if (bytes > 0 && c->own->grouped) return send_later(c, buf, bytes, peer, on, e);
    TRY(comm_send(c->near, buf, bytes, c->place[peer], on, e));
    if (bytes > 0) TRY(comm_send_wait(c->near, c->place[peer], c->sends[peer], on, e));
done:
    return result;
}

status hier_recv(comm *base, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    hier_comm *c = hier_of(base);
    hier_rank *own = c->own;
    TRY(hier_check(c, e));
    if (!is_near(c, peer)) return comm_recv(c->all, buf, bytes, peer, on, e);
    if (!own->grouped) return comm_recv(c->near, buf, bytes, c->place[peer], on, e);
    if (own->laters == HIER_LATER) return full_group(e);
    own->later[own->laters++] = (hier_later){.near = c->near,
                                             .peer = c->place[peer],
                                             .on = on,
                                             .receives = true,
                                             .buffer = buf,
                                             .bytes = bytes};
done:
    return result;
}

status hier_send_wait(comm *base, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    hier_comm *c = hier_of(base);
    TRY(hier_check(c, e));
    if (is_near(c, peer))
        TRY(comm_send_wait(c->near, c->place[peer], messages, on, e));
    else
        TRY(comm_send_wait(c->all, peer, messages, on, e));
done:
    return result;
}

status hier_group_begin(comm *c, err *e)
{
    hier_rank *own = hier_of(c)->own;
    if (own->grouped) return err_set(e, E_INTERNAL, "a group of messages is open");
    own->grouped = true;
    return own->root ? comm_group_begin(own->root, e) : OK;
}

// The receives, and then the ends of sends.
static status issue_laters(hier_rank *own, err *e)
{
    status result = OK;
    for (int i = 0; i < own->laters; i++) {
        const hier_later *l = &own->later[i];
        if (l->receives) TRY(comm_recv(l->near, l->buffer, l->bytes, l->peer, l->on, e));
    }
    if (own->root) TRY(comm_group_end(own->root, e));
    for (int i = 0; i < own->laters; i++) {
        const hier_later *l = &own->later[i];
        const send_copy x = {.own = own, .copy = l->copy};
        if (l->receives) continue;
        TRY(comm_send_wait(l->near, l->peer, l->messages, l->on, e));
        if (l->copy) l->on->device->ops->call(l->on, run_give, &x, sizeof x);
    }
done:
    return result;
}

status hier_group_end(comm *c, err *e)
{
    hier_rank *own = hier_of(c)->own;
    if (!own->grouped) return err_set(e, E_INTERNAL, "no group of messages is open");
    own->grouped = false;
    const status result = issue_laters(own, e);
    own->laters = 0;
    return result;
}
