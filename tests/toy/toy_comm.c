// toy_comm.c -- the communicator of toy_comm.h. It fills the table comm_ops: a call becomes work on a
// stream, and toy_network.c carries it out when the stream comes to it. Ranks meet in the store when a
// communicator opens or splits. It has no calls over segments, so comm.c packs shards. Opened by tests.
#include "toy/toy_comm.h"

#include "base/alloc.h"
#include "comm/rendezvous.h"
#include "toy/toy_network.h"

#include <stdlib.h>

enum { LATER = 32 }; // messages of a group that wait, at most

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
    toy_terms terms; // `count` also says the bytes, or the number, of messages
    const void *in;
    void *out;
    int peer;
} toy_call;
_Static_assert(sizeof(toy_call) <= STREAM_ARG_BYTES, "a stream keeps a copy of a call");

typedef struct toy_later {
    toy_call call;
    device_stream *on;
    bool receives;
} toy_later;

// What all communicators of a rank share: the messages that start together (comm_group_begin).
typedef struct toy_rank {
    int users; // communicators
    bool grouped;
    int count;
    toy_later later[LATER]; // [count] the halves of messages that wait
} toy_rank;

struct toy_comm {
    comm base;
    world *world;
    toy_group *group;
    toy_rank *own;
    const toy_device *device;
    comm_rendezvous meeting;
    int64_t deadline_ms;       // of a split
    uint64_t sends[TOY_RANKS]; // issued
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
    return p && x->terms.count ? x->comm->device->ptr(x->device, p) : NULL;
}

static status run_collective(void *arg, err *e)
{
    const toy_call *x = arg;
    const toy_post p = {x->terms, address_of(x, x->in), address_of(x, x->out)};
    return toy_meet(&x->member, TOY_ON_STREAM, &p, e);
}

static status run_offer(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_offer(&x->member, x->peer, address_of(x, x->in), x->terms.count, e);
}

static status run_recv(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_receive(&x->member, x->peer, address_of(x, x->out), x->terms.count, e);
}

static status run_await(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_await_next(&x->member, x->peer, e);
}

static status run_send_wait(void *arg, err *e)
{
    const toy_call *x = arg;
    return toy_await(&x->member, x->peer, x->terms.count, e);
}

// After a failure nothing is issued any more.
static status issue(comm *c, toy_call x, device_stream_fn fn, device_stream *on, err *e)
{
    const comm_failure *f = toy_of(c)->world->failure;
    if (comm_failure_known(f)) return comm_failure_error(f, e);
    x.comm = toy_of(c);
    x.device = on->device;
    x.member = member_of(c);
    x.comm->device->enqueue(on, fn, &x, sizeof x);
    return OK;
}

// The half of a message that waits for the other rank. In a group it is issued at the group's end.
static status issue_later(comm *c, toy_call x, bool receives, device_stream *on, err *e)
{
    toy_rank *own = toy_of(c)->own;
    if (!own->grouped) return issue(c, x, receives ? run_recv : run_await, on, e);
    if (own->count == LATER)
        return err_set(e, E_INTERNAL, "more than %d messages start together", LATER);
    x.comm = toy_of(c);
    own->later[own->count++] = (toy_later){x, on, receives};
    return OK;
}

// The receives come first: a rank that waited for its own sends before would keep back the receives
// that others wait for.
static status issue_group(toy_rank *own, err *e)
{
    status result = OK;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < own->count; i++) {
            const toy_later *x = &own->later[i];
            if (x->receives == (pass == 0))
                TRY(issue(&x->call.comm->base, x->call, x->receives ? run_recv : run_await, x->on,
                          e));
        }
done:
    own->grouped = false;
    own->count = 0;
    return result;
}

static status issue_collective(comm *c, toy_terms terms, const void *in, void *out,
                               device_stream *on, err *e)
{
    return issue(c, (toy_call){.terms = terms, .in = in, .out = out}, run_collective, on, e);
}

// ---- The table

static status toy_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                             device_stream *on, err *e)
{
    return issue_collective(c, (toy_terms){TOY_ALL_REDUCE, t, op, 0, count}, inout, inout, on, e);
}

static status toy_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                 comm_reduce_op op, device_stream *on, err *e)
{
    return issue_collective(c, (toy_terms){TOY_REDUCE_SCATTER, t, op, 0, shard_count}, in, out, on,
                            e);
}

static status toy_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                             device_stream *on, err *e)
{
    const toy_terms terms = {.kind = TOY_ALL_GATHER, .type = t, .count = shard_count};
    return issue_collective(c, terms, in, out, on, e);
}

static status toy_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e)
{
    const toy_terms terms = {.kind = TOY_BROADCAST, .type = U8, .root = root, .count = bytes};
    return issue_collective(c, terms, inout, inout, on, e);
}

static status toy_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    const toy_call offer = {.terms.count = bytes, .in = buf, .peer = peer}, await = {.peer = peer};
    toy_of(c)->sends[peer]++;
    TRY(issue(c, offer, run_offer, on, e));
    TRY(issue_later(c, await, false, on, e));
done:
    return result;
}

static status toy_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    const toy_call x = {.terms.count = bytes, .out = buf, .peer = peer};
    return issue_later(c, x, true, on, e);
}

static status toy_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    const uint64_t sent = toy_of(c)->sends[peer];
    if (messages > sent)
        return err_set(e, E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
                       (unsigned long long)messages, peer, (unsigned long long)sent);
    return issue(c, (toy_call){.terms.count = messages, .peer = peer}, run_send_wait, on, e);
}

static status toy_group_begin(comm *c, err *e)
{
    if (toy_of(c)->own->grouped) return err_set(e, E_INTERNAL, "a group of messages is open");
    toy_of(c)->own->grouped = true;
    return OK;
}

static status toy_group_end(comm *c, err *e)
{
    if (!toy_of(c)->own->grouped) return err_set(e, E_INTERNAL, "no group of messages is open");
    return issue_group(toy_of(c)->own, e);
}

static status meet_on_host(comm *c, toy_kind kind, err *e)
{
    const toy_member m = member_of(c);
    const toy_post p = {.terms.kind = kind};
    return toy_meet(&m, TOY_ON_HOST, &p, e);
}

static status toy_barrier(comm *c, err *e)
{
    return meet_on_host(c, TOY_BARRIER, e);
}

// A communicator of GPUs exchanges the handles of its memory here. This one reads no other rank's memory.
static status toy_share(comm *c, err *e)
{
    return meet_on_host(c, TOY_SHARE, e);
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
    if (--own->own->users == 0) free(own->own);
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
    TRY(meet_on_host(c, TOY_SPLIT, e)); // a rank that does not come is named
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
    .share = toy_share,
    .all_reduce = toy_all_reduce,
    .reduce_scatter = toy_reduce_scatter,
    .all_gather = toy_all_gather,
    .broadcast = toy_broadcast,
    .send = toy_send,
    .recv = toy_recv,
    .send_wait = toy_send_wait,
    .group_begin = toy_group_begin,
    .group_end = toy_group_end,
    .barrier = toy_barrier,
    .abort = toy_abort,
    .split = toy_split,
    .rank_of = toy_rank_of,
};

// Opens a communicator of the rank of `like`, from which it takes all that is not the group's.
static status open_member(const toy_comm *like, toy_group *g, const comm_rendezvous *meeting,
                          comm **out, err *e)
{
    toy_comm *c;
    const status result = alloc_zeroed(&c, 1, sizeof *c, "a communicator", e);
    *out = NULL;
    if (result != OK) return result;
    c->base = (comm){
        .ops = &TOY_OPS, .rank = meeting->rank, .size = meeting->size, .can = TOY_CAPABILITIES};
    c->world = like->world;
    c->group = g;
    c->own = like->own;
    c->own->users++;
    c->device = like->device;
    c->meeting = *meeting;
    c->deadline_ms = like->deadline_ms;
    *out = &c->base;
    return OK;
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
    TRY(alloc_zeroed(&like.own, 1, sizeof *like.own, "a communicator", e));
    TRY(open_all(o, &group, e));
    TRY(comm_rendezvous_open(&meeting, &group, sizeof group, o->deadline_ms, e));
    TRY(open_member(&like, group, &meeting, out, e));
    like.own = NULL;
done:
    free(like.own);
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
