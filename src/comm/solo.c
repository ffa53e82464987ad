// solo.c -- the communicator of a group of one rank, so that callers treat one rank like many.
//
// Called through the table of comm.h. A collective in place does nothing, and any other is a copy
// in stream order. After an abort every call fails, as with many ranks. A rank that was split off
// from others uses the memory and the failures of their world, so any communicator of the world can
// use what it allocates.
#include "comm/solo.h"

#include "base/alloc.h"
#include "comm/comm_private.h"

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

static void copy(device_stream *on, void *to, const void *from, size_t bytes)
{
    if (to != from && bytes) on->device->ops->copy(on, to, from, bytes);
}

// The shard of the one rank is the full segment.
static void copy_segments(const comm_call *call, device_stream *on)
{
    const size_t element = dtype_bytes(call->type);
    const bool gathers = call->kind == CALL_ALL_GATHER;
    for (int i = 0; i < call->segments; i++) {
        const comm_segment *s = &call->segment[i];
        const int64_t from = gathers ? s->shard_offset : s->full_offset,
                      to = gathers ? s->full_offset : s->shard_offset;
        copy(on, (char *)call->out + (size_t)to * element,
             (const char *)call->in + (size_t)from * element, (size_t)s->count * element);
    }
}

// Every collective leaves the input of the one rank in its output. comm_send and comm_recv refuse every peer.
static status solo_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const status result = solo_check(c, e);
    if (result != OK || !on || call->in_place) return result;
    if (call->segment)
        copy_segments(call, on);
    else
        copy(on, call->out, call->in, call->count * dtype_bytes(call->type));
    return OK;
}

// comm_send_wait refuses every peer before it comes here.
static status solo_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    (void)peer, (void)messages, (void)on;
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
    .issue = solo_issue,
    .send_wait = solo_send_wait,
    .abort = solo_abort,
    .split = solo_split,
};

void solo_flows(const comm_described_call *c, comm_flows *out)
{
    if (c->segments && !c->in_place) comm_flows_add(out, (comm_flow){.memory = 2 * c->bytes});
}

const comm_capabilities SOLO_CAPABILITIES = {
    .tree_order = true, .zero_copy = true, .device_memory = true};

status comm_solo_open_in(world *w, int world_rank, comm **out, err *e)
{
    status result = OK;
    comm_solo *s = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a communicator", e));
    TRY(comm_init(&s->base, &solo_ops, &SOLO_CAPABILITIES, 0, 1, e));
    s->base.can.device_memory = w == NULL; // else memory comes from the arena of the world
    s->world = w;
    s->world_rank = world_rank;
    *out = &s->base;
    s = NULL;
done:
    free(s);
    return result;
}

status comm_solo_open(comm **out, err *e)
{
    return comm_solo_open_in(NULL, 0, out, e);
}
