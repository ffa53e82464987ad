// ucx_wait.c -- how the communicator ucx waits: for work of UCX, for a rank that does not come, and for the
// failure of the run. Called by ucx*.c, always under the lock of the rank.
#include "comm/ucx_private.h"

#include "base/clock.h"
#include "base/size.h"
#include "comm/hosts.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// A thread yields SPINS times before it sleeps, and looks for failures each SLICE_MS. A wait counts at most
// COUNTED_NS of the time between two looks, because the process may be stopped. END_NS bounds what follows
// a failure, TELL_NS the part of it that tells the other ranks, NEAR_NS the wait for a send on this machine.
enum { SPINS = 200, SLICE_MS = 20, COUNTED_NS = 100000000, TEXT = 160, FAR_TRIES = 5 };
static const int64_t END_NS = 2000000000, TELL_NS = 300000000, NEAR_NS = 50000000;
enum { TAG_GROUP = 44, TAG_SIDE = 42, TAG_TICKET = 14 }; // bits below; the rank has the last 14

const char *ucx_kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [UCX_ALL_REDUCE] = "all_reduce", [UCX_REDUCE_SCATTER] = "reduce_scatter",
        [UCX_ALL_GATHER] = "all_gather", [UCX_BROADCAST] = "broadcast",
        [UCX_BARRIER] = "barrier",       [UCX_SHARE] = "share",
        [UCX_SPLIT] = "split",           [UCX_GATHER_NOW] = "the comparison of a call",
        [UCX_MESSAGE] = "a message"};
    return kind <= UCX_MESSAGE ? names[kind] : "an unknown call";
}

// ---- Failures

// Ends what is under way: endpoints that are closed by force cancel their work. UCX closes none by force whose
// losses it does not notice.
static void close_endpoints(ucx_rank *own)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    for (int r = 0; r < own->size; r++) {
        ucx_peer *p = &own->peer[r];
        if (!p->endpoint || p->is_near) continue;
        void *handle = ucp_ep_close_nbx(p->endpoint, &force);
        p->endpoint = NULL;
        if (UCS_PTR_IS_PTR(handle)) ucp_request_free(handle);
    }
}

static void await_until(ucx_rank *own, void *handle, int64_t until)
{
    if (!UCS_PTR_IS_PTR(handle)) return;
    while (ucp_request_check_status(handle) == UCS_INPROGRESS && clock_ns() < until)
        ucp_worker_progress(own->worker);
    ucp_request_free(handle);
}

// An active message with the rank and the line of the failure goes to each rank that is there.
static void tell(ucx_rank *own)
{
    err why = {0};
    const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER};
    const int64_t until = clock_ns() + TELL_NS;
    int rank = -1;
    comm_failure_get(own->world->failure, &rank, &why);
    for (int r = 0; r < own->size; r++) {
        const ucx_peer *p = &own->peer[r];
        if (!p->endpoint || p->is_near || p->lost != UCS_OK) continue;
        await_until(own,
                    ucp_am_send_nbx(p->endpoint, UCX_FAILURE_TOLD, &rank, sizeof rank, why.text,
                                    strlen(why.text), &eager),
                    until);
    }
    // What was sent at once may still lie in a queue.
    await_until(own, ucp_worker_flush_nbx(own->worker, &(ucp_request_param_t){0}), until);
}

// Tells the others, and ends all work.
static void end(ucx_rank *own)
{
    if (own->has_told) return;
    own->has_told = true;
    tell(own);
    close_endpoints(own);
    pthread_cond_broadcast(&own->changed);
}

status ucx_check(ucx_rank *own, err *e)
{
    if (!comm_failure_known(own->world->failure)) return OK;
    end(own);
    return comm_failure_error(own->world->failure, e);
}

void ucx_progress(comm *c)
{
    ucx_rank *own = ucx_of(c)->own;
    err e;
    if (pthread_mutex_trylock(&own->lock) != 0) return; // a thread that waits makes progress
    while (ucp_worker_progress(own->worker)) continue;
    ucx_check(own, &e);
    pthread_mutex_unlock(&own->lock);
}

void ucx_fail(ucx_rank *own, int rank, const err *why)
{
    pthread_mutex_lock(&own->lock);
    comm_failure_set(own->world->failure, rank, why);
    end(own);
    pthread_mutex_unlock(&own->lock);
}

static status fail_with(ucx_rank *own, const err *why, err *e)
{
    comm_failure_set(own->world->failure, -1, why);
    return ucx_check(own, e);
}

static const char *label_of(const ucx_call *x)
{
    return x->comm->base.label ? x->comm->base.label : "a group";
}

// The name of another machine with that rank, or NULL.
static const char *host_of(const ucx_rank *own, int rank)
{
    const int first = own->rank - own->local_rank;
    const bool is_here = rank >= first && rank < first + own->local_size;
    return is_here ? NULL : comm_hosts_name(own->world, rank);
}

// A rank that is gone may have been killed: then its machine knows why. What another machine knows comes later.
static status lost_error(ucx_rank *own, const ucx_call *x, int peer, ucs_status_t how, err *e)
{
    err why = {0};
    const char *host = host_of(own, x->comm->ranks[peer]);
    for (int i = 0; i < (host ? FAR_TRIES : 1); i++)
        if (comm_failure_await(own->world->failure)) return ucx_check(own, e);
    err_set(&why, E_PEER, "rank %d%s%s%s was lost before %s over %s was done: %s",
            x->comm->ranks[peer], host ? " (host " : "", host ? host : "", host ? ")" : "",
            ucx_kind_name(x->terms.kind), label_of(x), ucs_status_string(how));
    return fail_with(own, &why, e);
}

static void describe(char out[TEXT], const ucx_terms *t)
{
    const char *name = ucx_kind_name(t->kind), *type = dtype_name((dtype)t->type);
    const char *op = reduce_op_name((comm_reduce_op)t->op);
    const unsigned long long count = t->whole ? t->whole : t->count;
    if (t->kind == UCX_ALL_REDUCE)
        snprintf(out, TEXT, "%s of %llu %s (%s) by %s", name, count, type, op,
                 ucx_algorithm_name(t->algorithm));
    else if (t->kind == UCX_REDUCE_SCATTER)
        snprintf(out, TEXT, "%s of %llu %s (%s)", name, count, type, op);
    else if (t->kind == UCX_ALL_GATHER)
        snprintf(out, TEXT, "%s of %llu %s", name, count, type);
    else if (t->kind == UCX_BROADCAST)
        snprintf(out, TEXT, "%s of %llu bytes from %d", name, count, t->root);
    else
        snprintf(out, TEXT, "%s", name);
}

// Both ranks say it with the lower rank first.
static status differ_error(ucx_rank *own, const ucx_call *x, const ucx_request *r, err *e)
{
    err why = {0};
    char mine[TEXT], theirs[TEXT];
    const ucx_terms *got = &r->head->terms;
    const int me = x->comm->ranks[x->comm->base.rank], peer = x->comm->ranks[r->peer];
    if (x->terms.kind == UCX_MESSAGE) {
        err_set(&why, E_INTERNAL, "rank %d sends %llu bytes while rank %d receives %llu", peer,
                (unsigned long long)got->count, me, (unsigned long long)x->terms.count);
    } else {
        describe(mine, &x->terms);
        describe(theirs, got);
        err_set(&why, E_INTERNAL, "rank %d calls %s while rank %d calls %s", me < peer ? me : peer,
                me < peer ? mine : theirs, me < peer ? peer : me, me < peer ? theirs : mine);
    }
    comm_failure_set(own->world->failure, -1, &why); // -1: either of the two may be wrong
    end(own);
    return err_set(e, E_INTERNAL, "%s", why.text);
}

// ---- Requests

static uint64_t tag_of(const ucx_call *x, int sender)
{
    const uint64_t ticket = x->ticket & ((UINT64_C(1) << (TAG_SIDE - TAG_TICKET)) - 1);
    return (uint64_t)x->comm->meeting.group << TAG_GROUP | (uint64_t)x->side << TAG_SIDE |
           ticket << TAG_TICKET | (uint64_t)sender;
}

status ucx_post(const ucx_call *x, int peer, bool receives, void *data, size_t bytes,
                ucx_request *out, err *e)
{
    ucx_rank *own = x->comm->own;
    const ucp_request_param_t plain = {0};
    const ucx_peer *p = &own->peer[x->comm->ranks[peer]];
    *out = (ucx_request){.peer = peer, .receives = receives};
    const status failed = ucx_check(own, e);
    if (failed != OK) return failed;
    if (!receives && p->lost != UCS_OK) return lost_error(own, x, peer, p->lost, e);
    void *handle =
        receives
            ? ucp_tag_recv_nbx(own->worker, data, bytes, tag_of(x, peer), ~UINT64_C(0), &plain)
            : ucp_tag_send_nbx(p->endpoint, data, bytes, tag_of(x, x->comm->base.rank), &plain);
    if (UCS_PTR_IS_ERR(handle)) return lost_error(own, x, peer, UCS_PTR_STATUS(handle), e);
    out->handle = handle;
    if (own->sleeps) ucp_worker_signal(own->worker);
    return OK;
}

// Looks at a request once. A part that came is compared, and given away.
static status settle(ucx_rank *own, const ucx_call *x, ucx_request *r, err *e)
{
    const bool was_pending = r->handle != NULL;
    if (was_pending) {
        const ucs_status_t how = ucp_request_check_status(r->handle);
        if (how == UCS_INPROGRESS) {
            const ucs_status_t lost = own->peer[x->comm->ranks[r->peer]].lost;
            return lost == UCS_OK ? OK : lost_error(own, x, r->peer, lost, e);
        }
        ucp_request_free(r->handle);
        r->handle = NULL;
        if (how != UCS_OK && how != UCS_ERR_MESSAGE_TRUNCATED)
            return lost_error(own, x, r->peer, how, e);
    }
    if (!r->head) return OK;
    if (memcmp(&r->head->terms, &x->terms, sizeof x->terms) != 0) return differ_error(own, x, r, e);
    if (r->out && r->bytes) memcpy(r->out, r->head->data, r->bytes);
    r->head = NULL;
    return OK;
}

// After a failure: nobody writes the buffers of the requests any more when this returns. A rank of this machine
// that will take no bytes any more does not say so, but it has ended its calls soon, too.
static void cancel(ucx_rank *own, const ucx_wait *w)
{
    const int64_t start = clock_ns();
    for (int i = 0; i < w->requests; i++) {
        ucx_request *r = &w->request[i];
        if (!r->handle) continue;
        const bool is_near = own->peer[w->call->comm->ranks[r->peer]].is_near;
        const int64_t until = start + (is_near && !r->receives ? NEAR_NS : END_NS);
        if (r->receives) ucp_request_cancel(own->worker, r->handle);
        while (ucp_request_check_status(r->handle) == UCS_INPROGRESS && clock_ns() < until)
            ucp_worker_progress(own->worker);
        ucp_request_free(r->handle);
        r->handle = NULL;
    }
}

// ---- Waiting

// Sleeps until something has come, or for a slice. One thread sleeps on the worker's events.
static void sleep_for_events(ucx_rank *own)
{
    struct pollfd p = {.fd = own->fd, .events = POLLIN};
    if (own->sleeps) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SLICE_MS * 1000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&own->changed, &own->lock, &until);
        return;
    }
    if (ucp_worker_arm(own->worker) != UCS_OK) return; // something has come already
    own->sleeps = true;
    pthread_mutex_unlock(&own->lock);
    poll(&p, 1, SLICE_MS);
    pthread_mutex_lock(&own->lock);
    own->sleeps = false;
}

static void yield(ucx_rank *own)
{
    pthread_mutex_unlock(&own->lock);
    sched_yield();
    pthread_mutex_lock(&own->lock);
}

// The rank that a wait is for; -1: it is over.
static int awaited_by(const ucx_wait *w)
{
    if (w->counter) return *w->counter >= w->target ? -1 : w->awaited;
    for (int i = 0; i < w->requests; i++)
        if (w->request[i].handle) return w->request[i].peer;
    return -1;
}

static status late_error(ucx_rank *own, const ucx_wait *w, int awaited, err *e)
{
    const ucx_call *x = w->call;
    const int first = own->rank - own->local_rank, rank = x->comm->ranks[awaited];
    const comm_wait wait = {.waiting = own->rank,
                            .awaited = rank,
                            .first = first,
                            .is_elsewhere = rank < first || rank >= first + own->local_size,
                            .host = host_of(own, rank),
                            .what = x->what,
                            .call = ucx_kind_name(x->terms.kind),
                            .label = x->comm->base.label,
                            .recorder = own->world->recorder};
    const status result = comm_watchdog_error(own->world->watchdog, own->world->failure, &wait, e);
    end(own);
    return result;
}

static status await(ucx_rank *own, const ucx_wait *w, err *e)
{
    status result = OK;
    int64_t waited_ns = 0, last = clock_ns();
    for (int spins = 0;; spins++) {
        bool moved = false;
        while (ucp_worker_progress(own->worker)) moved = true;
        if (moved) pthread_cond_broadcast(&own->changed);
        TRY(ucx_check(own, e));
        for (int i = 0; i < w->requests; i++) TRY(settle(own, w->call, &w->request[i], e));
        const int awaited = awaited_by(w);
        if (awaited < 0) break;
        if (spins < SPINS) {
            yield(own);
            continue;
        }
        sleep_for_events(own);
        const int64_t now = clock_ns(), limit_ms = atomic_load(&own->world->watchdog->limit_ms);
        waited_ns += size_min(now - last, COUNTED_NS);
        last = now;
        if (limit_ms > 0 && waited_ns > limit_ms * 1000000) TRY(late_error(own, w, awaited, e));
    }
done:
    return result;
}

status ucx_await(ucx_rank *own, const ucx_wait *w, err *e)
{
    const status result = await(own, w, e);
    if (result != OK) cancel(own, w);
    pthread_cond_broadcast(&own->changed); // another thread may sleep on the events now
    return result;
}
