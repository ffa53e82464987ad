// toy_network.c -- see toy_network.h. A group has a table for each side. Every rank puts its call on the
// table, and the last one to come carries the collective out for all of them. One lock and one condition
// serve a group: a toy need not be fast.
#include "toy/toy_network.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A waiting rank looks for failures each SLICE_MS. A rank offers at most OFFERS messages to another one.
enum { SLICE_MS = 20, OFFERS = 16 };

typedef struct toy_table {
    uint64_t done;            // calls carried out
    uint64_t came[TOY_RANKS]; // calls to which the rank has come
    bool here[TOY_RANKS];     // has the rank come to the next one?
    comm_call call[TOY_RANKS];
} toy_table;

typedef struct toy_message {
    const void *from;
    size_t bytes;
} toy_message;

// Messages from one rank to another.
typedef struct toy_channel {
    uint64_t offering, offered, receiving, received, awaited; // calls that began, and that are done
    toy_message offer[OFFERS];                                // by number modulo OFFERS
} toy_channel;

struct toy_group {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size, members; // members that have not left
    int world_rank[TOY_RANKS];
    bool left[TOY_RANKS];
    toy_table table[TOY_SIDES];
    toy_channel channel[TOY_RANKS][TOY_RANKS]; // from row to column
};

// ---- Failures and waits; all under the lock

// The first failure of the run stays.
static status fail(const toy_member *m, const char *text, err *e)
{
    err why = {0};
    err_set(&why, E_PEER, "%s", text);
    comm_failure_set(m->world->failure, -1, &why);
    return comm_failure_error(m->world->failure, e);
}

// After a failure ranks do not wait any more, and the memory of those that have left may be gone.
static status check_failure(const toy_member *m, err *e)
{
    const comm_failure *f = m->world->failure;
    return comm_failure_known(f) ? comm_failure_error(f, e) : OK;
}

// A rank waits for others to come to a call.
typedef struct toy_wait {
    const toy_member *member;
    const char *call;
    int64_t waited_ms;
} toy_wait;

static status left_error(const toy_wait *x, int awaited, err *e)
{
    const toy_member *m = x->member;
    char text[160];
    if (comm_failure_await(m->world->failure)) return comm_failure_error(m->world->failure, e);
    snprintf(text, sizeof text, "rank %d left before %s over %s", m->group->world_rank[awaited],
             x->call, m->label ? m->label : "a group");
    return fail(m, text, e);
}

// Sleeps until something has changed, or for a short time. An error when the run has failed, when rank
// `awaited` has left, and when the wait is longer than the watchdog allows.
static status wait_change(toy_wait *x, int awaited, err *e)
{
    const toy_member *m = x->member;
    toy_group *g = m->group;
    world *w = m->world;
    struct timespec until;
    const int64_t limit_ms = atomic_load(&w->watchdog->limit_ms);
    // Ranks that brought different calls all came, so that no rank is awaited.
    if (comm_failure_known(w->failure)) return comm_failure_error(w->failure, e);
    const comm_wait wait = {.waiting = g->world_rank[m->rank],
                            .awaited = g->world_rank[awaited],
                            .ranks = w->ranks,
                            .what = m->what,
                            .call = x->call,
                            .label = m->label};
    if (g->left[awaited]) return left_error(x, awaited, e);
    comm_watchdog_wait(w->watchdog, &wait);
    if (limit_ms > 0 && x->waited_ms >= limit_ms) {
        pthread_mutex_unlock(&g->lock); // it may take seconds
        const status result = comm_watchdog_error(w->watchdog, w->failure, &wait, e);
        pthread_mutex_lock(&g->lock);
        return result;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLICE_MS * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    if (pthread_cond_timedwait(&g->changed, &g->lock, &until) != 0) x->waited_ms += SLICE_MS;
    return OK;
}

// ---- Collectives

static void all_reduce(const comm_call *call, int size)
{
    void *arrays[TOY_RANKS];
    for (int r = 0; r < size; r++) arrays[r] = call[r].out;
    reduce_arrays(arrays, size, (const void *const *)arrays, size, call->count, call->type,
                  call->op);
}

static void reduce_scatter(const comm_call *call, int size)
{
    for (int r = 0; r < size; r++) {
        const void *from[TOY_RANKS];
        void *to[1] = {call[r].out};
        for (int q = 0; q < size; q++)
            from[q] = (const char *)call[q].in + (size_t)r * comm_call_bytes(call);
        reduce_arrays(to, 1, from, size, call->count, call->type, call->op);
    }
}

static void all_gather(const comm_call *call, int size)
{
    const size_t shard = comm_call_bytes(call);
    for (int r = 0; r < size; r++)
        for (int q = 0; q < size; q++)
            memmove((char *)call[r].out + (size_t)q * shard, call[q].in, shard);
}

static void broadcast(const comm_call *call, int size)
{
    for (int r = 0; r < size; r++)
        if (r != call->peer) memcpy(call[r].out, call[call->peer].in, comm_call_bytes(call));
}

// call [size], of all ranks.
static void carry_out(const comm_call *call, int size)
{
    static void (*const run[CALL_KINDS])(const comm_call *call, int size) = {
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_BROADCAST] = broadcast,
    };
    if (call->count) run[call->kind](call, size);
}

// Every rank must bring the same call.
static status check_calls(const toy_member *m, const toy_table *t, err *e)
{
    const toy_group *g = m->group;
    const comm_signature first = comm_call_signature(&t->call[0]);
    for (int r = 1; r < g->size; r++) {
        const comm_signature other = comm_call_signature(&t->call[r]);
        char text[400], a[CALL_TEXT_BYTES], b[CALL_TEXT_BYTES];
        if (memcmp(&first, &other, sizeof first) == 0) continue;
        snprintf(text, sizeof text, "rank %d %s while rank %d %s", g->world_rank[0],
                 comm_signature_describe(&first, a), g->world_rank[r],
                 comm_signature_describe(&other, b));
        return fail(m, text, e);
    }
    return OK;
}

// The first rank that is not at the table; -1: all are.
static int first_absent(const toy_group *g, const toy_table *t)
{
    for (int r = 0; r < g->size; r++)
        if (!t->here[r]) return r;
    return -1;
}

status toy_meet(const toy_member *m, toy_side side, const comm_call *call, err *e)
{
    status result = OK;
    toy_group *g = m->group;
    toy_table *t = &g->table[side];
    toy_wait x = {.member = m, .call = comm_call_row_of(call->kind)->name};
    pthread_mutex_lock(&g->lock);
    const uint64_t ticket = t->came[m->rank]++;
    while (t->done < ticket) // an earlier call, which another stream makes
        TRY(wait_change(&x, first_absent(g, t), e));
    TRY(check_failure(m, e));
    t->call[m->rank] = *call;
    t->here[m->rank] = true;
    if (first_absent(g, t) < 0) {
        TRY(check_calls(m, t, e));
        carry_out(t->call, g->size);
        memset(t->here, 0, sizeof t->here);
        t->done++;
        pthread_cond_broadcast(&g->changed);
    }
    while (t->done == ticket) TRY(wait_change(&x, first_absent(g, t), e));
done:
    pthread_mutex_unlock(&g->lock);
    return result;
}

// ---- Messages

status toy_offer(const toy_member *m, int peer, const void *from, size_t bytes, err *e)
{
    status result = OK;
    toy_group *g = m->group;
    toy_channel *c = &g->channel[m->rank][peer];
    toy_wait x = {.member = m, .call = "recv"};
    pthread_mutex_lock(&g->lock);
    const uint64_t ticket = c->offering++;
    while (c->offered < ticket || ticket - c->received >= OFFERS) TRY(wait_change(&x, peer, e));
    c->offer[ticket % OFFERS] = (toy_message){from, bytes};
    c->offered++;
    pthread_cond_broadcast(&g->changed);
done:
    pthread_mutex_unlock(&g->lock);
    return result;
}

status toy_receive(const toy_member *m, int peer, void *to, size_t bytes, err *e)
{
    status result = OK;
    toy_group *g = m->group;
    toy_channel *c = &g->channel[peer][m->rank];
    toy_wait x = {.member = m, .call = "send"};
    char text[160];
    pthread_mutex_lock(&g->lock);
    const uint64_t ticket = c->receiving++;
    while (c->received < ticket || c->offered <= ticket) TRY(wait_change(&x, peer, e));
    TRY(check_failure(m, e));
    const toy_message *message = &c->offer[ticket % OFFERS];
    if (message->bytes != bytes) {
        snprintf(text, sizeof text, "rank %d sends %zu bytes while rank %d receives %zu",
                 g->world_rank[peer], message->bytes, g->world_rank[m->rank], bytes);
        result = fail(m, text, e);
        goto done;
    }
    if (bytes) memcpy(to, message->from, bytes);
    c->received++;
    pthread_cond_broadcast(&g->changed);
done:
    pthread_mutex_unlock(&g->lock);
    return result;
}

// The group is locked.
static status await_received(const toy_member *m, int peer, uint64_t messages, err *e)
{
    status result = OK;
    toy_wait x = {.member = m, .call = "recv"};
    while (m->group->channel[m->rank][peer].received < messages) TRY(wait_change(&x, peer, e));
done:
    return result;
}

status toy_await(const toy_member *m, int peer, uint64_t messages, err *e)
{
    pthread_mutex_lock(&m->group->lock);
    const status result = await_received(m, peer, messages, e);
    pthread_mutex_unlock(&m->group->lock);
    return result;
}

status toy_await_next(const toy_member *m, int peer, err *e)
{
    pthread_mutex_lock(&m->group->lock);
    const status result = await_received(m, peer, ++m->group->channel[m->rank][peer].awaited, e);
    pthread_mutex_unlock(&m->group->lock);
    return result;
}

// ---- Groups

status toy_group_open(int size, const int *ranks, toy_group **out, err *e)
{
    status result = OK;
    pthread_condattr_t monotonic;
    *out = NULL;
    if (size > TOY_RANKS)
        FAIL(E_USAGE, "communicator toy: %d ranks; valid are 1 to %d", size, TOY_RANKS);
    TRY(alloc_zeroed(out, 1, sizeof **out, "the toy communicator", e));
    toy_group *g = *out;
    g->size = g->members = size;
    memcpy(g->world_rank, ranks, (size_t)size * sizeof *ranks);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
done:
    return result;
}

void toy_group_leave(toy_group *g, int rank)
{
    pthread_mutex_lock(&g->lock);
    g->left[rank] = true;
    const bool last = --g->members == 0;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (!last) return;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

int toy_group_world_rank(const toy_group *g, int rank)
{
    return g->world_rank[rank];
}
