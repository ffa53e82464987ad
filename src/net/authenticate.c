// authenticate.c -- see authenticate.h. It does not know what is sent afterwards.
#define _GNU_SOURCE // accept4
#include "net/authenticate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "net/owner.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MS_NS = 1000000 };

status net_authenticate_to_server(int fd, const net_secret *s, int64_t deadline_ns,
                                  net_session *out, err *e)
{
    status result = OK;
    net_challenge challenge;
    net_response response;
    net_outcome outcome;
    TRY(net_read(fd, &challenge, sizeof challenge, deadline_ns, e));
    TRY(net_response_make(s, &challenge, &response, out, e));
    TRY(net_write(fd, &response, sizeof response, deadline_ns, e));
    TRY(net_read(fd, &outcome, sizeof outcome, deadline_ns, e));
    TRY(net_outcome_check(out, &outcome, e));
done:
    return result;
}

// ---- The server

// A client that has not shown the secret yet.
typedef struct pending_client {
    int fd; // -1: none
    int64_t end_ns;
    char from[NET_ADDRESS_TEXT];
    net_challenge challenge;
    net_response response;
    size_t got; // bytes of the answer
} pending_client;

typedef struct authenticator {
    const net_secret *secret;
    int listener;
    net_refused *refused;
    void *owner;
    pending_client all[NET_UNAUTHENTICATED];
} authenticator;

static void refuse(authenticator *g, pending_client *x, const char *why)
{
    g->refused(g->owner, x->from, why);
    close(x->fd);
    x->fd = -1;
}

// An entry for one more client: a free one, or any other. Were it that of the oldest, others that come faster than a client
// with the secret gets a core would drive it out every time.
static pending_client *find_entry(authenticator *g)
{
    for (pending_client *x = g->all; x < g->all + NET_UNAUTHENTICATED; x++)
        if (x->fd < 0) return x;
    pending_client *any = &g->all[rng_mix((uint64_t)clock_ns()) % NET_UNAUTHENTICATED];
    refuse(g, any, "others came while it said nothing");
    return any;
}

static bool send_all(int fd, const void *from, size_t bytes)
{
    return send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static void accept_one(authenticator *g)
{
    net_address from = {.bytes = sizeof from.raw};
    const int fd = accept4(g->listener, (struct sockaddr *)&from.raw, &from.bytes,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    pending_client *x = find_entry(g);
    *x = (pending_client){.fd = fd, .end_ns = clock_ns() + (int64_t)NET_AUTHENTICATE_MS * MS_NS};
    net_address_print(&from, x->from);
    const bool is_foreign = net_peer_is_foreign(fd);
    if (is_foreign)
        net_challenge_refuse(&x->challenge);
    else if (net_challenge_make(&x->challenge, NULL) != OK)
        return refuse(g, x, "the system gave no random numbers");
    if (net_prepare(fd, NULL) != OK || !send_all(fd, &x->challenge, sizeof x->challenge))
        refuse(g, x, "the connection is lost");
    else if (is_foreign)
        refuse(g, x, "it is a process of another user of this machine");
}

// Takes what has come. Returns whether the client has shown the secret; then its entry is free.
static bool receive(authenticator *g, pending_client *x, net_client *out)
{
    net_outcome outcome;
    const ssize_t got =
        recv(x->fd, (char *)&x->response + x->got, sizeof x->response - x->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) return refuse(g, x, "the connection is lost"), false;
    x->got += (size_t)got;
    if (x->got < sizeof x->response) return false;
    const bool accepted =
        net_response_check(g->secret, &x->challenge, &x->response, &outcome, &out->session);
    const bool sent = send_all(x->fd, &outcome, sizeof outcome);
    if (!accepted) return refuse(g, x, "it does not have the secret of this server"), false;
    if (!sent) return refuse(g, x, "the connection is lost"), false;
    out->fd = x->fd;
    memcpy(out->from, x->from, sizeof out->from);
    x->fd = -1;
    return true;
}

static void end_late(authenticator *g)
{
    for (pending_client *x = g->all; x < g->all + NET_UNAUTHENTICATED; x++)
        if (x->fd >= 0 && clock_ns() >= x->end_ns) refuse(g, x, "it said nothing in time");
}

// One look at the listener and at all clients. Returns whether one of them has shown the secret.
static bool look(authenticator *g, net_client *out)
{
    enum { LOOK_MS = 100 };
    struct pollfd p[NET_UNAUTHENTICATED + 1] = {{.fd = g->listener, .events = POLLIN}};
    for (int i = 0; i < NET_UNAUTHENTICATED; i++)
        p[i + 1] = (struct pollfd){.fd = g->all[i].fd, .events = POLLIN};
    if (poll(p, NET_UNAUTHENTICATED + 1, LOOK_MS) > 0) {
        for (int i = 0; i < NET_UNAUTHENTICATED; i++)
            if (p[i + 1].revents && receive(g, &g->all[i], out)) return true;
        if (p[0].revents) accept_one(g);
    }
    end_late(g);
    return false;
}

status net_authenticate_client(int listener, const net_secret *s, int64_t deadline_ns,
                               net_refused *refused, void *owner, net_client *out, err *e)
{
    status result = OK;
    authenticator *g = NULL;
    bool found = false;
    TRY(alloc_zeroed(&g, 1, sizeof *g, "the clients of a server", e));
    *g = (authenticator){.secret = s, .listener = listener, .refused = refused, .owner = owner};
    for (int i = 0; i < NET_UNAUTHENTICATED; i++) g->all[i].fd = -1;
    while (!found && clock_ns() < deadline_ns) found = look(g, out);
    for (int i = 0; i < NET_UNAUTHENTICATED; i++)
        if (g->all[i].fd >= 0) close(g->all[i].fd);
    if (!found) FAIL(E_PEER, "no client came in time");
done:
    free(g);
    return result;
}
