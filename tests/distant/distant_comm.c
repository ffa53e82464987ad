// distant_comm.c -- see distant_comm.h. Every call goes to the wrapped communicator.
#include "distant/distant_comm.h"

#include "base/alloc.h"

#include <stdlib.h>

typedef struct comm_distant {
    comm base;
    comm *inner;
    const distant_options *o;
} comm_distant;

static comm *inner_of(const comm *c)
{
    return ((const comm_distant *)c)->inner;
}

// The wrapped communicator of a call on stream `on`.
static comm *issue(const comm *c, device_stream *on)
{
    const distant_options *o = ((const comm_distant *)c)->o;
    if (o->before) o->before(on, o->arg);
    return inner_of(c);
}

static void distant_close(comm *c)
{
    comm_close(inner_of(c));
    free(c);
}

static status distant_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return comm_alloc(inner_of(c), d, bytes, out, e);
}

static void distant_release(comm *c, device *d, void *p, size_t bytes)
{
    comm_release(inner_of(c), d, p, bytes);
}

static status distant_all_reduce(comm *c, void *inout, size_t n, dtype t, comm_reduce_op op,
                                 device_stream *on, err *e)
{
    return comm_all_reduce(issue(c, on), inout, n, t, op, on, e);
}

static status distant_reduce_scatter(comm *c, const void *in, void *out, size_t n, dtype t,
                                     comm_reduce_op op, device_stream *on, err *e)
{
    return comm_reduce_scatter(issue(c, on), in, out, n, t, op, on, e);
}

static status distant_all_gather(comm *c, const void *in, void *out, size_t n, dtype t,
                                 device_stream *on, err *e)
{
    return comm_all_gather(issue(c, on), in, out, n, t, on, e);
}

static status distant_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                                err *e)
{
    return comm_broadcast(issue(c, on), inout, bytes, root, on, e);
}

static status distant_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                           err *e)
{
    return comm_send(issue(c, on), buf, bytes, peer, on, e);
}

static status distant_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    return comm_recv(issue(c, on), buf, bytes, peer, on, e);
}

static status distant_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    return comm_send_wait(issue(c, on), peer, messages, on, e);
}

static status distant_all_gather_segments(comm *c, const comm_segment *s, int segments,
                                          const void *shard, void *full, dtype t, device_stream *on,
                                          err *e)
{
    return comm_all_gather_segments(issue(c, on), s, segments, shard, full, t, on, e);
}

static status distant_reduce_scatter_segments(comm *c, const comm_segment *s, int segments,
                                              const void *full, void *shard, dtype t,
                                              comm_reduce_op op, device_stream *on, err *e)
{
    return comm_reduce_scatter_segments(issue(c, on), s, segments, full, shard, t, op, on, e);
}

static status distant_barrier(comm *c, err *e)
{
    return comm_barrier(inner_of(c), e);
}

static void distant_abort(comm *c, const err *why)
{
    comm_abort(inner_of(c), why);
}

static status distant_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    comm *inner = NULL;
    *out = NULL;
    TRY(comm_split(inner_of(c), color, key, &inner, e));
    TRY(distant_comm_open(inner, ((const comm_distant *)c)->o, out, e));
    inner = NULL;
done:
    comm_close(inner);
    return result;
}

static status distant_share(comm *c, err *e)
{
    return comm_share(inner_of(c), e);
}

static void distant_set_packing(comm *c, const struct comm_packing *packing)
{
    comm_set_packing(inner_of(c), packing);
}

static void distant_set_label(comm *c, const char *label)
{
    comm_set_label(inner_of(c), label);
}

static const comm_ops distant_ops = {
    .name = "distant",
    .close = distant_close,
    .alloc = distant_alloc,
    .release = distant_release,
    .all_reduce = distant_all_reduce,
    .reduce_scatter = distant_reduce_scatter,
    .all_gather = distant_all_gather,
    .broadcast = distant_broadcast,
    .send = distant_send,
    .recv = distant_recv,
    .send_wait = distant_send_wait,
    .all_gather_segments = distant_all_gather_segments,
    .reduce_scatter_segments = distant_reduce_scatter_segments,
    .barrier = distant_barrier,
    .abort = distant_abort,
    .split = distant_split,
    .share = distant_share,
    .set_label = distant_set_label,
    .set_packing = distant_set_packing,
};

status distant_comm_open(comm *inner, const distant_options *o, comm **out, err *e)
{
    comm_distant *d;
    *out = NULL;
    const status result = alloc_zeroed(&d, 1, sizeof *d, "a communicator that waits", e);
    if (result != OK) return result;
    d->base =
        (comm){.ops = &distant_ops, .rank = inner->rank, .size = inner->size, .can = inner->can};
    d->base.can.own_thread = o->own_thread;
    d->inner = inner;
    d->o = o;
    *out = &d->base;
    return OK;
}
