// solo.c -- the communicator of a group of one rank, so that callers treat one rank like many.
//
// Called through the table of comm.h. A collective in place does nothing, and any other is a copy
// in stream order. After an abort every call fails, as with many ranks. A rank that was split off
// from others uses the memory and the failures of their world, so any communicator of the world can
// use what it allocates.
#include "comm/solo.h"

#include "base/alloc.h"

#include <stdlib.h>

typedef struct comm_solo {
    comm base;
    world *world; // the world that the rank was split off from; NULL: the run has one rank
    int world_rank;
    bool aborted;
    err why;
} comm_solo;

static status solo_check(const comm *c, err *e)
{
    const comm_solo *s = (const comm_solo *)c;
    if (s->world && comm_failure_known(s->world->failure))
        return comm_failure_error(s->world->failure, e);
    return s->aborted ? err_set(e, E_PEER, "%s", s->why.text) : OK;
}

static void solo_close(comm *c)
{
    free(c);
}

static status solo_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    world *w = ((const comm_solo *)c)->world;
    *out = NULL;
    return w && w->arena ? comm_arena_alloc(w->arena, d, bytes, out, e)
                         : device_alloc(d, MEMORY_ZEROED, bytes, out, e);
}

static void solo_release(comm *c, device *d, void *p, size_t bytes)
{
    world *w = ((const comm_solo *)c)->world;
    if (w && w->arena)
        comm_arena_release(w->arena, d, p, bytes);
    else
        device_release(d, MEMORY_ZEROED, p, bytes);
}

static status solo_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                              device_stream *on, err *e)
{
    (void)inout, (void)count, (void)t, (void)op, (void)on;
    return solo_check(c, e);
}

static status solo_copy(comm *c, const void *in, void *out, size_t bytes, device_stream *on, err *e)
{
    status result = solo_check(c, e);
    if (result == OK && in != out && bytes) on->device->ops->copy(on, out, in, bytes);
    return result;
}

static status solo_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                  comm_reduce_op op, device_stream *on, err *e)
{
    (void)op;
    return solo_copy(c, in, out, shard_count * dtype_bytes(t), on, e);
}

static status solo_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                              device_stream *on, err *e)
{
    return solo_copy(c, in, out, shard_count * dtype_bytes(t), on, e);
}

static status solo_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                             err *e)
{
    (void)inout, (void)bytes, (void)root, (void)on;
    return solo_check(c, e);
}

// comm_send and comm_recv refuse every peer of a single rank before they come here.
static status solo_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    (void)c, (void)buf, (void)bytes, (void)on;
    return err_set(e, E_INTERNAL, "send to rank %d: there is one rank", peer);
}

static status solo_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    (void)c, (void)buf, (void)bytes, (void)on;
    return err_set(e, E_INTERNAL, "recv from rank %d: there is one rank", peer);
}

static status solo_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    (void)c, (void)messages, (void)on;
    return err_set(e, E_INTERNAL, "send_wait for rank %d: there is one rank", peer);
}

// The shard of the one rank is the full segment.
static status solo_all_gather_segments(comm *c, const comm_segment *s, int segments,
                                       const void *shard, void *full, dtype t, device_stream *on,
                                       err *e)
{
    const size_t element = dtype_bytes(t);
    status result = solo_check(c, e);
    for (int i = 0; shard && result == OK && i < segments; i++)
        result = solo_copy(c, (const char *)shard + (size_t)s[i].shard_offset * element,
                           (char *)full + (size_t)s[i].full_offset * element,
                           (size_t)s[i].count * element, on, e);
    return result;
}

static status solo_reduce_scatter_segments(comm *c, const comm_segment *s, int segments,
                                           const void *full, void *shard, dtype t,
                                           comm_reduce_op op, device_stream *on, err *e)
{
    (void)op;
    const size_t element = dtype_bytes(t);
    status result = solo_check(c, e);
    for (int i = 0; shard && result == OK && i < segments; i++)
        result = solo_copy(c, (const char *)full + (size_t)s[i].full_offset * element,
                           (char *)shard + (size_t)s[i].shard_offset * element,
                           (size_t)s[i].count * element, on, e);
    return result;
}

static status solo_barrier(comm *c, err *e)
{
    return solo_check(c, e);
}

static status solo_share(comm *c, err *e)
{
    return solo_check(c, e);
}

static void solo_abort(comm *c, const err *why)
{
    comm_solo *s = (comm_solo *)c;
    if (s->world) comm_failure_set(s->world->failure, s->world_rank, why);
    if (s->aborted) return;
    s->why = *why;
    s->aborted = true;
}

static status solo_split(comm *c, int color, int key, comm **out, err *e)
{
    (void)color, (void)key;
    const comm_solo *s = (const comm_solo *)c;
    *out = NULL;
    status result = solo_check(c, e);
    return result == OK ? comm_solo_open_in(s->world, s->world_rank, out, e) : result;
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
    .send_wait = solo_send_wait,
    .all_gather_segments = solo_all_gather_segments,
    .reduce_scatter_segments = solo_reduce_scatter_segments,
    .barrier = solo_barrier,
    .abort = solo_abort,
    .split = solo_split,
    .share = solo_share,
};

const comm_capabilities SOLO_CAPABILITIES = {
    .tree_order = true, .zero_copy = true, .device_memory = true};

status comm_solo_open_in(world *w, int world_rank, comm **out, err *e)
{
    comm_solo *s;
    *out = NULL;
    const status result = alloc_zeroed(&s, 1, sizeof *s, "a communicator", e);
    if (result != OK) return result;
    s->base = (comm){
        .ops = &solo_ops,
        .rank = 0,
        .size = 1,
        .can = SOLO_CAPABILITIES,
    };
    s->base.can.device_memory = w == NULL; // else memory comes from the arena of the world
    s->world = w;
    s->world_rank = world_rank;
    *out = &s->base;
    return OK;
}

status comm_solo_open(comm **out, err *e)
{
    return comm_solo_open_in(NULL, 0, out, e);
}
