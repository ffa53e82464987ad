// network_message.c -- the messages of communicators of network.h. A send is begun in stream order, and waits until the transport
// has taken its bytes; in a group it waits after all messages of the group have begun. The signature of a message
// travels first. Called through the table of comm.h.
#include "comm/network/network_private.h"

#include "base/clock.h"

// ---- Work on streams

static network_send *send_of(const network_call *x)
{
    return &x->comm->send[x->send % NETWORK_SENDS];
}

static status begin_send(const network_call *x, err *e)
{
    status result = OK;
    network_send *o = send_of(x);
    if (o->busy) return err_set(e, E_INTERNAL, "more than %d sends are under way", NETWORK_SENDS);
    *o = (network_send){.signature = x->signature, .busy = true};
    TRY(network_post(x, x->call.peer, false, &o->signature, sizeof o->signature,
                     &o->request[o->requests++], e));
    TRY(network_post(x, x->call.peer, false, (void *)(uintptr_t)x->call.in,
                     comm_call_bytes(&x->call), &o->request[o->requests++], e));
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
    network_send *o = send_of(x);
    const network_wait sent = {.call = x, .request = o->request, .requests = o->requests};
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = network_await(x->comm->own, &sent, e);
    if (result == OK) {
        o->busy = false;
        x->comm->passed[x->call.peer]++;
        pthread_cond_broadcast(&x->comm->own->changed);
    }
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

// r[0]: the signature, which says that the message is there; r[1]: its bytes.
static status await_message(const network_call *x, network_request r[2], err *e)
{
    network_rank *own = x->comm->own;
    network_wait w = {.call = x, .request = r, .requests = 1};
    const int64_t start = clock_ns();
    status first = OK;
    err after;
    if (x->call.visit) first = network_await(own, &w, e);
    if (x->call.visit) comm_visit_add(x->call.visit, clock_ns() - start, x->call.peer);
    w.requests = 2;
    const status all = network_await(own, &w, first == OK ? e : &after);
    return first != OK ? first : all;
}

static status run_recv(void *arg, err *e)
{
    status result = OK;
    const network_call *x = arg;
    network_rank *own = x->comm->own;
    network_header header;
    network_request r[2] = {{.handle = NULL}};
    pthread_mutex_lock(&own->lock);
    TRY(network_post(x, x->call.peer, true, &header.signature, sizeof header.signature, &r[0], e));
    r[0].header = &header;
    TRY(network_post(x, x->call.peer, true, x->call.out, comm_call_bytes(&x->call), &r[1], e));
done:
    if (result == OK) {
        result = await_message(x, r, e);
    } else if (r[0].handle) {
        err after;
        await_message(x, r, &after); // what was begun is cancelled
    }
    pthread_mutex_unlock(&own->lock);
    return result;
}

static status run_send_wait(void *arg, err *e)
{
    const network_call *x = arg;
    const network_wait sent = {.call = x,
                               .counter = &x->comm->passed[x->call.peer],
                               .target = x->ticket,
                               .awaited = x->call.peer};
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = network_await(x->comm->own, &sent, e);
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

// ---- The table

// Both ends bring the number of bytes alike.
static network_call message(network_comm *c, const comm_call *call)
{
    const comm_signature both = {.kind = CALL_SEND, .count = comm_call_bytes(call)};
    return network_call_of(c, NETWORK_BETWEEN, call, &both);
}

static status begin(const comm_message *m, device_stream *on, network_call *out, err *e)
{
    network_comm *c = network_of(m->comm);
    *out = message(c, &m->call);
    if (m->call.kind == CALL_RECV) {
        out->ticket = c->receives[m->call.peer]++;
        return OK;
    }
    out->ticket = c->sends[m->call.peer]++;
    out->send = c->sends_begun++;
    return network_enqueue(out, run_begin_send, on, e);
}

// All sends begin, then come the receives, and then the ends of sends.
status network_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    network_call x[COMM_GROUP_MESSAGES];
    for (int i = 0; i < count; i++) TRY(begin(&m[i], on, &x[i], e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_RECV) TRY(network_enqueue(&x[i], run_recv, on, e));
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND) TRY(network_enqueue(&x[i], run_end_send, on, e));
done:
    return result;
}

status network_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    network_call x = message(network_of(c), &(comm_call){.kind = CALL_SEND, .peer = peer});
    x.ticket = messages;
    return network_enqueue(&x, run_send_wait, on, e);
}
