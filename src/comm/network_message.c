// network_message.c -- the messages of communicators of network.h. A send is begun in stream order, and waits until the transport
// has taken its bytes; in a group it waits after all messages of the group have begun. The terms of a message
// travel first. Called through the table of comm.h.
#include "comm/network_private.h"

// ---- Work on streams

static network_offer *offer_of(const network_call *x)
{
    return &x->comm->offer[x->offer % NETWORK_OFFERS];
}

static status begin_send(const network_call *x, err *e)
{
    status result = OK;
    network_offer *o = offer_of(x);
    if (o->busy) return err_set(e, E_INTERNAL, "more than %d sends are under way", NETWORK_OFFERS);
    *o = (network_offer){.terms = x->terms, .busy = true};
    TRY(network_post(x, x->peer, false, &o->terms, sizeof o->terms, &o->request[o->requests++], e));
    TRY(network_post(x, x->peer, false, (void *)(uintptr_t)x->in, x->terms.count,
                     &o->request[o->requests++], e));
done:
    return result;
}

static status run_begin_send(void *arg, err *e)
{
    const network_call *x = arg;
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = begin_send(x, e);
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

static status run_end_send(void *arg, err *e)
{
    const network_call *x = arg;
    network_offer *o = offer_of(x);
    const network_wait sent = {.call = x, .request = o->request, .requests = o->requests};
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = network_await(x->comm->own, &sent, e);
    if (result == OK) {
        o->busy = false;
        x->comm->sent[x->peer]++;
        pthread_cond_broadcast(&x->comm->own->changed);
    }
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

static status run_recv(void *arg, err *e)
{
    status result = OK;
    const network_call *x = arg;
    network_rank *own = x->comm->own;
    network_head head;
    network_request r[2] = {{.handle = NULL}};
    const network_wait received = {.call = x, .request = r, .requests = 2};
    pthread_mutex_lock(&own->lock);
    TRY(network_post(x, x->peer, true, &head.terms, sizeof head.terms, &r[0], e));
    r[0].head = &head;
    TRY(network_post(x, x->peer, true, x->out, x->terms.count, &r[1], e));
done:
    if (result == OK)
        result = network_await(own, &received, e);
    else if (r[0].handle) {
        err after;
        network_await(own, &received, &after); // what was begun is cancelled
    }
    pthread_mutex_unlock(&own->lock);
    return result;
}

static status run_send_wait(void *arg, err *e)
{
    const network_call *x = arg;
    const network_wait sent = {
        .call = x, .counter = &x->comm->sent[x->peer], .target = x->ticket, .awaited = x->peer};
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = network_await(x->comm->own, &sent, e);
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

// ---- The table

static network_call message(comm *c, size_t bytes, int peer)
{
    network_call x = network_call_of(c, NETWORK_BETWEEN,
                                     (network_terms){.kind = NETWORK_MESSAGE, .count = bytes});
    x.peer = peer;
    return x;
}

// The half that waits is issued at the end of the group.
static status issue_later(const network_call *x, bool receives, device_stream *on, err *e)
{
    network_rank *own = x->comm->own;
    if (!own->grouped) return network_issue(x, receives ? run_recv : run_end_send, on, e);
    if (own->laters == NETWORK_LATER)
        return err_set(e, E_INTERNAL, "more than %d messages start together", NETWORK_LATER);
    own->later[own->laters++] = (network_later){*x, on, receives};
    return OK;
}

status network_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    network_call x = message(c, bytes, peer);
    x.in = buf;
    x.ticket = x.comm->sends[peer]++;
    x.offer = x.comm->offers++;
    TRY(network_issue(&x, run_begin_send, on, e));
    TRY(issue_later(&x, false, on, e));
done:
    return result;
}

status network_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    network_call x = message(c, bytes, peer);
    x.out = buf;
    x.ticket = x.comm->receives[peer]++;
    return issue_later(&x, true, on, e);
}

status network_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    network_call x = message(c, 0, peer);
    const uint64_t issued = x.comm->sends[peer];
    if (messages > issued)
        return err_set(e, E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
                       (unsigned long long)messages, peer, (unsigned long long)issued);
    x.ticket = messages;
    return network_issue(&x, run_send_wait, on, e);
}

status network_group_begin(comm *c, err *e)
{
    network_rank *own = network_of(c)->own;
    if (own->grouped) return err_set(e, E_INTERNAL, "a group of messages is open");
    own->grouped = true;
    return OK;
}

// The sends have begun already.
status network_group_end(comm *c, err *e)
{
    status result = OK;
    network_rank *own = network_of(c)->own;
    if (!own->grouped) return err_set(e, E_INTERNAL, "no group of messages is open");
    own->grouped = false;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < own->laters; i++) {
            const network_later *l = &own->later[i];
            if (l->receives == (pass == 0))
                TRY(network_issue(&l->call, l->receives ? run_recv : run_end_send, l->on, e));
        }
done:
    own->laters = 0;
    return result;
}
