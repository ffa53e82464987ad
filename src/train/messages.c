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

// The messages of a group are issued with its last one. A send is issued when the communication stream has passed the
// end of its group. One that waits is then over.
static status add(trainer *t, messages *m, const schedule_instr *x, comm_message message, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMM);
    if (m->count == COMM_GROUP_MESSAGES)
        FAIL(E_INTERNAL, "more than %d messages start together", COMM_GROUP_MESSAGES);
    message.call.visit = trainer_spans_of_calls(t).visit;
    m->message[m->count++] = message;
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    trainer_span_begin(t, x);
    if (x->with_next) return OK;
    TRY(comm_issue_group(m->message, m->count, on, e));
    for (messages_sent *s = m->sends; s; s = s->next) trainer_record(t, &s->read, on);
    if (m->receives) trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    m->count = 0;
    m->receives = false;
    m->sends = NULL;
done:
    return result;
}

// Bytes of the message that is planned.
static size_t bytes_of(const trainer *t, const schedule_instr *x)
{
    return comm_call_bytes(&t->pass.list->call[x->first_call].call);
}

status messages_send(trainer *t, messages *m, const schedule_instr *x, int group,
                     const void *buffer, messages_sent *from, err *e)
{
    uint64_t *sent = group == GROUP_PASSES + AXIS_PP ? m->grads : m->acts;
    from->peer = x->peer;
    from->number = ++sent[x->peer];
    from->next = m->sends;
    m->sends = from;
    return add(t, m, x, comm_message_to(trainer_group(t, group), buffer, bytes_of(t, x), x->peer),
               e);
}

status messages_receive(trainer *t, messages *m, const schedule_instr *x, int group, void *buffer,
                        err *e)
{
    m->receives = true;
    return add(t, m, x, comm_message_from(trainer_group(t, group), buffer, bytes_of(t, x), x->peer),
               e);
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
