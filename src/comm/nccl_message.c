// nccl_message.c -- the messages of the communicator nccl: a send waits for its receive, so messages of a group start
// together, when the group ends. Empty messages move nothing. Called through the table of comm.h.
#include "comm/nccl_private.h"

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

static status issue(nccl_comm *c, device_message m, device_stream *on, err *e)
{
    status result = OK;
    nccl_rank *own = c->own;
    TRY(nccl_check(c, e));
    if (m.bytes == 0) return OK;
    if (!own->grouped) return start(c, &m, 1, on, e);
    if (own->laters == NCCL_LATER)
        FAIL(E_INTERNAL, "more than %d messages start together", NCCL_LATER);
    if (own->laters > 0 && own->later_on != on)
        FAIL(E_INTERNAL, "messages that start together are on two streams");
    own->later_on = on;
    own->later[own->laters++] = (nccl_later){c, m};
done:
    return result;
}

// The communicator of the messages that start after those of `last`; NULL: none. All ranks have one order.
static nccl_comm *next_of(const nccl_rank *own, int count, const nccl_comm *last)
{
    nccl_comm *next = NULL;
    for (int i = 0; i < count; i++) {
        nccl_comm *c = own->later[i].comm;
        if ((!last || c->number > last->number) && (!next || c->number < next->number)) next = c;
    }
    return next;
}

// The messages of a communicator wait for those of other ranks, and those of the next communicator follow them. No ranks
// wait in a circle, because messages that start together here are those that start together there.
static status end_group(nccl_rank *own, int count, err *e)
{
    status result = OK;
    device_message m[NCCL_LATER];
    for (nccl_comm *c = next_of(own, count, NULL); c; c = next_of(own, count, c)) {
        int messages = 0;
        for (int i = 0; i < count; i++)
            if (own->later[i].comm == c) m[messages++] = own->later[i].message;
        TRY(start(c, m, messages, own->later_on, e));
    }
done:
    return result;
}

status nccl_send(comm *base, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    nccl_comm *c = nccl_of(base);
    TRY(issue(c, (device_message){.buf = (void *)(uintptr_t)buf, .bytes = bytes, .peer = peer}, on,
              e));
    c->sends[peer]++;
    c->sent_on = on;
done:
    return result;
}

status nccl_recv(comm *base, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    return issue(nccl_of(base),
                 (device_message){.buf = buf, .bytes = bytes, .peer = peer, .receives = true}, on,
                 e);
}

// The stream of a send has waited for its message already.
status nccl_send_wait(comm *base, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    nccl_comm *c = nccl_of(base);
    const device_ops *ops = on->device->ops;
    TRY(nccl_check(c, e));
    if (messages > c->sends[peer])
        FAIL(E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
             (unsigned long long)messages, peer, (unsigned long long)c->sends[peer]);
    if (messages == 0 || c->sent_on == on) return OK;
    if (!c->sent) TRY(ops->event_open(on->device, &c->sent, e));
    ops->record(c->sent, c->sent_on);
    ops->wait(on, c->sent);
done:
    return result;
}

status nccl_group_begin(comm *c, err *e)
{
    nccl_rank *own = nccl_of(c)->own;
    if (own->grouped) return err_set(e, E_INTERNAL, "a group of messages is open");
    own->grouped = true;
    return OK;
}

status nccl_group_end(comm *c, err *e)
{
    nccl_rank *own = nccl_of(c)->own;
    if (!own->grouped) return err_set(e, E_INTERNAL, "no group of messages is open");
    const int count = own->laters;
    own->grouped = false;
    own->laters = 0;
    return end_group(own, count, e);
}
