// p2p.c -- opens, splits and closes the communicator p2p (p2p.h), and holds its table. The hosts' side is
// a communicator `local` of the same ranks. Opened by the registry.
#include "comm/p2p/p2p_private.h"

#include "base/alloc.h"
#include "comm/comm_private.h"

#include <stdlib.h>
#include <string.h>

static const comm_ops p2p_ops;

const comm_capabilities P2P_CAPABILITIES = {.tree_order = true,
                                            .needs_workspace = true,
                                            .sends_wait = true,
                                            .device_memory = true,
                                            .can_be_recorded = true};

local_call p2p_host_call(const p2p_comm *c, const comm_call *call)
{
    const p2p_rank *own = c->own;
    local_call x = {.local = p2p_host(c),
                    .call = *call,
                    .signature = comm_call_signature(call),
                    .what = atomic_load_explicit(
                        &comm_watchdog_activity(own->world->watchdog, own->world_rank)->what,
                        memory_order_relaxed)};
    x.call.visit = NULL; // a host comes to a call long before its stream does
    return x;
}

status p2p_export(const p2p_comm *c, const void *p, size_t bytes, device_handle *out, err *e)
{
    *out = (device_handle){{0}};
    return bytes ? p2p_sharing(c)->export_memory(c->own->device, p, out, e) : OK;
}

status p2p_import(const p2p_comm *c, const device_handle *h, void **out, err *e)
{
    return p2p_sharing(c)->import_memory(c->own->device, h, out, e);
}

void p2p_abort(comm *c, const err *why)
{
    const p2p_rank *own = p2p_of(c)->own;
    comm_failure_set(own->world->failure, own->world_rank, why);
}

// Each rank sets its flags for all others, and waits for theirs.
void p2p_meet_streams(const p2p_comm *c, device_stream *on, p2p_phase phase)
{
    const int rank = c->base.rank;
    device_flag *mine[P2P_RANKS], *theirs[P2P_RANKS];
    int n = 0;
    for (int r = 0; r < c->base.size; r++) {
        if (r == rank) continue;
        mine[n] = &p2p_pair_of(c, rank, r)->meets[on->kind][phase];
        theirs[n++] = &p2p_pair_of(c, r, rank)->meets[on->kind][phase];
    }
    p2p_sharing(c)->set_flags(on, mine, n);
    p2p_sharing(c)->wait_flags(on, theirs, n);
}

// ---- The rank

static void rank_close(p2p_rank *own)
{
    if (!own) return;
    p2p_watch_stop(own);
    own->device->ops->sharing->close_imports(own->device);
    if (p2p_end_imports(own)) own->device->ops->sharing->free_exported(own->device);
    own->device->failure_of_peers = NULL;
    free(own->block);
    free(own);
}

// The communicator has no member any more that uses it.
static void rank_leave(p2p_rank *own)
{
    if (--own->users == 0) rank_close(own);
}

static status rank_open(const comm_options *o, p2p_rank **out, err *e)
{
    status result = OK;
    p2p_rank *own = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&own, 1, sizeof *own, "a communicator", e));
    own->world = o->world;
    own->world_rank = o->rank;
    own->device = o->device;
    TRY(p2p_watch_start(own, e));
    o->device->failure_arg = o->world->failure;
    o->device->failure_of_peers = comm_failure_check;
    *out = own;
    own = NULL;
done:
    free(own);
    return result;
}

// ---- Opening

// Rank 0 of a group takes memory that all see, zeroed, and tells the others where it is.
static status take_shared(p2p_comm *c, size_t bytes, void **out, err *e)
{
    status result = OK;
    comm_local *host = p2p_host(c);
    const local_call call = p2p_host_call(c, &(comm_call){.kind = CALL_SPLIT});
    err why = {0};
    *out = NULL;
    if (c->base.rank == 0) result = comm_arena_take(c->own->world->arena, bytes, true, out, &why);
    if (result != OK) {
        p2p_abort(&c->base, &why); // the others wait for it
        return err_set(e, result, "%s", why.text);
    }
    host->running = &call;
    TRY(local_announce(host, NULL, out, sizeof *out, e));
    memcpy(out, local_post(host, 0)->data, sizeof *out);
done:
    return result;
}

static size_t board_bytes(int size)
{
    return sizeof(p2p_group_memory) + (size_t)size * (size_t)size * sizeof(p2p_pair);
}

// The last member gives the memory back, and all of a process have closed the flags before.
static void board_leave(const p2p_comm *c, bool has_flags)
{
    p2p_group_memory *b = c->memory;
    const world *w = c->own->world;
    const device_sharing *s = p2p_sharing(c);
    if (has_flags && !w->as_threads) s->close_flags(c->own->device, b, true);
    const bool is_last = atomic_fetch_add(&b->members_left, 1) + 1 == c->base.size;
    if (has_flags && w->as_threads) s->close_flags(c->own->device, b, is_last);
    if (is_last) comm_arena_give(w->arena, b);
}

// Flags of the group of c, which all members can use.
static status board_open(p2p_comm *c, err *e)
{
    status result = OK;
    const size_t bytes = board_bytes(c->base.size);
    void *memory = NULL;
    TRY(take_shared(c, bytes, &memory, e));
    c->memory = memory;
    result = p2p_sharing(c)->open_flags(c->own->device, memory, bytes, e);
    if (result == OK) return OK;
    board_leave(c, false);
    c->memory = NULL;
done:
    return result;
}

// Opens the communicator of the members of `host`, which it takes over, also where it fails.
static status member_open(comm *host, p2p_rank *own, comm **out, err *e)
{
    status result = OK;
    p2p_comm *c = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, "a communicator", e));
    c->host = host;
    c->own = own;
    TRY(comm_init(&c->base, &p2p_ops, &P2P_CAPABILITIES, host->rank, host->size, e));
    if (host->size > 1) {
        TRY(board_open(c, e));
        p2p_watch_add(c);
    }
    own->users++;
    *out = &c->base;
done:
    if (result != OK && c) comm_clear(&c->base);
    if (result != OK) {
        free(c);
        comm_close(host);
    }
    return result;
}

static status p2p_split(comm *base, int color, int key, comm **out, err *e)
{
    status result = OK;
    p2p_comm *c = p2p_of(base);
    comm *host = NULL;
    *out = NULL;
    TRY(comm_split(c->host, color, key, &host, e));
    TRY(member_open(host, c->own, out, e));
done:
    return result;
}

static status p2p_issue(comm *base, const comm_call *call, device_stream *on, err *e)
{
    p2p_comm *c = p2p_of(base);
    if (on) return p2p_run_collective(c, call, on, e);
    return call->kind == CALL_SHARE ? p2p_share(c, e) : comm_issue(c->host, call, NULL, e);
}

static void p2p_set_label(comm *c, const char *label)
{
    comm_set_label(p2p_of(c)->host, label);
}

// The streams of the rank have no work of c any more.
static void p2p_close(comm *base)
{
    p2p_comm *c = p2p_of(base);
    p2p_rank *own = c->own;
    p2p_end(own);
    if (c->memory) {
        p2p_watch_remove(c);
        board_leave(c, true);
    }
    if (c->sent) own->device->ops->event_close(c->sent);
    comm_close(c->host);
    free(c);
    rank_leave(own);
}

static int p2p_rank_of(const comm *c, int member)
{
    return local_rank_of(p2p_host((const p2p_comm *)c), member);
}

static const comm_ops p2p_ops = {
    .name = "p2p",
    .close = p2p_close,
    .alloc = p2p_alloc,
    .release = p2p_release,
    .issue = p2p_issue,
    .group = p2p_issue_group,
    .send_wait = p2p_send_wait,
    .abort = p2p_abort,
    .split = p2p_split,
    .rank_of = p2p_rank_of,
    .set_label = p2p_set_label,
};

// `failure` is one for all ranks. It stays until the arena is closed, because a rank may look at it
// after all others have closed.
static status open_world(p2p_comm *c, err *e)
{
    void *memory;
    const status result = take_shared(c, sizeof(p2p_failure_record), &memory, e);
    c->own->failure = memory;
    return result;
}

status p2p_open(const comm_options *o, comm **out, err *e)
{
    status result = OK;
    p2p_rank *own = NULL;
    comm *host = NULL;
    *out = NULL;
    if (!o->device->ops->sharing)
        FAIL(E_USAGE, "communicator p2p: device %s cannot share its memory; valid is cuda",
             o->device->ops->name);
    if (o->size > P2P_RANKS)
        FAIL(E_USAGE, "communicator p2p: %d ranks; valid are 2 to %d", o->size, P2P_RANKS);
    TRY(local_open_hosts(o, "p2p", &host, e));
    TRY(rank_open(o, &own, e));
    result = member_open(host, own, out, e);
    host = NULL;
    if (result == OK) result = open_world(p2p_of(*out), e);
done:
    if (result != OK && *out) {
        comm_close(*out);
        *out = NULL;
    } else if (result != OK) {
        comm_close(host);
        rank_close(own);
    }
    return result;
}
