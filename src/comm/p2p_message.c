// p2p_message.c -- the messages of the communicator p2p (p2p.h). The host of the sender tells the host of
// the receiver where the buffer is; the receiver's stream copies it between two flags. A send waits, in
// stream order, until its message was read. Called through the table of comm.h.
#include "comm/p2p_private.h"

// What the sender's host tells.
typedef struct message_show {
    device_handle buffer;
    uint64_t bytes;
    int slot; // of the flags
} message_show;

static void set_flag(const p2p_comm *c, device_stream *on, device_flag *f)
{
    p2p_sharing(c)->set_flags(on, &f, 1);
}

static void wait_flag(const p2p_comm *c, device_stream *on, device_flag *f)
{
    p2p_sharing(c)->wait_flags(on, &f, 1);
}

// ---- The two halves of a send

// Messages to one rank that start together have flags of their own.
static int next_slot(const p2p_comm *c, int peer)
{
    int n = 0;
    const p2p_rank *own = c->own;
    for (int i = 0; own->grouped && i < own->laters; i++)
        n += own->later[i].comm == c && own->later[i].peer == peer && !own->later[i].receives;
    return n;
}

static status tell(p2p_comm *c, const void *buf, size_t bytes, int peer, int slot, err *e)
{
    status result = OK;
    message_show show = {.bytes = bytes, .slot = slot};
    comm_call call = p2p_host_call(c, CALL_SEND);
    TRY(p2p_export(c, buf, bytes, &show.buffer, e));
    call.root = peer;
    call.in = &show;
    call.count = sizeof show;
    TRY(local_run_send(&call, e));
done:
    return result;
}

static void await_taken(const p2p_later *x)
{
    wait_flag(x->comm, x->on, &p2p_pair_of(x->comm, x->comm->base.rank, x->peer)->taken[x->slot]);
}

// ---- A receive

static status refuse_bytes(const p2p_later *x, const message_show *m, err *e)
{
    const comm_local *host = p2p_host(x->comm);
    err why = {0};
    err_set(&why, E_INTERNAL, "rank %d sends %llu bytes while rank %d receives %zu",
            host->group->world_rank[x->peer], (unsigned long long)m->bytes,
            x->comm->own->world_rank, x->bytes);
    comm_failure_set(x->comm->own->world->failure, -1, &why); // -1: either of the two may be wrong
    return err_set(e, E_INTERNAL, "%s", why.text);
}

static status receive(const p2p_later *x, err *e)
{
    status result = OK;
    const p2p_comm *c = x->comm;
    p2p_pair *pair = p2p_pair_of(c, x->peer, c->base.rank);
    message_show show;
    void *from = NULL;
    comm_call call = p2p_host_call(c, CALL_RECV);
    call.root = x->peer;
    call.out = &show;
    call.count = sizeof show;
    TRY(local_run_recv(&call, e));
    if (show.bytes != x->bytes) return refuse_bytes(x, &show, e);
    if (x->bytes > 0) TRY(p2p_import(c, &show.buffer, &from, e));
    wait_flag(c, x->on, &pair->sent[show.slot]);
    if (x->bytes > 0) x->on->device->ops->copy(x->on, x->buf, from, x->bytes);
    set_flag(c, x->on, &pair->taken[show.slot]);
done:
    return result;
}

// ---- Groups

static status add_later(p2p_rank *own, p2p_later x, err *e)
{
    if (own->laters == P2P_LATER)
        return err_set(e, E_INTERNAL, "more than %d messages start together", P2P_LATER);
    own->later[own->laters++] = x;
    return OK;
}

// The receives come first: a stream that waited for its own sends before would keep back the receives
// that others wait for.
static status end_group(p2p_rank *own, err *e)
{
    status result = OK;
    for (int i = 0; i < own->laters; i++)
        if (own->later[i].receives) TRY(receive(&own->later[i], e));
    for (int i = 0; i < own->laters; i++)
        if (!own->later[i].receives) await_taken(&own->later[i]);
done:
    own->grouped = false;
    own->laters = 0;
    return result;
}

// ---- The table

status p2p_send(comm *base, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    p2p_comm *c = p2p_of(base);
    const p2p_later x = {.comm = c, .on = on, .peer = peer, .slot = next_slot(c, peer)};
    TRY(p2p_check(c, e));
    if (x.slot == P2P_SLOTS)
        FAIL(E_INTERNAL, "more than %d messages to rank %d start together", P2P_SLOTS, peer);
    TRY(tell(c, buf, bytes, peer, x.slot, e));
    set_flag(c, on, &p2p_pair_of(c, base->rank, peer)->sent[x.slot]);
    c->sends[peer]++;
    c->sent_on[peer] = on;
    atomic_store(&c->latest, "recv");
    atomic_fetch_add(&c->issued, 1);
    if (c->own->grouped)
        TRY(add_later(c->own, x, e));
    else
        await_taken(&x);
done:
    return result;
}

status p2p_recv(comm *base, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    p2p_comm *c = p2p_of(base);
    const p2p_later x = {
        .comm = c, .on = on, .buf = buf, .bytes = bytes, .peer = peer, .receives = true};
    TRY(p2p_check(c, e));
    if (c->own->grouped)
        TRY(add_later(c->own, x, e));
    else
        TRY(receive(&x, e));
done:
    return result;
}

// The stream of a send has waited for its message already.
status p2p_send_wait(comm *base, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    p2p_comm *c = p2p_of(base);
    const device_ops *ops = on->device->ops;
    TRY(p2p_check(c, e));
    if (messages > c->sends[peer])
        FAIL(E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
             (unsigned long long)messages, peer, (unsigned long long)c->sends[peer]);
    if (messages == 0 || c->sent_on[peer] == on) return OK;
    if (!c->sent) TRY(ops->event_open(on->device, &c->sent, e));
    ops->record(c->sent, c->sent_on[peer]);
    ops->wait(on, c->sent);
done:
    return result;
}

status p2p_group_begin(comm *c, err *e)
{
    p2p_rank *own = p2p_of(c)->own;
    if (own->grouped) return err_set(e, E_INTERNAL, "a group of messages is open");
    own->grouped = true;
    return OK;
}

status p2p_group_end(comm *c, err *e)
{
    p2p_rank *own = p2p_of(c)->own;
    if (!own->grouped) return err_set(e, E_INTERNAL, "no group of messages is open");
    return end_group(own, e);
}
