// messages.c -- see messages.h. Called by step_blocks.c.
#include "train/messages.h"

#include "train/trainer_private.h"

// ---- Memory

status messages_allocate(trainer *t, messages *m, err *e)
{
    status result = OK;
    const size_t stages = (size_t)t->plan->o.mesh.size[AXIS_PP];
    TRY(memory_table(t->memory, stages, sizeof *m->acts, &m->acts, e));
    TRY(memory_table(t->memory, stages, sizeof *m->grads, &m->grads, e));
done:
    return result;
}

status messages_open_slot(trainer *t, messages_sent *slot, err *e)
{
    return t->plan->o.mesh.size[AXIS_PP] > 1 ? trainer_event_open(t, &slot->read, e) : OK;
}

void messages_close_slot(const trainer *t, messages_sent *slot)
{
    trainer_event_close(t, &slot->read);
}

// ---- Messages

static status begin(messages *m, const schedule_instr *x, comm *c, err *e)
{
    if (!x->with_next || m->open) return OK;
    m->open = true;
    return comm_group_begin(c, e);
}

// A send is issued when the communication stream has passed the end of its group. One that waits is then over.
static status end(trainer *t, messages *m, const schedule_instr *x, comm *c, err *e)
{
    status result = OK;
    if (x->with_next) return OK;
    if (m->open) TRY(comm_group_end(c, e));
    for (messages_sent *s = m->sends; s; s = s->next)
        trainer_record(t, &s->read, trainer_stream(t, STREAM_COMM));
    if (m->receives) trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    m->open = m->receives = false;
    m->sends = NULL;
done:
    return result;
}

status messages_send(trainer *t, messages *m, const schedule_instr *x, int group,
                     const void *buffer, size_t bytes, messages_sent *from, err *e)
{
    status result = OK;
    comm *c = trainer_group(t, group);
    uint64_t *sent = group == GROUP_PP_GRADS ? m->grads : m->acts;
    from->peer = x->peer;
    from->number = ++sent[x->peer];
    from->next = m->sends;
    m->sends = from;
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    TRY(begin(m, x, c, e));
    TRY(comm_send(c, buffer, bytes, x->peer, trainer_stream(t, STREAM_COMM), e));
    TRY(end(t, m, x, c, e));
done:
    return result;
}

status messages_receive(trainer *t, messages *m, const schedule_instr *x, int group, void *buffer,
                        size_t bytes, err *e)
{
    status result = OK;
    comm *c = trainer_group(t, group);
    m->receives = true;
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    TRY(begin(m, x, c, e));
    TRY(comm_recv(c, buffer, bytes, x->peer, trainer_stream(t, STREAM_COMM), e));
    TRY(end(t, m, x, c, e));
done:
    return result;
}

// Where sends wait, the event of their end says it, which can be recorded; the number of a message cannot. Else the
// compute stream waits for the other stage, and first for the send: a device may run one stream after the other.
status messages_await_read(trainer *t, int group, messages_sent *from, err *e)
{
    status result = OK;
    comm *c = trainer_group(t, group);
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    if (from->number > 0) trainer_wait(t, on, &from->read);
    if (from->number > 0 && !c->can.sends_wait)
        TRY(comm_send_wait(c, from->peer, from->number, on, e));
    from->number = 0;
done:
    return result;
}
