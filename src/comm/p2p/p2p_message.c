// p2p_message.c -- the messages of the communicator p2p (p2p.h). The host of the sender tells the host of
// the receiver where the buffer is; the receiver's stream copies it between two flags. A send waits, in
// stream order, until its message was read. Called through the table of comm.h.
#include "comm/p2p/p2p_private.h"

// A message's header, from the sender's host.
typedef struct message_header {
    device_handle buffer;
    uint64_t bytes;
    int slot; // of the flags
} message_header;

static void set_flag(const p2p_comm *c, device_stream *on, device_flag *f)
{
    p2p_sharing(c)->set_flags(on, &f, 1);
}

static void wait_flag(const p2p_comm *c, device_stream *on, device_flag *f)
{
    p2p_sharing(c)->wait_flags(on, &f, 1);
}

static p2p_pair *pair_of(const p2p_comm *c, const comm_call *call)
{
    return call->kind == CALL_SEND ? p2p_pair_of(c, c->base.rank, call->peer)
                                   : p2p_pair_of(c, call->peer, c->base.rank);
}

// ---- Sends

// Messages to one rank that start together have flags of their own.
static int slot_of(const comm_message *m, int number)
{
    int n = 0;
    for (int i = 0; i < number; i++)
        n += m[i].call.kind == CALL_SEND && m[i].comm == m[number].comm &&
             m[i].call.peer == m[number].call.peer;
    return n;
}

static status tell(p2p_comm *c, const comm_call *call, int slot, err *e)
{
    status result = OK;
    const size_t bytes = comm_call_bytes(call);
    message_header header = {.bytes = bytes, .slot = slot};
    const comm_call sent = {CALL_SEND, .type = U8, .peer = call->peer, .count = sizeof header,
                            .in = &header};
    TRY(p2p_export(c, call->in, bytes, &header.buffer, e));
    const local_call x = p2p_host_call(c, &sent);
    TRY(local_run_send(&x, e));
done:
    return result;
}

static status begin_send(p2p_comm *c, const comm_call *call, int slot, device_stream *on, err *e)
{
    status result = OK;
    if (slot >= P2P_SLOTS)
        FAIL(E_INTERNAL, "more than %d messages to rank %d start together", P2P_SLOTS, call->peer);
    TRY(tell(c, call, slot, e));
    set_flag(c, on, &pair_of(c, call)->sent[slot]);
    c->sent_on[call->peer] = on;
    atomic_store(&c->latest, "recv");
    atomic_fetch_add(&c->issued, 1);
done:
    return result;
}

// ---- Receives

static status refuse_bytes(const p2p_comm *c, const comm_call *call, const message_header *m,
                           err *e)
{
    err why = {0};
    err_set(&why, E_INTERNAL, "rank %d sends %llu bytes while rank %d receives %zu",
            p2p_host(c)->group->world_rank[call->peer], (unsigned long long)m->bytes,
            c->own->world_rank, comm_call_bytes(call));
    comm_failure_set(c->own->world->failure, -1, &why); // -1: either of the two may be wrong
    return err_set(e, E_INTERNAL, "%s", why.text);
}

static status receive(const p2p_comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    const size_t bytes = comm_call_bytes(call);
    p2p_pair *pair = pair_of(c, call);
    message_header header;
    void *from = NULL;
    const comm_call received = {CALL_RECV, .type = U8, .peer = call->peer, .count = sizeof header,
                                .out = &header};
    const local_call x = p2p_host_call(c, &received);
    TRY(local_run_recv(&x, e));
    if (header.bytes != bytes) return refuse_bytes(c, call, &header, e);
    if (bytes > 0) TRY(p2p_import(c, &header.buffer, &from, e));
    wait_flag(c, on, &pair->sent[header.slot]);
    if (bytes > 0) on->device->ops->copy(on, call->out, from, bytes);
    set_flag(c, on, &pair->taken[header.slot]);
done:
    return result;
}

// ---- The table

// The sends begin, and the receives come before the ends of sends: a stream that waited for its own sends before would
// keep back the receives that others wait for.
status p2p_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    TRY(p2p_check(p2p_of(m->comm), e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND)
            TRY(begin_send(p2p_of(m[i].comm), &m[i].call, slot_of(m, i), on, e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_RECV) TRY(receive(p2p_of(m[i].comm), &m[i].call, on, e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND)
            wait_flag(p2p_of(m[i].comm), on,
                      &pair_of(p2p_of(m[i].comm), &m[i].call)->taken[slot_of(m, i)]);
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
    if (messages == 0 || c->sent_on[peer] == on) return OK;
    if (!c->sent) TRY(ops->event_open(on->device, &c->sent, e));
    ops->record(c->sent, c->sent_on[peer]);
    ops->wait(on, c->sent);
done:
    return result;
}
