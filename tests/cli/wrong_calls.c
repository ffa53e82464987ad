// wrong_calls.c -- calls of comm.h that spoil a byte of their result, for a program whose check of
// results must notice it (bench_comm.sh). The linker puts them in the place of the real ones (--wrap).
#include "comm/comm.h"

status __real_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __real_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status __wrap_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);

static status flip(void *arg, err *e)
{
    (void)e;
    **(char **)arg ^= 0x40;
    return OK;
}

static void spoil(const comm_call *call, device_stream *on)
{
    if (on && call->out) on->device->ops->call(on, flip, &call->out, sizeof call->out);
}

status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const status result = __real_comm_issue(c, call, on, e);
    if (result == OK) spoil(call, on);
    return result;
}

status __wrap_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    const status result = __real_comm_issue_group(m, count, on, e);
    for (int i = 0; result == OK && i < count; i++) spoil(&m[i].call, on);
    return result;
}
