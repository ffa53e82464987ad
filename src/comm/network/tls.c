// tls.c -- the transport of the communicator tls (tls.h): how parts travel over the connections of a rank, and what follows
// a failure. Opened by the registry.
#include "comm/network/tls_private.h"

#include "base/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

// After a failure, TELL_NS bounds the time in which the other ranks are told. CLOSE_NS bounds the end of a run without one.
static const int64_t TELL_NS = 300000000, CLOSE_NS = 2000000000;
enum { EVENTS = 64, NAP_MS = 1 };

// ---- Events

// An event says that a connection can be read or written again. It is told once (EPOLLET).
static void take_events(const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        tls_peer *p = events[i].data.ptr;
        if (!p) continue; // the wake-up
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) p->readable = true;
        if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) p->writable = true;
    }
}

static bool progress(network_rank *own)
{
    tls_state *s = tls_of(own);
    struct epoll_event events[EVENTS];
    bool moved = false;
    take_events(events, epoll_wait(s->events, events, EVENTS, 0));
    for (int r = 0; r < own->size; r++)
        if (s->peer[r].link && tls_move(s, &s->peer[r])) moved = true;
    return moved;
}

// Nobody has anything to do: a part whose receive is not there may be in the way of another one.
static void sleep_for_events(network_rank *own, int most_ms)
{
    struct epoll_event events[EVENTS];
    bool kept = false;
    for (int r = 0; r < own->size; r++) kept = tls_keep(tls_of(own), &tls_of(own)->peer[r]) || kept;
    if (kept) return;
    own->sleeps = true;
    pthread_mutex_unlock(&own->lock);
    const int count = epoll_wait(tls_of(own)->events, events, EVENTS, most_ms);
    pthread_mutex_lock(&own->lock);
    own->sleeps = false;
    take_events(events, count);
}

static void wake(network_rank *own)
{
    eventfd_write(tls_of(own)->waker, 1);
}

// ---- Parts

enum { TAG_GROUP = 44, TAG_CALLER = 42 }; // bits below

static uint64_t tag_of(const network_call *x)
{
    const uint64_t ticket = x->ticket & ((UINT64_C(1) << TAG_CALLER) - 1);
    return (uint64_t)x->comm->rendezvous.group << TAG_GROUP | (uint64_t)x->caller << TAG_CALLER |
           ticket;
}

static const char *post(const network_call *x, int peer, bool receives, void *data, size_t bytes,
                        void **out)
{
    tls_state *s = tls_of(x->comm->own);
    tls_peer *p = &s->peer[x->comm->ranks[peer]];
    const tls_header header = {.frame = TLS_DATA, .tag = tag_of(x), .bytes = bytes};
    tls_request *r = tls_request_take(s, header, data, bytes);
    if (!r) return "no memory for a message is left";
    *out = r;
    if (receives)
        tls_receive(s, p, r);
    else
        tls_send(s, p, r, bytes > TLS_UNASKED_BYTES && !network_exchanges(x));
    // A rank waits after the parts of an exchange, and they leave together; a message may have no waiter for long.
    if (!network_exchanges(x) && p->link) tls_move(s, p);
    return NULL;
}

static bool test(network_rank *own, void *handle, const char **why)
{
    tls_request *r = handle;
    if (!r->is_done) return false;
    *why = NULL;
    tls_request_give(tls_of(own), r);
    return true;
}

static void cancel(network_rank *own, const network_request *r, int rank, int64_t start)
{
    tls_state *s = tls_of(own);
    (void)start;
    tls_drop(s, &s->peer[rank], r->handle);
    tls_request_give(s, r->handle);
}

static void add_route(network_rank *own, int rank, text *out)
{
    const tls_state *s = tls_of(own);
    char address[NET_ADDRESS_TEXT];
    (void)rank;
    net_address_print_host(&s->interface.address, address);
    text_addf(out, "tls/%s (%s)", s->interface.name, address);
}

// ---- Ending

// Sends what is queued, for so long at most.
static void flush(network_rank *own, int64_t until)
{
    tls_state *s = tls_of(own);
    for (bool left = true; left && clock_ns() < until;) {
        const bool moved = progress(own);
        left = false;
        for (int r = 0; r < own->size; r++) left = left || tls_has_queue(&s->peer[r]);
        if (left && !moved) poll(NULL, 0, NAP_MS);
    }
}

// Every rank that is there gets the failure behind what is queued for it.
static void tell(network_rank *own)
{
    tls_state *s = tls_of(own);
    err why = {0};
    int rank = -1;
    if (!comm_failure_get(own->world->failure, &rank, &why))
        return; // they see that this rank is gone
    for (int r = 0; r < own->size; r++)
        if (s->peer[r].link) tls_send_failure(s, &s->peer[r], rank, why.text);
}

static void end(network_rank *own)
{
    tls_state *s = tls_of(own);
    if (!s || !s->peer) return; // it was not opened
    tell(own);
    flush(own, clock_ns() + TELL_NS);
    for (int r = 0; r < own->size; r++) tls_peer_close(s, &s->peer[r], NULL);
}

// Waits until the kernels of the other ranks have all that was sent: what is left here when a socket is closed may be lost.
static void leave(network_rank *own)
{
    tls_state *s = tls_of(own);
    const int64_t until = clock_ns() + CLOSE_NS;
    flush(own, until);
    for (int r = 0; r < own->size; r++)
        if (s->peer[r].link) net_tls_finish(s->peer[r].link);
    for (int r = 0; r < own->size; r++)
        while (s->peer[r].link && !net_tls_has_left(s->peer[r].link) && clock_ns() < until)
            poll(NULL, 0, NAP_MS);
}

static void close_tls(network_rank *own, bool well)
{
    if (well && tls_of(own)->peer) leave(own);
    tls_state_close(own);
}

static const network_transport tls_transport = {
    .name = "tls",
    .open = tls_state_open,
    .connect = tls_connect,
    .progress = progress,
    .post = post,
    .test = test,
    .cancel = cancel,
    .sleep = sleep_for_events,
    .wake = wake,
    .add_route = add_route,
    .end = end,
    .close = close_tls,
};

status tls_open(const comm_options *o, comm **out, err *e)
{
    return network_open(&tls_transport, o, out, e);
}
