// store_serve.c -- see store_serve.h. Each kind of request is one row of SERVE.
#include "rendezvous/store_serve.h"

#include "base/clock.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <string.h>

// A request that has been taken apart.
typedef struct request {
    store_request header;
    char key[STORE_KEY_BYTES];
    store_value value, expected;
} request;

static void reply(store_client *c, store_verdict verdict, int64_t number, store_value v)
{
    unsigned char frame[STORE_REPLY_MOST];
    const store_reply header = {
        .verdict = (uint8_t)verdict, .value_bytes = (uint16_t)v.bytes, .number = number};
    const size_t bytes = sizeof header + v.bytes;
    memcpy(frame, &header, sizeof header);
    if (v.bytes) memcpy(frame + sizeof header, v.data, v.bytes);
    net_seal(&c->session, frame, bytes, frame + bytes);
    bufferevent_write(c->io, frame, bytes + NET_MAC_BYTES);
}

static void end_wait(store_client *c)
{
    event_del(c->late);
    c->waits = false;
}

// Replies to all clients that waited for the key.
static void wake(store_waiter *w, store_value v)
{
    for (store_waiter *next; w; w = next) {
        store_client *c = (store_client *)w;
        next = w->next;
        end_wait(c);
        reply(c, STORE_DONE, 0, c->wants_value ? v : (store_value){0});
    }
}

// Sets the key and replies with `answer` to the client itself.
static void put(store_client *c, const char *key, store_value v, int64_t number, store_value answer)
{
    store_waiter *woken = NULL;
    if (store_table_set(c->service->table, key, v, &woken, NULL) != OK)
        return reply(c, STORE_FULL, 0, (store_value){0});
    wake(woken, v);
    reply(c, STORE_DONE, number, answer);
}

static void serve_set(store_client *c, const request *q)
{
    put(c, q->key, q->value, 0, (store_value){0});
}

static void wait_for(store_client *c, const request *q, bool wants_value)
{
    store_value v;
    if (store_table_get(c->service->table, q->key, &v))
        return reply(c, STORE_DONE, 0, wants_value ? v : (store_value){0});
    const int64_t wait_ms = q->header.number < STORE_MOST_MS ? q->header.number : STORE_MOST_MS;
    if (wait_ms <= 0) return reply(c, STORE_LATE, 0, (store_value){0});
    if (store_table_wait(c->service->table, q->key, &c->waiter, NULL) != OK)
        return reply(c, STORE_FULL, 0, (store_value){0});
    const struct timeval limit = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    c->waits = true;
    c->wants_value = wants_value;
    evtimer_add(c->late, &limit);
}

static void serve_get(store_client *c, const request *q)
{
    wait_for(c, q, true);
}

static void serve_wait(store_client *c, const request *q)
{
    wait_for(c, q, false);
}

static void serve_add(store_client *c, const request *q)
{
    int64_t number = 0;
    store_value old;
    if (store_table_get(c->service->table, q->key, &old)) {
        if (old.bytes != sizeof number)
            return reply(c, STORE_NO_NUMBER, (int64_t)old.bytes, (store_value){0});
        memcpy(&number, old.data, sizeof number);
    }
    number = (int64_t)((uint64_t)number + (uint64_t)q->header.number);
    put(c, q->key, (store_value){&number, sizeof number}, number, (store_value){0});
}

static void serve_remove(store_client *c, const request *q)
{
    store_table_remove(c->service->table, q->key);
    reply(c, STORE_DONE, 0, (store_value){0});
}

static void serve_compare(store_client *c, const request *q)
{
    store_value old = {0};
    store_table_get(c->service->table, q->key, &old);
    if (old.bytes == q->expected.bytes &&
        (old.bytes == 0 || memcmp(old.data, q->expected.data, old.bytes) == 0))
        return put(c, q->key, q->value, 0, q->value);
    reply(c, STORE_DONE, 0, old);
}

static void serve_on_disconnect(store_client *c, const request *q)
{
    store_on_disconnect *w = &c->on_disconnect;
    const int64_t ms = q->header.number < STORE_MOST_MS ? q->header.number : STORE_MOST_MS;
    strcpy(w->key, q->key);
    if (q->value.bytes) memcpy(w->value, q->value.data, q->value.bytes);
    w->bytes = q->value.bytes;
    w->limit = (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_del(w->silence);
    if (w->bytes && ms > 0) evtimer_add(w->silence, &w->limit);
    reply(c, STORE_DONE, 0, (store_value){0});
}

static void serve_clock(store_client *c, const request *q)
{
    const uint64_t *identity = &c->service->clock;
    (void)q;
    reply(c, STORE_DONE, clock_ns(), (store_value){identity, sizeof *identity});
}

static void (*const SERVE[STORE_OPS])(store_client *c, const request *q) = {
    [STORE_SET] = serve_set,
    [STORE_GET] = serve_get,
    [STORE_WAIT] = serve_wait,
    [STORE_ADD] = serve_add,
    [STORE_REMOVE] = serve_remove,
    [STORE_COMPARE] = serve_compare,
    [STORE_ON_DISCONNECT] = serve_on_disconnect,
    [STORE_CLOCK] = serve_clock,
};

static size_t length_of(const store_request *header)
{
    return sizeof *header + header->key_bytes + header->value_bytes + header->expected_bytes;
}

static bool is_valid(const store_request *header)
{
    return header->op < STORE_OPS && header->key_bytes > 0 && header->key_bytes < STORE_KEY_BYTES &&
           header->value_bytes <= STORE_VALUE_BYTES && header->expected_bytes <= STORE_VALUE_BYTES;
}

bool store_serve_ready(store_client *c, bool *valid)
{
    struct evbuffer *in = bufferevent_get_input(c->io);
    store_request header;
    *valid = true;
    if (evbuffer_copyout(in, &header, sizeof header) < (ev_ssize_t)sizeof header) return false;
    *valid = is_valid(&header);
    const size_t bytes = length_of(&header);
    if (!*valid || evbuffer_get_length(in) < bytes + NET_MAC_BYTES) return false;
    const unsigned char *frame = evbuffer_pullup(in, (ev_ssize_t)(bytes + NET_MAC_BYTES));
    *valid = frame && net_seal_check(&c->session, frame, bytes, frame + bytes);
    return *valid;
}

// Every request shows that the client is alive.
static void note_life(store_client *c)
{
    if (evtimer_pending(c->on_disconnect.silence, NULL))
        evtimer_add(c->on_disconnect.silence, &c->on_disconnect.limit);
}

void store_serve(store_client *c)
{
    unsigned char frame[STORE_REQUEST_MOST];
    request q = {0};
    struct evbuffer *in = bufferevent_get_input(c->io);
    evbuffer_copyout(in, &q.header, sizeof q.header);
    evbuffer_remove(in, frame, length_of(&q.header) + NET_MAC_BYTES);
    const unsigned char *next = frame + sizeof q.header;
    memcpy(q.key, next, q.header.key_bytes), next += q.header.key_bytes;
    q.value = (store_value){next, q.header.value_bytes};
    q.expected = (store_value){next + q.header.value_bytes, q.header.expected_bytes};
    note_life(c);
    SERVE[q.header.op](c, &q);
}

void store_serve_late(store_client *c)
{
    store_table_leave(c->service->table, &c->waiter);
    c->waits = false;
    reply(c, STORE_LATE, 0, (store_value){0});
}

void store_serve_silent(store_client *c)
{
    store_on_disconnect *w = &c->on_disconnect;
    store_waiter *woken = NULL;
    store_value v = {w->value, w->bytes}, old;
    if (!w->bytes || store_table_get(c->service->table, w->key, &old)) return;
    // A full store cannot take the value. Those who wait find out by their deadlines.
    if (store_table_set(c->service->table, w->key, v, &woken, NULL) == OK) wake(woken, v);
}

void store_serve_leave(store_client *c)
{
    store_table_leave(c->service->table, &c->waiter);
    store_serve_silent(c);
}
