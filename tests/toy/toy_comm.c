// toy_comm.c -- the communicator of toy_comm.h. It fills the table comm_ops: a call becomes work on a
// stream, and toy_network.c carries it out when the stream comes to it. Ranks meet in the store when a
// communicator opens or splits. It has no calls over segments, so comm.c packs shards. Opened by tests.
#include "toy/toy_comm.h"

#include "base/alloc.h"
#include "comm/comm_private.h"
#include "rendezvous/rendezvous.h"
#include "toy/toy_network.h"

#include <stdlib.h>

const comm_capabilities TOY_CAPABILITIES = {.tree_order = true,
                                            .needs_workspace = true,
                                            .sends_wait = true,
                                            .can_be_recorded = true,
                                            .own_thread = true,
                                            .device_memory = true};

typedef struct toy_comm toy_comm;

// One call on its way through a stream.
typedef struct toy_call {
    toy_comm *comm;
    device *device;
    toy_member member;
    comm_call call; // of a send_wait `count` is the number of messages
} toy_call;
_Static_assert(sizeof(toy_call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

struct toy_comm {
    comm base;
    world *world;
    toy_group *group;
    const toy_device *device;
    comm_rendezvous meeting;
    int64_t deadline_ms; // of a split
};

static toy_comm *toy_of(comm *c)
{
    return (toy_comm *)c;
}

static toy_member member_of(comm *c)
{
    const toy_comm *own = toy_of(c);
    const int rank = toy_group_world_rank(own->group, c->rank);
    return (toy_member){.world = own->world,
                        .group = own->group,
                        .rank = c->rank,
                        .label = c->label,
                        .what = atomic_load_explicit(&own->world->watchdog->activities[rank].what,
                                                     memory_order_relaxed)};
}

// ---- Work on streams. Addresses are translated here: only now does the device have its work.

static void *address_of(const toy_call *x, const void *p)
{
    return p && x->call.count ? x->comm->device->ptr(x->device, p) : NULL;
}

static status run_collective(void *arg, err *e)
{
    const toy_call *x = arg;
    comm_call call = x->call;
    call.in = address_of(x, x->call.in);
    call.out = address_of(x, x->call.out);
    return toy_meet(&x->member, TOY_ON_STREAM, &call, e);
}

static status run_offer(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_offer(&x->member, x->call.peer, address_of(x, x->call.in), comm_call_bytes(&x->call),
                     e);
}

static status run_recv(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_receive(&x->member, x->call.peer, address_of(x, x->call.out),
                       comm_call_bytes(&x->call), e);
}

static status run_await(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_await_next(&x->member, x->call.peer, e);
}

static status run_send_wait(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_await(&x->member, x->call.peer, x->call.count, e);
}

// After a failure nothing is issued any more.
static status enqueue(comm *c, const comm_call *call, device_stream_fn fn, device_stream *on,
                      err *e)
{
    const comm_failure *f = toy_of(c)->world->failure;
    if (comm_failure_known(f)) return comm_failure_error(f, e);
    const toy_call x = {toy_of(c), on->device, member_of(c), *call};
    x.comm->device->enqueue(on, fn, &x, sizeof x);
    return OK;
}

// ---- The table

// Calls of the host are barriers. A communicator of GPUs exchanges the handles of its memory in CALL_SHARE; this one
// reads no other rank's memory.
static status toy_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const toy_member m = member_of(c);
    return on ? enqueue(c, call, run_collective, on, e) : toy_meet(&m, TOY_ON_HOST, call, e);
}

// All sends are offered, and the receives come before the ends of sends: a rank that waited for its own sends before
// would keep back the receives that others wait for.
static status toy_group_issue(const comm_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND) TRY(enqueue(m[i].comm, &m[i].call, run_offer, on, e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_RECV) TRY(enqueue(m[i].comm, &m[i].call, run_recv, on, e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND) TRY(enqueue(m[i].comm, &m[i].call, run_await, on, e));
done:
    return result;
}

static status toy_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    const comm_call call = {.peer = peer, .count = messages};
    return enqueue(c, &call, run_send_wait, on, e);
}

static status toy_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    (void)c;
    *out = NULL;
    return device_alloc(d, MEMORY_ZEROED, bytes, out, e);
}

static void toy_release(comm *c, device *d, void *p, size_t bytes)
{
    (void)c;
    device_release(d, MEMORY_ZEROED, p, bytes);
}

static void toy_abort(comm *c, const err *why)
{
    const toy_comm *own = toy_of(c);
    comm_failure_set(own->world->failure, toy_group_world_rank(own->group, c->rank), why);
}

static void toy_close(comm *c)
{
    toy_comm *own = toy_of(c);
    toy_group_leave(own->group, c->rank);
    free(own);
}

static status open_member(const toy_comm *like, toy_group *g, const comm_rendezvous *meeting,
                          comm **out, err *e);

// The first member of a new group opens it.
static status open_group(comm *c, const comm_members *m, toy_group **out, err *e)
{
    int ranks[TOY_RANKS];
    status result = OK;
    *out = NULL;
    if (m->rank != 0) return OK;
    for (int i = 0; i < m->size; i++)
        ranks[i] = toy_group_world_rank(toy_of(c)->group, m->ranks[i]);
    err why = {0};
    result = toy_group_open(m->size, ranks, out, &why);
    if (result == OK) return OK;
    toy_abort(c, &why); // the other members wait for the group
    return err_set(e, result, "%s", why.text);
}

static status toy_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    toy_comm *own = toy_of(c);
    comm_members m = {0};
    comm_rendezvous meeting;
    toy_group *group = NULL;
    *out = NULL;
    TRY(toy_issue(c, &(comm_call){.kind = CALL_SPLIT}, NULL,
                  e)); // a rank that does not come is named
    TRY(comm_rendezvous_split(&own->meeting, color, key, own->deadline_ms, &m, e));
    TRY(open_group(c, &m, &group, e));
    TRY(comm_rendezvous_join(&own->meeting, &m, &group, sizeof group, own->deadline_ms, &meeting,
                             e));
    TRY(open_member(own, group, &meeting, out, e));
done:
    free(m.ranks);
    return result;
}

static int toy_rank_of(const comm *c, int member)
{
    return toy_group_world_rank(((const toy_comm *)c)->group, member);
}

static const comm_ops TOY_OPS = {
    .name = "toy",
    .close = toy_close,
    .alloc = toy_alloc,
    .release = toy_release,
    .issue = toy_issue,
    .group = toy_group_issue,
    .send_wait = toy_send_wait,
    .abort = toy_abort,
    .split = toy_split,
    .rank_of = toy_rank_of,
};

// Opens a communicator of the rank of `like`, from which it takes all that is not the group's.
static status open_member(const toy_comm *like, toy_group *g, const comm_rendezvous *meeting,
                          comm **out, err *e)
{
    status result = OK;
    toy_comm *c = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, "a communicator", e));
    TRY(comm_init(&c->base, &TOY_OPS, &TOY_CAPABILITIES, meeting->rank, meeting->size, e));
    c->world = like->world;
    c->group = g;
    c->device = like->device;
    c->meeting = *meeting;
    c->deadline_ms = like->deadline_ms;
    *out = &c->base;
    c = NULL;
done:
    free(c);
    return result;
}

// ---- Opening

// Rank 0 opens the group of all ranks.
static status open_all(const comm_options *o, toy_group **out, err *e)
{
    int ranks[TOY_RANKS];
    *out = NULL;
    for (int r = 0; r < o->size && r < TOY_RANKS; r++) ranks[r] = r;
    return o->rank == 0 ? toy_group_open(o->size, ranks, out, e) : OK;
}

status toy_open(const comm_options *o, const toy_device *d, comm **out, err *e)
{
    status result = OK;
    toy_comm like = {.world = o->world, .device = d, .deadline_ms = o->deadline_ms};
    toy_group *group = NULL;
    *out = NULL;
    if (!o->world || !o->store)
        FAIL(E_USAGE, "communicator toy: there is one rank; valid are 2 and more");
    const comm_rendezvous meeting = {
        .store = o->store, .failure = o->world->failure, .rank = o->rank, .size = o->size};
    TRY(open_all(o, &group, e));
    TRY(comm_rendezvous_open(&meeting, &group, sizeof group, o->deadline_ms, e));
    TRY(open_member(&like, group, &meeting, out, e));
done:
    return result;
}

// ---- A device whose memory the host can address

static void call_of_device(device_stream *on, device_stream_fn fn, const void *arg, size_t bytes)
{
    on->device->ops->call(on, fn, arg, bytes);
}

static void *same_address(device *d, const void *p)
{
    (void)d;
    return (void *)(uintptr_t)p;
}

const toy_device TOY_HOST_DEVICE = {.enqueue = call_of_device, .ptr = same_address};
