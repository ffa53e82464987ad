// wrong_calls.c -- calls of comm.h that spoil a byte of their result, for a program whose check of
// results must notice it (bench_comm.sh). The linker puts them in the place of the real ones (--wrap).
#include "comm/comm.h"

status __real_comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                              device_stream *on, err *e);
status __wrap_comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                              device_stream *on, err *e);
status __real_comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                  comm_reduce_op op, device_stream *on, err *e);
status __wrap_comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                  comm_reduce_op op, device_stream *on, err *e);
status __real_comm_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                              device_stream *on, err *e);
status __wrap_comm_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                              device_stream *on, err *e);
status __real_comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                             err *e);
status __wrap_comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                             err *e);
status __real_comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);
status __wrap_comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);

static status flip(void *arg, err *e)
{
    (void)e;
    **(char **)arg ^= 0x40;
    return OK;
}

static status spoil(status result, void *out, device_stream *on)
{
    if (result == OK) on->device->ops->call(on, flip, &out, sizeof out);
    return result;
}

status __wrap_comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                              device_stream *on, err *e)
{
    return spoil(__real_comm_all_reduce(c, inout, count, t, op, on, e), inout, on);
}

status __wrap_comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                  comm_reduce_op op, device_stream *on, err *e)
{
    return spoil(__real_comm_reduce_scatter(c, in, out, shard_count, t, op, on, e), out, on);
}

status __wrap_comm_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                              device_stream *on, err *e)
{
    return spoil(__real_comm_all_gather(c, in, out, shard_count, t, on, e), out, on);
}

status __wrap_comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                             err *e)
{
    return spoil(__real_comm_broadcast(c, inout, bytes, root, on, e), inout, on);
}

status __wrap_comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    return spoil(__real_comm_recv(c, buf, bytes, peer, on, e), buf, on);
}
