// hier.c -- opens, splits and closes the communicator hier (hier.h), and holds its table. It finds the layout of a group
// once, when the group is opened. It has no calls over segments, so comm.c packs shards. Opened by the registry.
#include "comm/hier/hier_private.h"

#include "base/alloc.h"
#include "base/text.h"
#include "comm/comm_private.h"
#include "comm/network/tls.h"
#include "comm/solo.h"
#ifdef TRIREME_UCX
#include "comm/network/ucx.h"
#endif
#include "net/interface.h"

#include <stdlib.h>
#include <string.h>

static const comm_ops hier_ops;
static const char WHAT[] = "a communicator";
static const _Atomic int64_t NEVER = 0; // the time after which a wait for an own earlier call ends

// A group of several hosts whose layout is even takes all of these bytes, other groups take less.
const comm_capabilities HIER_CAPABILITIES = {.tree_order = true,
                                             .needs_workspace = true,
                                             .sends_wait = true,
                                             .own_thread = true,
                                             .own_bytes = 2 * NETWORK_WORK_BYTES + HIER_WORK_BYTES};

// Where a rank of a group is.
typedef struct hier_location {
    int32_t host, place,
        ranks; // the host's number, the rank's number there, and how many are there
} hier_location;

// ---- Calls

// Calls that block the host meet over the network. On one host they follow the collectives, as local has one queue.
// Memory of the arena lies at one address on all ranks of a host, so CALL_SHARE exchanges nothing.
static status issue_on_host(hier_comm *c, const comm_call *call, err *e)
{
    status result = OK;
    if (c->all) return comm_issue(c->all, call, NULL, e);
    TRY(hier_drain(c, e));
    TRY(comm_issue(c->local, call, NULL, e));
done:
    return result;
}

static status hier_issue(comm *base, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    hier_comm *c = hier_of(base);
    const hier_rank *own = c->own;
    hier_call x = {.comm = c, .call = *call, .signature = comm_call_signature(call)};
    if (!on) return issue_on_host(c, call, e);
    TRY(hier_check(c, e));
    x.ticket = (uint32_t)c->queue.issued++;
    x.what = atomic_load_explicit(
        &comm_watchdog_activity(own->world->watchdog, own->local_rank)->what, memory_order_relaxed);
    on->device->ops->call(on, hier_run_collective, &x, sizeof x);
done:
    return result;
}

static status hier_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    const hier_rank *own = hier_of(c)->own;
    return own->world->arena ? comm_arena_alloc(own->world->arena, d, bytes, out, e)
                             : comm_alloc(own->root, d, bytes, out, e);
}

static void hier_release(comm *c, device *d, void *p, size_t bytes)
{
    const hier_rank *own = hier_of(c)->own;
    if (own->world->arena)
        comm_arena_release(own->world->arena, d, p, bytes);
    else
        comm_release(own->root, d, p, bytes);
}

static void hier_abort(comm *c, const err *why)
{
    const hier_rank *own = hier_of(c)->own;
    comm_failure_set(own->world->failure, own->rank, why);
    if (own->root) comm_abort(own->root, why);
}

static void hier_set_label(comm *base, const char *label)
{
    hier_comm *c = hier_of(base);
    comm_set_label(c->local, label);
    comm_set_label(c->all, label);
    comm_set_label(c->remote, label);
}

static void hier_add_route(comm *base, int peer, text *out)
{
    const hier_comm *c = hier_of(base);
    if (c->place[peer] >= 0)
        text_add(out, "local");
    else
        c->all->ops->add_route(c->all, peer, out);
}

// ---- Closing

static void rank_leave(hier_rank *own)
{
    if (--own->users > 0) return;
    comm_close(own->root);
    free(own);
}

// The streams of the rank have no work of c any more.
static void hier_close(comm *base)
{
    hier_comm *c = hier_of(base);
    hier_rank *own = c->own;
    comm_close(c->remote);
    if (c->all != own->root) comm_close(c->all);
    comm_close(c->local);
    if (c->work) comm_arena_give(own->world->arena, c->work);
    free(c->place);
    free(c->member);
    free(c);
    rank_leave(own);
}

// ---- Opening

// locations [size] receives where each rank of c is.
static status find_locations(const hier_comm *c, hier_location *locations, err *e)
{
    const hier_location own = {.host = c->own->host,
                               .place = c->local ? c->local->rank : 0,
                               .ranks = c->local ? c->local->size : 1};
    const comm_call call = {CALL_ALL_GATHER, .type = U8, .count = sizeof own, .in = &own,
                            .out = locations};
    const comm_signature signature = comm_call_signature(&call);
    if (c->all) return network_run_now(c->all, &call, &signature, 0, NULL, e);
    for (int r = 0; r < c->base.size; r++) locations[r] = (hier_location){own.host, r, own.ranks};
    return OK;
}

static hier_layout layout_of(const hier_location *locations, int size)
{
    const int ranks = locations[0].ranks;
    if (ranks == size) return HIER_ONE_HOST;
    if (ranks == 1 || (ranks & (ranks - 1)) != 0) return HIER_ANY;
    for (int r = 0; r < size; r++)
        if (locations[r].ranks != ranks || locations[r].place != r % ranks ||
            locations[r].host != locations[r - r % ranks].host)
            return HIER_ANY;
    return HIER_EVEN;
}

// What the layout needs, and no more.
static status open_layout(hier_comm *c, const hier_location *locations, err *e)
{
    status result = OK;
    const int size = c->base.size, rank = c->base.rank;
    void *work = NULL;
    c->layout = layout_of(locations, size);
    for (int r = 0; r < size; r++) {
        c->place[r] = locations[r].host == c->own->host ? locations[r].place : -1;
        if (c->place[r] >= 0) c->member[c->place[r]] = r;
    }
    if (c->local) local_set_members(c->local, c->member);
    if (c->layout == HIER_ONE_HOST && c->all) {
        if (c->all != c->own->root) comm_close(c->all);
        c->all = NULL;
    } else if (c->layout == HIER_EVEN) {
        TRY(comm_split(c->all, c->place[rank], rank, &c->remote, e));
        TRY(comm_arena_take(c->own->world->arena, HIER_WORK_BYTES, false, &work, e));
        c->work = work;
    }
done:
    return result;
}

// Opens the communicator of a group: local, all, or both. Takes them, also where it fails.
static status group_open(hier_rank *own, comm *local, comm *all, hier_location **locations,
                         comm **out, err *e)
{
    status result = OK;
    const comm *group = all ? all : local;
    const size_t size = (size_t)group->size;
    hier_comm *c = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, WHAT, e));
    c->own = own;
    own->users++;
    c->local = local;
    c->all = all;
    local = all = NULL;
    TRY(comm_init(&c->base, &hier_ops, &HIER_CAPABILITIES, group->rank, group->size, e));
    c->base.can.open_ports = own->root && own->root->can.open_ports;
    c->limits = (doorbell_limits){.failure = own->world->failure, .timeout_ms = &NEVER};
    TRY(alloc_zeroed(&c->place, size, sizeof *c->place, WHAT, e));
    TRY(alloc_zeroed(&c->member, size, sizeof *c->member, WHAT, e));
    TRY(alloc_zeroed(locations, size, sizeof **locations, WHAT, e));
    TRY(find_locations(c, *locations, e));
    TRY(open_layout(c, *locations, e));
    *out = &c->base;
    c = NULL;
done:
    if (c) comm_close(&c->base);
    comm_close(local);
    if (all != own->root) comm_close(all);
    return result;
}

static status hier_split(comm *base, int color, int key, comm **out, err *e)
{
    status result = OK;
    hier_comm *c = hier_of(base);
    comm *local = NULL, *all = NULL;
    hier_location *locations = NULL;
    *out = NULL;
    TRY(hier_drain(c, e)); // else streams and this thread would use c->local at once
    if (c->all) TRY(comm_split(c->all, color, key, &all, e));
    if (c->local) TRY(comm_split(c->local, color, key, &local, e));
    if ((all ? all : local)->size == 1) {
        TRY(comm_solo_open_in(c->own->world, c->own->local_rank, out, e));
    } else {
        if (local && local->size == 1) {
            comm_close(local);
            local = NULL;
        }
        result = group_open(c->own, local, all, &locations, out, e);
        local = all = NULL;
    }
done:
    free(locations);
    comm_close(local);
    comm_close(all);
    return result;
}

static int hier_rank_of(const comm *c, int member)
{
    const hier_comm *h = (const hier_comm *)c;
    const comm *members = h->all ? h->all : h->local;
    return members->ops->rank_of(members, member);
}

static const comm_ops hier_ops = {
    .name = "hier",
    .close = hier_close,
    .alloc = hier_alloc,
    .release = hier_release,
    .issue = hier_issue,
    .group = hier_issue_group,
    .send_wait = hier_send_wait,
    .abort = hier_abort,
    .split = hier_split,
    .rank_of = hier_rank_of,
    .set_label = hier_set_label,
    .add_route = hier_add_route,
};

// ---- Between hosts

// ucx where this host has RDMA devices, which NCCL_IB_DISABLE=1 leaves out; else tls. TRIREME_TRANSPORT names one.
static status open_root(const comm_options *o, comm **out, err *e)
{
    const char *named = getenv("TRIREME_TRANSPORT");
    const bool is_auto = !named || strcmp(named, "auto") == 0;
    if (is_auto ? !net_interface_has_rdma() : strcmp(named, "tls") == 0) return tls_open(o, out, e);
#ifdef TRIREME_UCX
    if (is_auto || strcmp(named, "ucx") == 0) return ucx_open(o, out, e);
    return err_set(e, E_USAGE, "TRIREME_TRANSPORT: found %s; valid: auto, tls and ucx", named);
#else
    if (is_auto) return tls_open(o, out, e);
    return err_set(e, E_USAGE,
                   "TRIREME_TRANSPORT: found %s; valid: auto and tls; ucx is not built in", named);
#endif
}

static void progress(void *root)
{
    network_progress(root);
}

// Ranks of one host follow each other: a host's number is that of its first rank.
static status check_locations(const hier_location *locations, int size, err *e)
{
    for (int r = 0; r < size; r++) {
        const hier_location *before = &locations[r > 0 ? r - 1 : 0];
        const bool begins = r == 0 || before->place == before->ranks - 1;
        if (begins ? locations[r].place == 0
                   : locations[r].place == before->place + 1 && locations[r].ranks == before->ranks)
            continue;
        return err_set(e, E_USAGE,
                       "communicator hier: rank %d is number %d of %d on its host; valid are ranks "
                       "that follow each other on each host",
                       r, locations[r].place, locations[r].ranks);
    }
    return OK;
}

status hier_open(const comm_options *o, comm **out, err *e)
{
    status result = OK;
    hier_rank *own = NULL;
    comm *local = NULL;
    hier_location *locations = NULL;
    *out = NULL;
    if (!o->device->ops->call)
        FAIL(E_USAGE, "communicator hier: device %s has memory that the host cannot address",
             o->device->ops->name);
    if (o->world->ranks != o->local_size)
        FAIL(E_USAGE,
             "communicator hier: found %d ranks that share memory; valid are the %d of this host",
             o->world->ranks, o->local_size);
    TRY(alloc_zeroed(&own, 1, sizeof *own, WHAT, e));
    own->users = 1;
    own->world = o->world;
    own->rank = o->rank;
    own->local_rank = o->local_rank;
    own->host = o->rank - o->local_rank;
    if (o->size > o->local_size) TRY(open_root(o, &own->root, e));
    if (o->local_size > 1) TRY(local_open_members(o, &local, e));
    if (local && own->root) local_set_idle(local, progress, own->root);
    result = group_open(own, local, own->root, &locations, out, e);
    local = NULL;
    if (result == OK) TRY(check_locations(locations, o->size, e));
done:
    free(locations);
    comm_close(local);
    if (result != OK && own && own->root) comm_abort(own->root, e); // the others wait for this rank
    if (result != OK && *out) {
        comm_close(*out);
        *out = NULL;
    }
    if (own) rank_leave(own);
    return result;
}
