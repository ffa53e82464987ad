// network_wait.c -- how communicators of network.h wait: for work of the transport, for a rank that does not come,
// and for the failure of the run. Called by network*.c, always under the lock of the rank.
#include "comm/network/network_private.h"

#include "base/clock.h"
#include "base/size.h"
#include "rendezvous/hosts.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// A thread yields SPINS times before it sleeps, and looks for failures each SLICE_MS. It yields no longer than that,
// because only a rank that sleeps says for whom it waits. A wait counts at most COUNTED_NS of the time between two looks,
// because the process may be stopped.
enum {
    SPINS = 200,
    SLICE_MS = 20,
    COUNTED_NS = 100000000,
    TEXT = CALL_TEXT_BYTES + 32,
    FAR_TRIES = 5,
    DRIFT_SHARE = 10000, // two clocks drift apart by less than this share of the time
};

static const char *name_of(comm_call_kind k)
{
    return comm_call_row_of(k)->is_message ? "a message" : comm_call_row_of(k)->name;
}

// ---- Failures

// Tells the others, and ends all work.
static void end(network_rank *own)
{
    if (own->has_reported) return;
    own->has_reported = true;
    if (own->transport->end) own->transport->end(own);
    pthread_cond_broadcast(&own->changed);
}

status network_check(network_rank *own, err *e)
{
    if (!comm_failure_known(own->world->failure)) return OK;
    end(own);
    return comm_failure_error(own->world->failure, e);
}

void network_progress(comm *c)
{
    network_rank *own = network_of(c)->own;
    err e;
    if (pthread_mutex_trylock(&own->lock) != 0) return; // a thread that waits makes progress
    while (own->transport->progress(own)) continue;
    network_check(own, &e);
    pthread_mutex_unlock(&own->lock);
}

void network_fail(network_rank *own, int rank, const err *why)
{
    pthread_mutex_lock(&own->lock);
    comm_failure_set(own->world->failure, rank, why);
    end(own);
    pthread_mutex_unlock(&own->lock);
}

static status fail_with(network_rank *own, const err *why, err *e)
{
    status result = OK;
    comm_failure_set(own->world->failure, -1, why);
    TRY(network_check(own, e));
    FAIL(why->code, "%s", why->text); // another rank has begun to write a failure, and died
done:
    return result;
}

static const char *label_of(const network_call *x)
{
    return x->comm->base.label ? x->comm->base.label : "a group";
}

// The name of another machine with that rank, or NULL.
static const char *host_of(const network_rank *own, int rank)
{
    const int first = own->rank - own->local_rank;
    const bool is_here = rank >= first && rank < first + own->local_size;
    return is_here ? NULL : comm_hosts_name(own->world, rank);
}

// A rank that is gone may have been killed: then its machine knows why. What another machine knows comes later.
static status lost_error(network_rank *own, const network_call *x, int peer, const char *how,
                         err *e)
{
    err why = {0};
    const char *host = host_of(own, x->comm->ranks[peer]);
    for (int i = 0; i < (host ? FAR_TRIES : 1); i++)
        if (comm_failure_await(own->world->failure)) return network_check(own, e);
    err_set(&why, E_PEER, "rank %d%s%s%s was lost before %s over %s was done: %s",
            x->comm->ranks[peer], host ? " (host " : "", host ? host : "", host ? ")" : "",
            name_of(x->call.kind), label_of(x), how);
    return fail_with(own, &why, e);
}

// An all_reduce has an algorithm, too.
static void describe(char out[TEXT], const network_signature *s)
{
    char call[CALL_TEXT_BYTES];
    const bool sums = s->call.kind == CALL_ALL_REDUCE;
    snprintf(out, TEXT, "%s%s%s", comm_signature_describe(&s->call, call), sums ? " by " : "",
             sums ? network_algorithm_name((int)s->algorithm) : "");
}

// Both ranks say it with the lower rank first.
static status differ_error(network_rank *own, const network_call *x, const network_request *r,
                           err *e)
{
    err why = {0};
    char mine[TEXT], theirs[TEXT];
    const network_signature *got = &r->header->signature;
    const int me = x->comm->ranks[x->comm->base.rank], peer = x->comm->ranks[r->peer];
    if (x->caller == NETWORK_BETWEEN) {
        err_set(&why, E_INTERNAL, "rank %d sends %llu bytes while rank %d receives %llu", peer,
                (unsigned long long)got->call.count, me,
                (unsigned long long)x->signature.call.count);
    } else {
        describe(mine, &x->signature);
        describe(theirs, got);
        err_set(&why, E_INTERNAL, "rank %d %s while rank %d %s", me < peer ? me : peer,
                me < peer ? mine : theirs, me < peer ? peer : me, me < peer ? theirs : mine);
    }
    comm_failure_set(own->world->failure, -1, &why); // -1: either of the two may be wrong
    end(own);
    return err_set(e, E_INTERNAL, "%s", why.text);
}

// ---- Requests

status network_post(const network_call *x, int peer, bool receives, void *data, size_t bytes,
                    network_request *out, err *e)
{
    network_rank *own = x->comm->own;
    const char *lost = own->lost[x->comm->ranks[peer]];
    *out = (network_request){.peer = peer, .receives = receives};
    const status failed = network_check(own, e);
    if (failed != OK) return failed;
    if (receives || !lost)
        lost = own->transport->post(x, peer, receives, data, bytes, &out->handle);
    if (lost) return lost_error(own, x, peer, lost, e);
    if (own->sleeps) own->transport->wake(own);
    return OK;
}

// A header that was there when this rank came is seen late: then the rank that sent it seems to have come with this one,
// and not after it. So nobody is charged with a wait that was none.
static void note_last(const network_call *x, int peer, const network_last *theirs)
{
    network_sequence *s = &x->comm->sequence[x->caller];
    network_transit *t = &x->comm->own->transit[x->comm->ranks[peer]];
    if (!s->last.arrived_ns || !theirs->sent_ns) return;
    const int64_t now = clock_ns(), transit = now - theirs->sent_ns,
                  drifted = t->least_ns + (now - t->seen_ns) / DRIFT_SHARE;
    t->least_ns = t->seen_ns && drifted < transit ? drifted : transit;
    t->seen_ns = now;
    const int64_t arrived_ns = theirs->arrived_ns + t->least_ns;
    if (arrived_ns > s->last.arrived_ns && theirs->by != s->by) // this rank's own comes back, too
        s->last = (network_last){.arrived_ns = arrived_ns, .by = theirs->by};
}

// Looks at a request once. A part that came is compared, and given away.
static status settle(network_rank *own, const network_call *x, network_request *r, err *e)
{
    if (r->handle) {
        const char *how = NULL;
        if (!own->transport->test(own, r->handle, &how)) {
            how = own->lost[x->comm->ranks[r->peer]];
            return how ? lost_error(own, x, r->peer, how, e) : OK;
        }
        r->handle = NULL;
        if (how) return lost_error(own, x, r->peer, how, e);
    }
    if (!r->header) return OK;
    if (memcmp(&r->header->signature, &x->signature, sizeof x->signature) != 0)
        return differ_error(own, x, r, e);
    if (x->caller != NETWORK_BETWEEN) note_last(x, r->peer, &r->header->last);
    if (r->out && r->bytes) memcpy(r->out, r->header->data, r->bytes);
    r->header = NULL;
    return OK;
}

// After a failure: nobody writes the buffers of the requests any more when this returns.
static void cancel(network_rank *own, const network_wait *w)
{
    const int64_t start = clock_ns();
    for (int i = 0; i < w->requests; i++) {
        network_request *r = &w->request[i];
        if (!r->handle) continue;
        own->transport->cancel(own, r, w->call->comm->ranks[r->peer], start);
        r->handle = NULL;
    }
}

// ---- Waiting

// Sleeps until something has come, or for a slice. One thread sleeps on the events of the transport.
static void sleep_for_events(network_rank *own)
{
    if (!own->sleeps) {
        own->transport->sleep(own, SLICE_MS);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLICE_MS * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&own->changed, &own->lock, &until);
}

static void yield(network_rank *own)
{
    pthread_mutex_unlock(&own->lock);
    sched_yield();
    pthread_mutex_lock(&own->lock);
}

// The rank that a wait is for; -1: it is over.
static int awaited_by(const network_wait *w)
{
    if (w->counter) return *w->counter >= w->target ? -1 : w->awaited;
    for (int i = 0; i < w->requests; i++)
        if (w->request[i].handle) return w->request[i].peer;
    return -1;
}

static comm_wait wait_of(const network_rank *own, const network_wait *w, int awaited)
{
    const network_call *x = w->call;
    return (comm_wait){.waiting = own->rank,
                       .awaited = x->comm->ranks[awaited],
                       .first = own->rank - own->local_rank,
                       .ranks = own->local_size,
                       .what = x->what,
                       .call = name_of(x->call.kind),
                       .label = x->comm->base.label,
                       .last_calls = &own->world->last_calls};
}

// Without the lock, because it may take seconds.
static status late_error(network_rank *own, const comm_wait *wait, err *e)
{
    pthread_mutex_unlock(&own->lock);
    const status result = comm_watchdog_error(own->world->watchdog, own->world->failure, wait, e);
    pthread_mutex_lock(&own->lock);
    end(own);
    return result;
}

static status await(network_rank *own, const network_wait *w, err *e)
{
    status result = OK;
    const int64_t start = clock_ns();
    int64_t waited_ns = 0, last = start;
    for (int spins = 0;; spins++) {
        bool moved = false;
        while (own->transport->progress(own)) moved = true;
        if (moved) pthread_cond_broadcast(&own->changed);
        TRY(network_check(own, e));
        for (int i = 0; i < w->requests; i++) TRY(settle(own, w->call, &w->request[i], e));
        const int awaited = awaited_by(w);
        if (awaited < 0) break;
        if (spins < SPINS && clock_ns() - start < SLICE_MS * 1000000) {
            yield(own);
            continue;
        }
        sleep_for_events(own);
        const int64_t now = clock_ns(), limit_ms = atomic_load(&own->world->watchdog->limit_ms);
        waited_ns += size_min(now - last, COUNTED_NS);
        last = now;
        const comm_wait wait = wait_of(own, w, awaited);
        comm_watchdog_wait(own->world->watchdog, &wait);
        if (limit_ms > 0 && waited_ns > limit_ms * 1000000) TRY(late_error(own, &wait, e));
    }
done:
    return result;
}

status network_await(network_rank *own, const network_wait *w, err *e)
{
    const status result = await(own, w, e);
    if (result != OK) cancel(own, w);
    pthread_cond_broadcast(&own->changed); // another thread may sleep on the events now
    return result;
}
