// http.c -- see http.h. libevent's evhttp reads requests and writes answers.
#include "net/http.h"

#include "base/alloc.h"
#include "net/socket.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A request with a small body is refused as one that is no GET, one with a larger body as too large.
enum { TURN_MS = 100, BODY_BYTES = 1024, METHOD_NOT_ALLOWED = 405 };

struct http_server {
    struct event_base *base;
    struct evhttp *http;
    struct evconnlistener *listener;
    struct event *timer;
    http_answer *answer;
    void *arg;
    const _Atomic int *stop;
    void (*turn)(void *arg);
    net_address bound;
    char address[NET_ADDRESS_TEXT];
    // evhttp does not say when it closes a connection. A reference to each keeps what it has left behind.
    struct bufferevent *held[HTTP_CONNECTIONS];
    int connections;
};

// ---- Connections

// evhttp sets the callbacks of a connection that it uses, and has removed them from one that it has closed.
static bool is_closed(struct bufferevent *b)
{
    bufferevent_data_cb read = NULL, write = NULL;
    bufferevent_event_cb happened = NULL;
    bufferevent_getcb(b, &read, &write, &happened, NULL);
    return !read && !write && !happened;
}

static void drop_closed(http_server *s)
{
    int kept = 0;
    for (int i = 0; i < s->connections; i++)
        if (is_closed(s->held[i]))
            bufferevent_decref(s->held[i]);
        else
            s->held[kept++] = s->held[i];
    s->connections = kept;
    if (kept < HTTP_CONNECTIONS) evconnlistener_enable(s->listener);
}

// Called for each connection that is accepted.
static struct bufferevent *make_connection(struct event_base *base, void *arg)
{
    http_server *s = arg;
    struct bufferevent *b = bufferevent_socket_new(base, -1, 0);
    drop_closed(s);
    if (b && s->connections < HTTP_CONNECTIONS) {
        bufferevent_incref(b);
        s->held[s->connections++] = b;
    }
    if (s->connections == HTTP_CONNECTIONS) evconnlistener_disable(s->listener);
    return b;
}

// ---- Requests

static void add_header(struct evhttp_request *r, const char *key, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(r), key, value);
}

// The answer to HEAD has the headers of the answer to GET, and no body.
static void send_reply(struct evhttp_request *r, const http_reply *reply)
{
    char bytes[24];
    struct evbuffer *body = evbuffer_new();
    const bool is_head = evhttp_request_get_command(r) == EVHTTP_REQ_HEAD;
    const bool failed =
        !body || reply->body.failed ||
        (reply->body.bytes && !is_head && evbuffer_add(body, reply->body.chars, reply->body.bytes));
    add_header(r, "Content-Type", reply->type ? reply->type : "text/plain; charset=utf-8");
    add_header(r, "X-Content-Type-Options", "nosniff");
    snprintf(bytes, sizeof bytes, "%zu", reply->body.bytes);
    if (is_head) add_header(r, "Content-Length", bytes);
    if (failed)
        evhttp_send_error(r, HTTP_INTERNAL, NULL);
    else
        evhttp_send_reply(r, reply->code, NULL, body);
    if (body) evbuffer_free(body);
}

static void take_request(struct evhttp_request *r, void *arg)
{
    http_server *s = arg;
    http_reply reply = {0};
    const enum evhttp_cmd_type method = evhttp_request_get_command(r);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r);
    const char *raw = uri ? evhttp_uri_get_path(uri) : NULL;
    char *path = evhttp_uridecode(raw && *raw ? raw : "/", 0, NULL);
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
        reply.code = METHOD_NOT_ALLOWED;
        add_header(r, "Allow", "GET, HEAD");
        text_add(&reply.body, "only GET and HEAD are answered\n");
    } else if (path) {
        s->answer(s->arg, path, &reply);
    }
    if (!reply.code) {
        reply.code = HTTP_NOTFOUND;
        text_add(&reply.body, "there is nothing under this path\n");
    }
    send_reply(r, &reply);
    text_clear(&reply.body);
    free(path);
}

// ---- The server

static status open_listener(http_server *s, const char *address, err *e)
{
    status result = OK;
    net_endpoint where;
    net_address wanted;
    int fd = -1;
    TRY(net_endpoint_parse_server(address, &where, e));
    TRY(net_address_resolve(where.host, where.port, &wanted, e));
    TRY(net_listen(&wanted, &fd, &s->bound, e));
    net_address_print(&s->bound, s->address);
    s->listener = evconnlistener_new(s->base, NULL, NULL,
                                     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!s->listener) FAIL(E_MEMORY, "no memory for a server of HTTP");
    fd = -1;
done:
    if (fd >= 0) close(fd);
    return result;
}

static void take_turn(evutil_socket_t fd, short what, void *arg)
{
    http_server *s = arg;
    (void)fd, (void)what;
    drop_closed(s);
    if (s->turn) s->turn(s->arg);
    if (atomic_load(s->stop)) event_base_loopbreak(s->base);
}

static void set_limits(http_server *s)
{
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                            EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                            EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
                                            EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
    evhttp_set_max_headers_size(s->http, HTTP_HEADER_BYTES);
    evhttp_set_max_body_size(s->http, BODY_BYTES);
    evhttp_set_timeout(s->http, HTTP_IDLE_S);
}

status http_open(const char *address, http_answer *answer, void *arg, http_server **out, err *e)
{
    status result = OK;
    http_server *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a server of HTTP", e));
    s->answer = answer;
    s->arg = arg;
    s->base = event_base_new();
    s->http = s->base ? evhttp_new(s->base) : NULL;
    s->timer = s->base ? event_new(s->base, -1, EV_PERSIST, take_turn, s) : NULL;
    if (!s->http || !s->timer) FAIL(E_MEMORY, "no memory for a server of HTTP");
    TRY(open_listener(s, address, e));
    set_limits(s);
    evhttp_set_bevcb(s->http, make_connection, s);
    evhttp_set_gencb(s->http, take_request, s);
    if (!evhttp_bind_listener(s->http, s->listener)) {
        evconnlistener_free(s->listener);
        s->listener = NULL;
        FAIL(E_MEMORY, "no memory for a server of HTTP");
    }
    *out = s;
    s = NULL;
done:
    http_close(s);
    return result;
}

int http_port(const http_server *s)
{
    return net_address_port(&s->bound);
}

const char *http_address(const http_server *s)
{
    return s->address;
}

status http_serve_with(http_server *s, const _Atomic int *stop, void (*turn)(void *arg), err *e)
{
    const struct timeval every = {.tv_usec = TURN_MS * 1000};
    s->stop = stop;
    s->turn = turn;
    if (event_add(s->timer, &every) != 0)
        return err_set(e, E_IO, "%s: cannot set a timer", s->address);
    const int code = event_base_dispatch(s->base);
    event_del(s->timer);
    return code < 0 ? err_set(e, E_IO, "%s: cannot wait for connections", s->address) : OK;
}

status http_serve(http_server *s, const _Atomic int *stop, err *e)
{
    return http_serve_with(s, stop, NULL, e);
}

void http_close(http_server *s)
{
    if (!s) return;
    if (s->http) evhttp_free(s->http);
    for (int i = 0; i < s->connections; i++) bufferevent_decref(s->held[i]);
    if (s->timer) event_free(s->timer);
    if (s->base) event_base_free(s->base);
    free(s);
}
