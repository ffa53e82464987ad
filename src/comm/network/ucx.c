// ucx.c -- the transport of the communicator ucx (ucx.h): how parts travel by UCX, and what follows a failure. Opened
// by the registry.
#include "comm/network/ucx_private.h"

#include "base/clock.h"

#include <poll.h>
#include <string.h>

// END_NS bounds what follows a failure, TELL_NS the part of it that tells the other ranks, NEAR_NS the wait for a send
// on this machine.
static const int64_t END_NS = 2000000000, TELL_NS = 300000000, NEAR_NS = 50000000;
enum { TAG_GROUP = 44, TAG_CALLER = 42, TAG_TICKET = 14 }; // bits below; the rank has the last 14

// ---- Failures

// Ends what is under way: endpoints that are closed by force cancel their work. UCX closes none by force whose
// losses it does not notice.
static void close_endpoints(network_rank *own)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    for (int r = 0; r < own->size; r++) {
        ucx_peer *p = &ucx_worker_of(own)->peer[r];
        if (!p->endpoint || p->is_near) continue;
        void *handle = ucx_of(own)->ep_close_nbx(p->endpoint, &force);
        p->endpoint = NULL;
        if (UCS_PTR_IS_PTR(handle)) ucx_of(own)->request_free(handle);
    }
}

static void await_until(const ucx_worker *w, void *handle, int64_t until)
{
    if (!UCS_PTR_IS_PTR(handle)) return;
    while (w->api.request_check_status(handle) == UCS_INPROGRESS && clock_ns() < until)
        w->api.worker_progress(w->worker);
    w->api.request_free(handle);
}

// An active message with the rank and the line of the failure goes to each rank that is there.
static void tell(network_rank *own)
{
    const ucx_worker *w = ucx_worker_of(own);
    err why = {0};
    const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER};
    const int64_t until = clock_ns() + TELL_NS;
    int rank = -1;
    if (!comm_failure_get(own->world->failure, &rank, &why))
        return; // they see that this rank is gone
    for (int r = 0; r < own->size; r++) {
        const ucx_peer *p = &w->peer[r];
        if (!p->endpoint || p->is_near || own->lost[r]) continue;
        await_until(w,
                    ucx_of(own)->am_send_nbx(p->endpoint, UCX_FAILURE_TOLD, &rank, sizeof rank,
                                             why.text, strlen(why.text), &eager),
                    until);
    }
    // What was sent at once may still lie in a queue.
    await_until(w, ucx_of(own)->worker_flush_nbx(w->worker, &(ucp_request_param_t){0}), until);
}

static void end(network_rank *own)
{
    if (!ucx_worker_of(own)->worker) return; // it was not opened
    tell(own);
    close_endpoints(own);
}

// A rank of this machine that will take no bytes any more does not say so, but it has ended its calls soon, too.
static void cancel(network_rank *own, const network_request *r, int rank, int64_t start)
{
    const ucx_worker *w = ucx_worker_of(own);
    const int64_t until = start + (w->peer[rank].is_near && !r->receives ? NEAR_NS : END_NS);
    if (r->receives) ucx_of(own)->request_cancel(w->worker, r->handle);
    await_until(w, r->handle, until);
}

// ---- Parts

static uint64_t tag_of(const network_call *x, int sender)
{
    const uint64_t ticket = x->ticket & ((UINT64_C(1) << (TAG_CALLER - TAG_TICKET)) - 1);
    return (uint64_t)x->comm->rendezvous.group << TAG_GROUP | (uint64_t)x->caller << TAG_CALLER |
           ticket << TAG_TICKET | (uint64_t)sender;
}

// With UCX's rendezvous the bytes of a part wait until the other rank has asked for them, behind all bytes under way.
// RDMA needs that. Else a part is sent at once, where UCX need not keep more than a few of them.
static const char *post(const network_call *x, int peer, bool receives, void *data, size_t bytes,
                        void **out)
{
    const ucx_worker *w = ucx_worker_of(x->comm->own);
    const ucx_peer *p = &w->peer[x->comm->ranks[peer]];
    const ucp_request_param_t plain = {0}, at_once = {.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL};
    const bool eager = w->copies && !p->is_near && network_exchanges(x);
    void *handle =
        receives
            ? w->api.tag_recv_nbx(w->worker, data, bytes, tag_of(x, peer), ~UINT64_C(0), &plain)
            : w->api.tag_send_nbx(p->endpoint, data, bytes, tag_of(x, x->comm->base.rank),
                                  eager ? &at_once : &plain);
    if (UCS_PTR_IS_ERR(handle)) return w->api.status_string(UCS_PTR_STATUS(handle));
    *out = handle;
    return NULL;
}

static bool test(network_rank *own, void *handle, const char **why)
{
    (void)own;
    const ucs_status_t how = ucx_of(own)->request_check_status(handle);
    if (how == UCS_INPROGRESS) return false;
    ucx_of(own)->request_free(handle);
    *why =
        how == UCS_OK || how == UCS_ERR_MESSAGE_TRUNCATED ? NULL : ucx_of(own)->status_string(how);
    return true;
}

static bool progress(network_rank *own)
{
    return ucx_of(own)->worker_progress(ucx_worker_of(own)->worker) != 0;
}

static void sleep_for_events(network_rank *own, int most_ms)
{
    struct pollfd p = {.fd = ucx_worker_of(own)->fd, .events = POLLIN};
    if (ucx_of(own)->worker_arm(ucx_worker_of(own)->worker) != UCS_OK)
        return; // something has come already
    own->sleeps = true;
    pthread_mutex_unlock(&own->lock);
    poll(&p, 1, most_ms);
    pthread_mutex_lock(&own->lock);
    own->sleeps = false;
}

static void wake(network_rank *own)
{
    ucx_of(own)->worker_signal(ucx_worker_of(own)->worker);
}

static const network_transport ucx_transport = {
    .name = "ucx",
    .open = ucx_worker_open,
    .connect = ucx_worker_connect,
    .progress = progress,
    .post = post,
    .test = test,
    .cancel = cancel,
    .sleep = sleep_for_events,
    .wake = wake,
    .add_route = ucx_add_route,
    .end = end,
    .close = ucx_worker_close,
};

status ucx_open(const comm_options *o, comm **out, err *e)
{
    return network_open(&ucx_transport, o, out, e);
}
