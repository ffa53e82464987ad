// store_server.c -- see store_server.h: connections, authentication and the thread. store_serve.c answers requests.
//
// Sockets, buffers and timers are libevent's; everything runs on one thread, and the owner's only word to it is
// the byte that ends it.
#include "rendezvous/store_server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/rng.h"
#include "net/owner.h"
#include "net/socket.h"
#include "rendezvous/store_serve.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct store_server {
    store_service service;
    net_secret secret;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *ending;
    int end_fd;
    pthread_t thread;
    bool running, closing;
    int unauthenticated;
    _Atomic int known;     // clients that are authenticated
    store_client *clients; // a list
};

static void close_client(store_client *c)
{
    if (c->on_disconnect.silence) event_free(c->on_disconnect.silence);
    if (c->late) event_free(c->late);
    if (c->io) bufferevent_free(c->io); // closes the socket
    free(c);
}

static void drop(store_client *c)
{
    store_server *s = c->server;
    if (!s->closing) store_serve_leave(c);
    if (c->known)
        s->known--;
    else
        s->unauthenticated--;
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    close_client(c);
}

// The first message of a client. Returns false if it is refused.
static bool authenticate(store_client *c)
{
    store_server *s = c->server;
    net_response response;
    net_outcome outcome;
    evbuffer_remove(bufferevent_get_input(c->io), &response, sizeof response);
    const bool accepted =
        net_response_check(&s->secret, &c->challenge, &response, &outcome, &c->session);
    bufferevent_write(c->io, &outcome, sizeof outcome);
    if (!accepted) return false;
    c->known = true;
    s->known++;
    s->unauthenticated--;
    event_del(c->late);
    bufferevent_setwatermark(c->io, EV_READ, 0, STORE_REQUEST_MOST);
    return true;
}

// A client that is refused reads why, and then the connection ends.
static void refuse(store_client *c)
{
    c->refused = true;
    bufferevent_disable(c->io, EV_READ);
}

// Answers the requests that have arrived, as long as the client reads the replies.
static void go_on(store_client *c)
{
    struct evbuffer *in = bufferevent_get_input(c->io), *out = bufferevent_get_output(c->io);
    if (c->refused) {
        if (evbuffer_get_length(out) == 0) drop(c);
        return;
    }
    if (!c->known) {
        if (evbuffer_get_length(in) < sizeof(net_response)) return;
        if (!authenticate(c)) return refuse(c);
    }
    bool valid = true;
    while (valid && !c->waits && evbuffer_get_length(out) == 0 && store_serve_ready(c, &valid))
        store_serve(c);
    if (!valid) drop(c);
}

static void on_bytes(struct bufferevent *io, void *client)
{
    (void)io;
    go_on(client);
}

static void on_end(struct bufferevent *io, short what, void *client)
{
    (void)io, (void)what;
    drop(client);
}

// A client has not authenticated in time, or a request has waited long enough.
static void on_late(evutil_socket_t fd, short what, void *client)
{
    store_client *c = client;
    (void)fd, (void)what;
    if (!c->known) return drop(c);
    store_serve_late(c);
    go_on(c);
}

static void on_silence(evutil_socket_t fd, short what, void *client)
{
    (void)fd, (void)what;
    store_serve_silent(client);
}

// Tells a process of another user of this machine why the connection ends.
static void refuse_foreign(int fd)
{
    net_challenge challenge;
    net_challenge_refuse(&challenge);
    (void)send(fd, &challenge, sizeof challenge, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

// A client authenticates at once, and clients that send nothing must not keep it out: any of them gives way. Were it the
// oldest, others that come faster than a client with the secret gets a core would drive it out every time.
static void drop_an_unauthenticated(store_server *s)
{
    uint64_t left = rng_mix((uint64_t)clock_ns()) % (uint64_t)s->unauthenticated;
    for (store_client *c = s->clients; c; c = c->next)
        if (!c->known && left-- == 0) {
            drop(c);
            return;
        }
}

static void on_client(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from,
                      int bytes, void *server)
{
    (void)l, (void)from, (void)bytes;
    store_server *s = server;
    const struct timeval authenticate_time = {.tv_sec = STORE_AUTHENTICATE_MS / 1000};
    store_client *c = NULL;
    if (net_peer_is_foreign(fd)) return refuse_foreign(fd);
    if (s->unauthenticated >= STORE_UNAUTHENTICATED) drop_an_unauthenticated(s);
    if (net_prepare(fd, NULL) != OK ||
        alloc_zeroed(&c, 1, sizeof *c, "a client of the store", NULL) != OK) {
        close(fd);
        return;
    }
    c->server = s;
    c->service = &s->service;
    c->io = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    c->late = evtimer_new(s->base, on_late, c);
    c->on_disconnect.silence = evtimer_new(s->base, on_silence, c);
    if (!c->io || !c->late || !c->on_disconnect.silence ||
        net_challenge_make(&c->challenge, NULL) != OK) {
        if (!c->io) close(fd);
        close_client(c);
        return;
    }
    s->unauthenticated++;
    c->next = s->clients, c->link = &s->clients;
    if (c->next) c->next->link = &c->next;
    s->clients = c;
    bufferevent_setcb(c->io, on_bytes, on_bytes, on_end, c);
    bufferevent_setwatermark(c->io, EV_READ, 0, sizeof(net_response));
    bufferevent_write(c->io, &c->challenge, sizeof c->challenge);
    bufferevent_enable(c->io, EV_READ | EV_WRITE);
    evtimer_add(c->late, &authenticate_time);
}

// No descriptor is left, for example. The others keep being served.
static void on_no_client(struct evconnlistener *l, void *server)
{
    (void)l, (void)server;
}

static void on_ending(evutil_socket_t fd, short what, void *server)
{
    (void)fd, (void)what;
    event_base_loopbreak(((store_server *)server)->base);
}

static void *serve(void *server)
{
    event_base_dispatch(((store_server *)server)->base);
    return NULL;
}

static status open_loop(store_server *s, const net_address *a, net_address *bound, err *e)
{
    status result = OK;
    int fd = -1;
    s->base = event_base_new();
    if (!s->base) FAIL(E_IO, "cannot watch sockets");
    s->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->end_fd < 0) return err_errno(e, "cannot watch sockets");
    s->ending = event_new(s->base, s->end_fd, EV_READ, on_ending, s);
    if (!s->ending || event_add(s->ending, NULL) != 0) FAIL(E_IO, "cannot watch sockets");
    TRY(net_listen(a, &fd, bound, e));
    s->listener = evconnlistener_new(s->base, on_client, s,
                                     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!s->listener) {
        close(fd);
        FAIL(E_IO, "cannot watch sockets");
    }
    evconnlistener_set_error_cb(s->listener, on_no_client);
done:
    return result;
}

static status start_thread(store_server *s, err *e)
{
    sigset_t before;
    proc_block_signals(&before);
    const int code = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->running = code == 0;
    errno = code;
    return code == 0 ? OK : err_errno(e, "cannot start the thread of the store");
}

status store_server_open(const net_address *a, const net_secret *secret, store_server **out,
                         net_address *bound, err *e)
{
    status result = OK;
    store_server *s = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a store", e));
    s->end_fd = -1;
    s->secret = *secret;
    s->service.clock = clock_identity();
    TRY(store_table_open(STORE_KEYS, &s->service.table, e));
    TRY(open_loop(s, a, bound, e));
    TRY(start_thread(s, e));
    *out = s;
done:
    if (result != OK) store_server_close(s);
    return result;
}

int store_server_clients(const store_server *s)
{
    return s->known;
}

void store_server_close(store_server *s)
{
    if (!s) return;
    if (s->running) {
        eventfd_write(s->end_fd, 1);
        pthread_join(s->thread, NULL);
    }
    s->closing = true;
    while (s->clients) drop(s->clients);
    if (s->listener) evconnlistener_free(s->listener);
    if (s->ending) event_free(s->ending);
    if (s->base) {
        event_base_loop(s->base, EVLOOP_NONBLOCK); // libevent releases connections in its loop
        event_base_free(s->base);
    }
    if (s->end_fd >= 0) close(s->end_fd);
    store_table_close(s->service.table);
    free(s);
}
