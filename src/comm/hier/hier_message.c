// hier_message.c -- the messages of the communicator hier: by local between ranks of one host, else by the network. A
// send waits for its receive inside of a host, too, as hier says of all its sends (capability sends_wait): a caller
// overwrites what it sent when the stream has passed. In a group, all sends begin before anything waits: a send inside
// of a host from memory that is not of comm_alloc is then copied to the arena. Called through the table of comm.h.
#include "comm/hier/hier_private.h"

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

// ---- The table

// The communicator of the ranks of this host where the message stays there, and the peer's number in it; else NULL.
static comm *local_of(const comm_message *m, int *place)
{
    const hier_comm *c = hier_of(m->comm);
    *place = c->place[m->call.peer];
    return *place >= 0 ? c->local : NULL;
}

// Begins a send inside of the host. *copy receives memory of the arena that is to be given back, or NULL.
static status begin_local(const comm_message *m, comm *local, int place, bool copies,
                          device_stream *on, void **copy, err *e)
{
    status result = OK;
    hier_rank *own = hier_of(m->comm)->own;
    const size_t bytes = comm_call_bytes(&m->call);
    *copy = NULL;
    if (copies && bytes && !comm_arena_holds(own->world->arena, m->call.in)) {
        TRY(comm_arena_take(own->world->arena, bytes, false, copy, e));
        const send_copy x = {.from = m->call.in, .copy = *copy, .bytes = bytes};
        on->device->ops->call(on, run_copy, &x, sizeof x);
    }
    comm_call sent = m->call;
    sent.in = *copy ? *copy : m->call.in;
    sent.peer = place;
    TRY(comm_issue(local, &sent, on, e));
done:
    return result;
}

static status end_local(const comm_message *m, comm *local, int place, void *copy,
                        device_stream *on, err *e)
{
    status result = OK;
    const send_copy x = {.own = hier_of(m->comm)->own, .copy = copy};
    if (m->call.count) TRY(comm_send_wait(local, place, local->sent[place], on, e));
    if (copy) on->device->ops->call(on, run_give, &x, sizeof x);
done:
    return result;
}

// The sends inside of the host begin, then the messages between hosts pass, then come the receives inside of the host
// and the ends of the sends.
status hier_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    comm *local;
    comm_message remote[COMM_GROUP_MESSAGES];
    void *copy[COMM_GROUP_MESSAGES];
    int fars = 0, place;
    TRY(hier_check(hier_of(m->comm), e));
    for (int i = 0; i < count; i++) {
        if (!(local = local_of(&m[i], &place)))
            remote[fars++] = (comm_message){hier_of(m[i].comm)->all, m[i].call};
        else if (m[i].call.kind == CALL_SEND)
            TRY(begin_local(&m[i], local, place, count > 1, on, &copy[i], e));
    }
    TRY(comm_issue_group(remote, fars, on, e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_RECV && (local = local_of(&m[i], &place))) {
            comm_call received = m[i].call;
            received.peer = place;
            TRY(comm_issue(local, &received, on, e));
        }
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND && (local = local_of(&m[i], &place)))
            TRY(end_local(&m[i], local, place, copy[i], on, e));
done:
    return result;
}

status hier_send_wait(comm *base, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    hier_comm *c = hier_of(base);
    TRY(hier_check(c, e));
    if (c->place[peer] >= 0)
        TRY(comm_send_wait(c->local, c->place[peer], messages, on, e));
    else
        TRY(comm_send_wait(c->all, peer, messages, on, e));
done:
    return result;
}
