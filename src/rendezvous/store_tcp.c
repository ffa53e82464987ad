// store_tcp.c -- the client of the TCP store. See store.h, store_wire.h and store_server.h.
//
// Opened by every agent and every rank, each with a connection of its own. One call is under way at a time;
// threads of a rank take turns. A reply that does not come is E_IO: the host of the store is lost.
#include "rendezvous/store_tcp.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "net/authenticate.h"
#include "net/socket.h"
#include "rendezvous/store_wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// A reply is awaited for the call's own deadline and this long. A client with an action on disconnect gives up before
// the server takes it for lost: then it can still end what nobody else may do twice.
enum { REPLY_MS = 20000, SILENCE_SHARE = 2, AGAIN_MS = 20, CLOCK_CALLS = 16 };

typedef struct store_tcp {
    comm_store base;
    pthread_mutex_t turn;
    int fd; // -1: lost
    net_session session;
    int64_t reply_ms;
    char address[NET_ADDRESS_TEXT];
} store_tcp;

// A request with what it carries, and the reply with its value.
typedef struct store_call {
    store_op op;
    const char *key;
    store_value value, expected;
    int64_t number, deadline_ms;
    int64_t sent_ns, got_ns; // clock_ns before the request and after the reply
    store_reply reply;
    char got[STORE_VALUE_BYTES];
} store_call;

static store_tcp *tcp_of(comm_store *s)
{
    return (store_tcp *)s;
}

static size_t write_request(store_tcp *t, const store_call *c,
                            unsigned char out[STORE_REQUEST_MOST])
{
    const size_t key_bytes = strlen(c->key);
    const store_request header = {.op = (uint8_t)c->op,
                                  .key_bytes = (uint8_t)key_bytes,
                                  .value_bytes = (uint16_t)c->value.bytes,
                                  .expected_bytes = (uint16_t)c->expected.bytes,
                                  .number = c->number};
    unsigned char *next = out;
    memcpy(next, &header, sizeof header), next += sizeof header;
    memcpy(next, c->key, key_bytes), next += key_bytes;
    if (c->value.bytes) memcpy(next, c->value.data, c->value.bytes), next += c->value.bytes;
    if (c->expected.bytes)
        memcpy(next, c->expected.data, c->expected.bytes), next += c->expected.bytes;
    net_seal(&t->session, out, (size_t)(next - out), next);
    return (size_t)(next - out) + NET_MAC_BYTES;
}

static status read_reply(store_tcp *t, store_call *c, int64_t deadline_ns, err *e)
{
    status result = OK;
    unsigned char frame[STORE_REPLY_MOST];
    TRY(net_read(t->fd, frame, sizeof c->reply, deadline_ns, e));
    memcpy(&c->reply, frame, sizeof c->reply);
    const size_t value = c->reply.value_bytes, bytes = sizeof c->reply + value;
    if (value > STORE_VALUE_BYTES || c->reply.verdict > STORE_NO_NUMBER)
        FAIL(E_IO, "a reply that is no reply of a store");
    TRY(net_read(t->fd, frame + sizeof c->reply, value + NET_MAC_BYTES, deadline_ns, e));
    if (!net_seal_check(&t->session, frame, bytes, frame + bytes))
        FAIL(E_IO, "a reply that was changed on its way");
    memcpy(c->got, frame + sizeof c->reply, value);
done:
    return result;
}

static status exchange(store_tcp *t, store_call *c, err *e)
{
    status result = OK;
    unsigned char request[STORE_REQUEST_MOST];
    const int64_t deadline_ns = clock_ns() + (c->deadline_ms + t->reply_ms) * INT64_C(1000000);
    if (t->fd < 0) FAIL(E_IO, "the connection was lost before");
    const size_t bytes = write_request(t, c, request);
    c->sent_ns = clock_ns();
    TRY(net_write(t->fd, request, bytes, deadline_ns, e));
    TRY(read_reply(t, c, deadline_ns, e));
    c->got_ns = clock_ns();
done:
    // The bytes after a failure would be the reply to another request.
    if (result != OK && t->fd >= 0) close(t->fd), t->fd = -1;
    return result;
}

static status verdict(const store_call *c, err *e)
{
    switch (c->reply.verdict) {
    case STORE_DONE:
        return OK;
    case STORE_LATE:
        return err_set(e, E_PEER, "key %s of a store: no rank set it within %lld ms", c->key,
                       (long long)c->deadline_ms);
    case STORE_FULL:
        return err_set(e, E_FIT, "key %s of a store: it is full", c->key);
    default:
        return err_set(e, E_USAGE, "key %s of a store: its value of %lld bytes is no number",
                       c->key, (long long)c->reply.number);
    }
}

static status call(comm_store *s, store_call *c, err *e)
{
    store_tcp *t = tcp_of(s);
    err why = {0};
    pthread_mutex_lock(&t->turn);
    const status result = exchange(t, c, &why);
    pthread_mutex_unlock(&t->turn);
    if (result != OK) return err_set(e, E_IO, "the store at %s: %s", t->address, why.text);
    return verdict(c, e);
}

static status tcp_set(comm_store *s, const char *key, const void *value, size_t bytes,
                      int64_t deadline_ms, err *e)
{
    store_call c = {STORE_SET, key, .value = {value, bytes}, .deadline_ms = deadline_ms};
    return call(s, &c, e);
}

static status copy_value(const store_call *c, void *out, size_t room, size_t *bytes, err *e)
{
    *bytes = c->reply.value_bytes;
    if (*bytes > room)
        return err_set(e, E_USAGE,
                       "key %s of a store: its value has %zu bytes, the reader has room for %zu",
                       c->key, *bytes, room);
    if (*bytes) memcpy(out, c->got, *bytes);
    return OK;
}

static status tcp_get(comm_store *s, const char *key, void *out, size_t room, size_t *bytes,
                      int64_t deadline_ms, err *e)
{
    status result = OK;
    store_call c = {STORE_GET, key, .number = deadline_ms, .deadline_ms = deadline_ms};
    TRY(call(s, &c, e));
    TRY(copy_value(&c, out, room, bytes, e));
done:
    return result;
}

static status tcp_wait(comm_store *s, const char *key, int64_t deadline_ms, err *e)
{
    store_call c = {STORE_WAIT, key, .number = deadline_ms, .deadline_ms = deadline_ms};
    return call(s, &c, e);
}

static status tcp_add(comm_store *s, const char *key, int64_t amount, int64_t *sum,
                      int64_t deadline_ms, err *e)
{
    status result = OK;
    store_call c = {STORE_ADD, key, .number = amount, .deadline_ms = deadline_ms};
    TRY(call(s, &c, e));
    *sum = c.reply.number;
done:
    return result;
}

static status tcp_remove(comm_store *s, const char *key, int64_t deadline_ms, err *e)
{
    store_call c = {STORE_REMOVE, key, .deadline_ms = deadline_ms};
    return call(s, &c, e);
}

static status tcp_compare(comm_store *s, const char *key, store_value expected, store_value value,
                          void *out, size_t room, size_t *bytes, int64_t deadline_ms, err *e)
{
    status result = OK;
    store_call c = {STORE_COMPARE, key, value, expected, .deadline_ms = deadline_ms};
    TRY(call(s, &c, e));
    TRY(copy_value(&c, out, room, bytes, e));
done:
    return result;
}

// The times at which the store's host has answered lie between those at which this one has asked and heard.
static status tcp_clock(comm_store *s, store_clock *out, err *e)
{
    status result = OK;
    const uint64_t own = clock_identity();
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < CLOCK_CALLS; i++) {
        store_call c = {.op = STORE_CLOCK, .key = "clock"};
        uint64_t theirs = 0;
        size_t bytes;
        TRY(call(s, &c, e));
        TRY(copy_value(&c, &theirs, sizeof theirs, &bytes, e));
        if (own && theirs == own) {
            *out = (store_clock){0};
            break;
        }
        const int64_t took_ns = c.got_ns - c.sent_ns;
        if (took_ns >= least_ns) continue;
        least_ns = took_ns;
        *out = (store_clock){.offset_ns = c.reply.number - c.sent_ns - took_ns / 2,
                             .error_ns = took_ns / 2 + 1};
    }
done:
    return result;
}

status comm_store_tcp_set_on_disconnect(comm_store *s, const char *key, store_value value,
                                        int64_t silent_ms, err *e)
{
    status result = OK;
    store_call c = {STORE_ON_DISCONNECT, key, value, .number = silent_ms};
    const int64_t most_ms = silent_ms / SILENCE_SHARE;
    TRY(call(s, &c, e));
    tcp_of(s)->reply_ms = silent_ms > 0 && most_ms < REPLY_MS ? most_ms : REPLY_MS;
done:
    return result;
}

void comm_store_tcp_wait_long(comm_store *s)
{
    tcp_of(s)->reply_ms = STORE_MOST_MS;
}

status comm_store_tcp_own(comm_store *s, net_address *out, err *e)
{
    store_tcp *t = tcp_of(s);
    out->bytes = sizeof out->raw;
    if (getsockname(t->fd, (struct sockaddr *)&out->raw, &out->bytes) == 0) return OK;
    return err_errno(e, "cannot find this host's address on its connection to %s", t->address);
}

static void tcp_close(comm_store *s)
{
    store_tcp *t = tcp_of(s);
    if (t->fd >= 0) close(t->fd);
    pthread_mutex_destroy(&t->turn);
    free(t);
}

static const comm_store_ops tcp_ops = {
    .name = "tcp",
    .close = tcp_close,
    .set = tcp_set,
    .get = tcp_get,
    .wait = tcp_wait,
    .add = tcp_add,
    .remove = tcp_remove,
    .compare = tcp_compare,
    .clock = tcp_clock,
};

// A server that many connect to at once may let the connection go before it has answered: then the client comes again.
static status connect_server(store_tcp *t, const net_address *a, const net_secret *secret,
                             int64_t deadline_ns, err *e)
{
    for (;;) {
        status got = net_connect(a, deadline_ns, &t->fd, e);
        if (got != OK) return got;
        got = net_authenticate_to_server(t->fd, secret, deadline_ns, &t->session, e);
        if (got == OK) return OK;
        close(t->fd);
        t->fd = -1;
        if (got != E_IO || clock_ns() + (int64_t)AGAIN_MS * 1000000 >= deadline_ns) {
            err_prefix(e, "%s: ", t->address);
            return got;
        }
        poll(NULL, 0, AGAIN_MS);
    }
}

status comm_store_tcp_open(const net_address *a, const net_secret *secret, int64_t deadline_ms,
                           comm_store **out, err *e)
{
    status result = OK;
    store_tcp *t = NULL;
    const int64_t deadline_ns = clock_ns() + deadline_ms * INT64_C(1000000);
    *out = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "a connection to the store", e));
    t->base.ops = &tcp_ops;
    t->fd = -1;
    t->reply_ms = REPLY_MS;
    pthread_mutex_init(&t->turn, NULL);
    net_address_print(a, t->address);
    TRY(connect_server(t, a, secret, deadline_ns, e));
    *out = &t->base;
done:
    if (result != OK && t) tcp_close(&t->base);
    if (result != OK) err_prefix(e, "the store: ");
    return result;
}
