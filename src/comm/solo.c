// solo.c -- the communicator of one rank: size one is a size, not a case.
//
// Reached through the comm table. Collectives in place are nothing, the others are copies in stream
// order. Knows nothing of other ranks; after an abort every call fails, as on many ranks.
#include "comm/comm.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct solo {
    comm base;
    bool aborted;
    err why;
} solo;

static status solo_check(const comm *c, err *e)
{
    const solo *s = (const solo *)c;
    return s->aborted ? err_set(e, E_PEER, "%s", s->why.text) : OK;
}

static void solo_close(comm *c)
{
    free(c);
}

typedef struct zero_fill {
    void *at;
    size_t bytes;
} zero_fill;

static status run_zero_fill(void *arg, err *e)
{
    (void)e;
    const zero_fill *z = arg;
    memset(z->at, 0, z->bytes);
    return OK;
}

static status solo_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    (void)c;
    status result = OK;
    stream *s = NULL;
    *out = NULL;
    if (!d->ops->call) FAIL(E_USAGE, "device %s: its memory cannot be cleared here", d->ops->name);
    TRY(device_alloc(d, MEMORY_DEVICE, bytes, out, e));
    TRY(d->ops->stream_open(d, STREAM_COMM, &s, e));
    const zero_fill z = {*out, bytes};
    d->ops->call(s, run_zero_fill, &z, sizeof z);
    TRY(d->ops->sync(s, e));
done:
    if (s) d->ops->stream_close(s);
    if (result != OK && *out) {
        device_release(d, MEMORY_DEVICE, *out, bytes);
        *out = NULL;
    }
    return result;
}

static void solo_release(comm *c, device *d, void *p, size_t bytes)
{
    (void)c;
    device_release(d, MEMORY_DEVICE, p, bytes);
}

static status solo_all_reduce(comm *c, void *inout, size_t count, dtype t, reduce_op op, stream *on,
                              err *e)
{
    (void)inout, (void)count, (void)t, (void)op, (void)on;
    return solo_check(c, e);
}

static status solo_copy(comm *c, const void *in, void *out, size_t bytes, stream *on, err *e)
{
    status result = solo_check(c, e);
    if (result == OK && in != out && bytes) on->device->ops->copy(on, out, in, bytes);
    return result;
}

static status solo_reduce_scatter(comm *c, const void *in, void *out, size_t own_count, dtype t,
                                  reduce_op op, stream *on, err *e)
{
    (void)op;
    return solo_copy(c, in, out, own_count * dtype_bytes(t), on, e);
}

static status solo_all_gather(comm *c, const void *in, void *out, size_t own_count, dtype t,
                              stream *on, err *e)
{
    return solo_copy(c, in, out, own_count * dtype_bytes(t), on, e);
}

static status solo_broadcast(comm *c, void *inout, size_t bytes, int root, stream *on, err *e)
{
    (void)inout, (void)bytes, (void)root, (void)on;
    return solo_check(c, e);
}

// comm_send and comm_recv refuse every peer of a single rank before they come here.
static status solo_send(comm *c, const void *buf, size_t bytes, int peer, stream *on, err *e)
{
    (void)c, (void)buf, (void)bytes, (void)on;
    return err_set(e, E_INTERNAL, "send to rank %d: there is one rank", peer);
}

static status solo_recv(comm *c, void *buf, size_t bytes, int peer, stream *on, err *e)
{
    (void)c, (void)buf, (void)bytes, (void)on;
    return err_set(e, E_INTERNAL, "recv from rank %d: there is one rank", peer);
}

static status solo_barrier(comm *c, err *e)
{
    return solo_check(c, e);
}

static void solo_abort(comm *c, const err *why)
{
    solo *s = (solo *)c;
    if (s->aborted) return;
    s->why = *why;
    s->aborted = true;
}

static status solo_split(comm *c, int color, int key, comm **out, err *e)
{
    (void)color, (void)key;
    *out = NULL;
    status result = solo_check(c, e);
    return result == OK ? solo_comm_open(out, e) : result;
}

static const comm_ops solo_ops = {
    .name = "solo",
    .close = solo_close,
    .alloc = solo_alloc,
    .release = solo_release,
    .all_reduce = solo_all_reduce,
    .reduce_scatter = solo_reduce_scatter,
    .all_gather = solo_all_gather,
    .broadcast = solo_broadcast,
    .send = solo_send,
    .recv = solo_recv,
    .barrier = solo_barrier,
    .abort = solo_abort,
    .split = solo_split,
};

status solo_comm_open(comm **out, err *e)
{
    solo *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return err_set(e, E_FIT, "no memory for a communicator");
    s->base = (comm){.ops = &solo_ops, .rank = 0, .size = 1};
    *out = &s->base;
    return OK;
}
