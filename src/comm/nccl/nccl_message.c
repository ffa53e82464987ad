// nccl_message.c -- the messages of the communicator nccl: a send waits for its receive, so messages of a group start
// together, when the group ends. Empty messages move nothing. Called through the table of comm.h.
#include "comm/nccl/nccl_private.h"

// Starts the messages of one communicator.
static status start(nccl_comm *c, const device_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    nccl_begin(c, m[0].receives ? "send" : "recv", on);
    TRY(nccl_exchange(c, m, count, on, e));
    nccl_end(c, on);
done:
    return result;
}

// The communicator of the messages that start after those of `last`; NULL: none. All ranks have one order.
static nccl_comm *next_of(const comm_message *m, int count, const nccl_comm *last)
{
    nccl_comm *next = NULL;
    for (int i = 0; i < count; i++) {
        nccl_comm *c = nccl_of(m[i].comm);
        if (m[i].call.count && (!last || c->number > last->number) &&
            (!next || c->number < next->number))
            next = c;
    }
    return next;
}

static device_message message_of(const comm_call *call)
{
    const bool receives = call->kind == CALL_RECV;
    return (device_message){.buf = receives ? call->out : (void *)(uintptr_t)call->in,
                            .bytes = comm_call_bytes(call),
                            .peer = call->peer,
                            .receives = receives};
}

// The messages of a communicator wait for those of other ranks, and those of the next communicator follow them. No ranks
// wait in a circle, because messages that start together here are those that start together there.
status nccl_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    device_message all[COMM_GROUP_MESSAGES];
    TRY(nccl_check(nccl_of(m->comm), e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND) nccl_of(m[i].comm)->sent_on = on;
    for (nccl_comm *c = next_of(m, count, NULL); c; c = next_of(m, count, c)) {
        int messages = 0;
        for (int i = 0; i < count; i++)
            if (m[i].comm == &c->base && m[i].call.count) all[messages++] = message_of(&m[i].call);
        TRY(start(c, all, messages, on, e));
    }
done:
    return result;
}

// The stream of a send has waited for its message already.
status nccl_send_wait(comm *base, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    nccl_comm *c = nccl_of(base);
    const device_ops *ops = on->device->ops;
    (void)peer;
    TRY(nccl_check(c, e));
    if (messages == 0 || c->sent_on == on) return OK;
    if (!c->sent) TRY(ops->event_open(on->device, &c->sent, e));
    ops->record(c->sent, c->sent_on);
    ops->wait(on, c->sent);
done:
    return result;
}
