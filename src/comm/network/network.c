// network.c -- opens, splits and closes communicators over a transport (network.h), and holds their table. A call
// becomes work on a stream. They have no calls over segments, so comm.c packs shards. Called by tls.c, ucx.c and mpi.c.
#include "comm/network/network_private.h"

#include "base/alloc.h"
#include "comm/comm_private.h"

#include <stdlib.h>

static const comm_ops network_ops;

const comm_capabilities NETWORK_CAPABILITIES = {.tree_order = true,
                                                .needs_workspace = true,
                                                .sends_wait = true,
                                                .own_thread = true,
                                                .own_bytes = NETWORK_WORK_BYTES};

// ---- Calls

network_call network_call_of(network_comm *c, network_caller caller, const comm_call *call,
                             const comm_signature *whole)
{
    const network_rank *own = c->own;
    network_call x = {.comm = c, .caller = caller, .call = *call, .signature.call = *whole};
    if (caller != NETWORK_BETWEEN) x.ticket = c->sequence[caller].issued++;
    if (call->kind == CALL_ALL_REDUCE)
        x.signature.algorithm = (uint64_t)network_algorithm_choose(
            own->algorithm, c->base.size, call->type, comm_call_bytes(call));
    x.what = atomic_load_explicit(
        &comm_watchdog_activity(own->world->watchdog, own->local_rank)->what, memory_order_relaxed);
    return x;
}

status network_enqueue(const network_call *x, device_stream_fn fn, device_stream *on, err *e)
{
    const comm_failure *f = x->comm->own->world->failure;
    if (comm_failure_known(f)) return comm_failure_error(f, e);
    on->device->ops->call(on, fn, x, sizeof *x);
    return OK;
}

// Nobody reads the memory of another rank, so CALL_SHARE exchanges nothing.
static status network_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const comm_signature own = comm_call_signature(call);
    network_call x =
        network_call_of(network_of(c), on ? NETWORK_ON_STREAM : NETWORK_ON_HOST, call, &own);
    return on ? network_enqueue(&x, network_run_collective, on, e) : network_run_collective(&x, e);
}

status network_run_now(comm *c, const comm_call *call, const comm_signature *whole, uint64_t what,
                       comm_arrival *arrival, err *e)
{
    network_call x = network_call_of(network_of(c), NETWORK_ON_STREAM, call, whole);
    x.what = what;
    x.call.visit = NULL;
    x.arrival = arrival;
    return network_run_collective(&x, e);
}

static status network_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    (void)c;
    *out = NULL;
    return device_alloc(d, MEMORY_ZEROED, bytes, out, e);
}

static void network_release(comm *c, device *d, void *p, size_t bytes)
{
    (void)c;
    device_release(d, MEMORY_ZEROED, p, bytes);
}

static void network_abort(comm *c, const err *why)
{
    network_fail(network_of(c)->own, network_of(c)->own->rank, why);
}

// ---- Opening

static void free_member(network_comm *c)
{
    for (int s = 0; s < NETWORK_CALLERS; s++) {
        network_sequence *sequence = &c->sequence[s];
        free(sequence->sent);
        free(sequence->received);
        free(sequence->to);
        free(sequence->from);
        for (int i = 0; i < 2; i++) free(sequence->request[i]);
    }
    free(c->sends);
    free(c->receives);
    free(c->passed);
    if (c->work) device_release(c->own->device, MEMORY_DEVICE, c->work, NETWORK_WORK_BYTES);
    free(c->ranks);
    free(c);
}

static status open_sequence(network_sequence *sequence, size_t size, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    TRY(alloc_zeroed(&sequence->sent, size, sizeof *sequence->sent, what, e));
    TRY(alloc_zeroed(&sequence->received, size, sizeof *sequence->received, what, e));
    TRY(alloc_zeroed(&sequence->to, size, sizeof *sequence->to, what, e));
    TRY(alloc_zeroed(&sequence->from, size, sizeof *sequence->from, what, e));
    for (int i = 0; i < 2; i++)
        TRY(alloc_zeroed(&sequence->request[i], 4 * size, sizeof **sequence->request, what, e));
done:
    return result;
}

// Opens the communicator of a group, whose members are `ranks` among all ranks.
static status member_open(network_rank *own, const comm_rendezvous *rendezvous, const int *ranks,
                          comm **out, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    const size_t size = (size_t)rendezvous->size;
    network_comm *c = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, what, e));
    c->own = own;
    TRY(comm_init(&c->base, &own->table, &NETWORK_CAPABILITIES, rendezvous->rank, rendezvous->size,
                  e));
    c->base.can.open_ports = own->open_ports;
    c->rendezvous = *rendezvous;
    TRY(alloc_array(&c->ranks, size, sizeof *c->ranks, what, e));
    for (size_t r = 0; r < size; r++) c->ranks[r] = ranks ? ranks[r] : (int)r;
    for (int s = 0; s < NETWORK_CALLERS; s++) TRY(open_sequence(&c->sequence[s], size, e));
    TRY(alloc_zeroed(&c->sends, size, sizeof *c->sends, what, e));
    TRY(alloc_zeroed(&c->receives, size, sizeof *c->receives, what, e));
    TRY(alloc_zeroed(&c->passed, size, sizeof *c->passed, what, e));
    if (size > 1) {
        void *work = NULL;
        TRY(device_alloc(own->device, MEMORY_DEVICE, NETWORK_WORK_BYTES, &work, e));
        c->work = work;
    }
    own->users++;
    *out = &c->base;
done:
    if (result != OK && c) {
        comm_clear(&c->base);
        free_member(c);
    }
    return result;
}

static status network_split(comm *base, int color, int key, comm **out, err *e)
{
    status result = OK;
    network_comm *c = network_of(base);
    const int64_t deadline_ms = atomic_load(&c->own->world->watchdog->limit_ms);
    comm_members m = {0};
    comm_rendezvous rendezvous;
    char nothing = 0;
    *out = NULL;
    TRY(network_issue(base, &(comm_call){.kind = CALL_SPLIT}, NULL,
                      e)); // a rank that does not come is named
    TRY(comm_rendezvous_split(&c->rendezvous, color, key, deadline_ms, &m, e));
    TRY(comm_rendezvous_join(&c->rendezvous, &m, &nothing, sizeof nothing, deadline_ms, &rendezvous,
                             e));
    for (int r = 0; r < m.size; r++) m.ranks[r] = c->ranks[m.ranks[r]];
    TRY(member_open(c->own, &rendezvous, m.ranks, out, e));
done:
    free(m.ranks);
    return result;
}

// The rank is used by one less. The last one closes the transport, which sends what is under way.
static void rank_leave(network_rank *own)
{
    if (--own->users > 0) return;
    err failure;
    pthread_mutex_lock(&own->lock);
    if (own->state) own->transport->close(own, network_check(own, &failure) == OK);
    pthread_mutex_unlock(&own->lock);
    pthread_mutex_destroy(&own->lock);
    pthread_cond_destroy(&own->changed);
    free(own->lost);
    free(own->transit);
    free(own);
}

// The streams of the rank have no work of c any more.
static void network_close(comm *base)
{
    network_comm *c = network_of(base);
    network_rank *own = c->own;
    free_member(c);
    rank_leave(own);
}

static void network_add_route(comm *base, int peer, text *out)
{
    const network_comm *c = network_of(base);
    network_rank *own = c->own;
    if (!own->transport->add_route) return;
    pthread_mutex_lock(&own->lock);
    own->transport->add_route(own, c->ranks[peer], out);
    pthread_mutex_unlock(&own->lock);
}

static int network_rank_of(const comm *c, int member)
{
    return ((const network_comm *)c)->ranks[member];
}

static const comm_ops network_ops = {
    .close = network_close,
    .alloc = network_alloc,
    .release = network_release,
    .issue = network_issue,
    .group = network_issue_group,
    .send_wait = network_send_wait,
    .abort = network_abort,
    .split = network_split,
    .rank_of = network_rank_of,
    .add_route = network_add_route,
};

static status rank_open(const network_transport *transport, const comm_options *o, int algorithm,
                        network_rank **out, err *e)
{
    network_rank *own;
    pthread_condattr_t monotonic;
    *out = NULL;
    status result = alloc_zeroed(&own, 1, sizeof *own, "a communicator", e);
    if (result != OK) return result;
    own->transport = transport;
    own->table = network_ops;
    own->table.name = transport->name;
    own->world = o->world;
    own->device = o->device;
    own->rank = o->rank;
    own->size = o->size;
    own->local_rank = o->local_rank;
    own->local_size = o->local_size;
    own->algorithm = algorithm;
    own->users = 1;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&own->lock, NULL);
    pthread_cond_init(&own->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TRY(alloc_zeroed(&own->lost, (size_t)o->size, sizeof *own->lost, "a communicator", e));
    TRY(alloc_zeroed(&own->transit, (size_t)o->size, sizeof *own->transit, "a communicator", e));
    TRY(transport->open(own, o, e));
    *out = own;
done:
    if (result != OK) rank_leave(own);
    return result;
}

status network_open(const network_transport *transport, const comm_options *o, comm **out, err *e)
{
    status result = OK;
    int algorithm;
    network_rank *own = NULL;
    *out = NULL;
    if (!o->device->ops->call)
        FAIL(E_USAGE, "communicator %s: device %s has memory that the host cannot address",
             transport->name, o->device->ops->name);
    TRY(network_algorithm_named(getenv("TRIREME_ALGO"), &algorithm, e));
    const comm_rendezvous rendezvous = {
        .store = o->store, .failure = o->world->failure, .rank = o->rank, .size = o->size};
    TRY(rank_open(transport, o, algorithm, &own, e));
    TRY(member_open(own, &rendezvous, NULL, out, e));
    // A rank answers the connections of the others only while it waits here. The second turn is for answers that
    // are still queued: UCX aborts when it ends a worker with one.
    for (int turn = 0; turn < 2; turn++) {
        TRY(transport->connect(own, o->deadline_ms, e));
        TRY(comm_barrier(*out, e));
    }
done:
    if (result != OK && *out) {
        comm_close(*out);
        *out = NULL;
    }
    if (own) rank_leave(own);
    return result;
}
