// distant_comm.c -- see distant_comm.h. A communicator gets a table of its own, which calls that of the communicator it was.
#include "distant/distant_comm.h"

#include "base/alloc.h"

#include <stdlib.h>

typedef struct distant_table {
    comm_ops ops;
    const comm_ops *was;
    const distant_options *o;
} distant_table;

static const distant_table *table_of(const comm *c)
{
    return (const distant_table *)(const void *)c->ops;
}

static status distant_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const distant_table *t = table_of(c);
    if (on && t->o->before) t->o->before(on, t->o->arg);
    return t->was->issue(c, call, on, e);
}

static status distant_group(const comm_message *m, int count, device_stream *on, err *e)
{
    const distant_table *t = table_of(m->comm);
    if (t->o->before) t->o->before(on, t->o->arg);
    return t->was->group(m, count, on, e);
}

static status distant_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    const distant_table *t = table_of(c);
    if (t->o->before) t->o->before(on, t->o->arg);
    return t->was->send_wait(c, peer, messages, on, e);
}

static void distant_close(comm *c)
{
    distant_table *t = (distant_table *)(uintptr_t)table_of(c);
    t->was->close(c);
    free(t);
}

static status distant_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    const distant_table *t = table_of(c);
    TRY(t->was->split(c, color, key, out, e));
    TRY(distant_comm_make(*out, t->o, e));
done:
    return result;
}

status distant_comm_make(comm *c, const distant_options *o, err *e)
{
    distant_table *t;
    const status result = alloc_zeroed(&t, 1, sizeof *t, "a communicator that waits", e);
    if (result != OK) return result;
    *t = (distant_table){*c->ops, c->ops, o};
    t->ops.issue = distant_issue;
    t->ops.send_wait = distant_send_wait;
    t->ops.close = distant_close;
    t->ops.split = distant_split;
    if (t->was->group) t->ops.group = distant_group;
    c->ops = &t->ops;
    c->can.own_thread = o->own_thread;
    return OK;
}
