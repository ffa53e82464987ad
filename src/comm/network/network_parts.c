// network_parts.c -- the parts of a call that ranks of a communicator of network.h send each other. The signature of the
// call travels before the first part of each pair of ranks, together with its bytes where these are few. So
// each rank compares its call with those of all ranks that it works with. Called by network_algorithm.c and
// network_collective.c.
#include "comm/network/network_private.h"

#include "base/clock.h"

#include <string.h>

static network_sequence *sequence_of(const network_call *x)
{
    return &x->comm->sequence[x->caller];
}

// Room for one more request.
static network_request *next_request(network_sequence *s)
{
    return &s->request[s->turn][s->requests[s->turn]++];
}

static status post(const network_call *x, int peer, bool receives, void *data, size_t bytes, err *e)
{
    return network_post(x, peer, receives, data, bytes, next_request(sequence_of(x)), e);
}

static status send_part(const network_call *x, int peer, const void *data, size_t bytes, err *e)
{
    status result = OK;
    network_sequence *sequence = sequence_of(x);
    if (!sequence->sent[peer]) {
        network_header *header = &sequence->to[peer];
        const size_t few = bytes <= NETWORK_INLINE ? bytes : 0;
        sequence->sent[peer] = true;
        header->signature = x->signature;
        header->last = sequence->last;
        if (header->last.arrived_ns) header->last.sent_ns = clock_ns();
        if (few) memcpy(header->data, data, few);
        TRY(post(x, peer, false, header, offsetof(network_header, data) + few, e));
        if (few == bytes) return OK;
    }
    TRY(post(x, peer, false, (void *)(uintptr_t)data, bytes, e));
done:
    return result;
}

static status recv_part(const network_call *x, int peer, void *data, size_t bytes, err *e)
{
    status result = OK;
    network_sequence *sequence = sequence_of(x);
    if (!sequence->received[peer]) {
        const bool few = bytes <= NETWORK_INLINE;
        network_request *r = next_request(sequence);
        sequence->received[peer] = true;
        TRY(network_post(x, peer, true, &sequence->from[peer], sizeof(network_header), r, e));
        r->header = &sequence->from[peer];
        r->out = data;
        r->bytes = few ? bytes : 0;
        if (few) return OK;
    }
    TRY(post(x, peer, true, data, bytes, e));
done:
    return result;
}

status network_send_part(const network_call *x, int peer, const void *data, size_t bytes, err *e)
{
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = send_part(x, peer, data, bytes, e);
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

status network_recv_part(const network_call *x, int peer, void *data, size_t bytes, err *e)
{
    pthread_mutex_lock(&x->comm->own->lock);
    const status result = recv_part(x, peer, data, bytes, e);
    pthread_mutex_unlock(&x->comm->own->lock);
    return result;
}

// Waits for the requests of one turn.
static status wait_turn(const network_call *x, int turn, err *e)
{
    network_rank *own = x->comm->own;
    network_sequence *sequence = sequence_of(x);
    const network_wait all = {
        .call = x, .request = sequence->request[turn], .requests = sequence->requests[turn]};
    if (all.requests == 0) return OK;
    pthread_mutex_lock(&own->lock);
    const status result = network_await(own, &all, e);
    pthread_mutex_unlock(&own->lock);
    sequence->requests[turn] = 0;
    return result;
}

status network_parts_turn(const network_call *x, err *e)
{
    network_sequence *sequence = sequence_of(x);
    const status result = wait_turn(x, 1 - sequence->turn, e);
    if (result == OK) sequence->turn = 1 - sequence->turn;
    return result;
}

status network_parts_end(const network_call *x, err *e)
{
    const network_sequence *sequence = sequence_of(x);
    err later;
    const status first = wait_turn(x, 1 - sequence->turn, e),
                 second = wait_turn(x, sequence->turn, first == OK ? e : &later);
    return first != OK ? first : second;
}

// Runs the body, and learns how long this rank has waited for the last one in it.
static status run_body(const network_call *x, status (*body)(const network_call *x, err *e), err *e)
{
    network_sequence *sequence = sequence_of(x);
    comm_arrival alone = {.by = x->comm->base.rank, .last = -1};
    comm_arrival *arrival = x->arrival ? x->arrival : x->call.visit ? &alone : NULL;
    const int64_t arrived_ns = arrival ? clock_ns() : 0;
    sequence->by = arrival ? arrival->by : -1;
    sequence->last = (network_last){.arrived_ns = arrived_ns, .by = sequence->by};
    const status result = body(x, e);
    if (!arrival || sequence->last.arrived_ns <= arrived_ns) return result;
    arrival->waited_ns = sequence->last.arrived_ns - arrived_ns;
    arrival->last = sequence->last.by;
    if (x->call.visit) comm_visit_add(x->call.visit, alone.waited_ns, alone.last);
    return result;
}

status network_run(const network_call *x, status (*body)(const network_call *x, err *e), err *e)
{
    network_rank *own = x->comm->own;
    network_sequence *sequence = sequence_of(x);
    const size_t size = (size_t)x->comm->base.size;
    // An earlier call is another stream's, which waits for any rank.
    const network_wait turn = {.call = x,
                               .counter = &sequence->finished,
                               .target = x->ticket,
                               .awaited = x->comm->base.rank};
    pthread_mutex_lock(&own->lock);
    status result = network_await(own, &turn, e);
    pthread_mutex_unlock(&own->lock);
    if (result != OK) return result;
    memset(sequence->sent, 0, size * sizeof *sequence->sent);
    memset(sequence->received, 0, size * sizeof *sequence->received);
    result = run_body(x, body, e);
    if (result != OK) {
        err after;
        network_parts_end(x, &after); // what was begun is cancelled
        return result;
    }
    pthread_mutex_lock(&own->lock);
    sequence->finished++;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    return OK;
}
