// bench_link_tcp.c -- `trireme bench link` over a TCP socket: the server and the client. After the greeting of
// net/authenticate.h the client sends its plan with its seal, and then both run it.
#include "cmd/bench/bench_link.h"
#include "cmd/console.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "net/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WARNINGS = 8, NS = 1000000000 };

// The client's first frame; the seal follows.
typedef struct tcp_plan {
    char magic[8];
    bench_link_plan plan;
} tcp_plan;
static const char MAGIC[8] = "trmlink1";

static int64_t deadline_of(const bench_link *l)
{
    return clock_ns() + (int64_t)(l->timeout_s * NS);
}

static status tcp_send(bench_link *l, const char *p, size_t bytes, err *e)
{
    return net_write(l->fd, p, bytes, deadline_of(l), e);
}

static status tcp_recv(bench_link *l, char *p, size_t bytes, err *e)
{
    return net_read(l->fd, p, bytes, deadline_of(l), e);
}

// The kernel has copied what was sent.
static status tcp_sync(bench_link *l, err *e)
{
    (void)l, (void)e;
    return OK;
}

static status tcp_copy_in(bench_link *l, char *to, const void *from, size_t bytes, err *e)
{
    (void)l, (void)e;
    memcpy(to, from, bytes);
    return OK;
}

static status tcp_copy_out(bench_link *l, void *to, const char *from, size_t bytes, err *e)
{
    (void)l, (void)e;
    memcpy(to, from, bytes);
    return OK;
}

static const bench_link_ops tcp_ops = {
    .send = tcp_send,
    .recv = tcp_recv,
    .sync = tcp_sync,
    .write = tcp_copy_in,
    .read = tcp_copy_out,
};

static status run(bench_link *l, err *e)
{
    status result = OK;
    char *memory = NULL;
    const size_t most = (size_t)l->plan.most;
    TRY(alloc_zeroed(&memory, 3 * most + sizeof(uint64_t), 1, "the messages", e));
    l->ops = &tcp_ops;
    l->out = memory;
    l->in = memory + most;
    l->host = memory + 2 * most;
    l->word = memory + 3 * most;
    TRY(bench_link_run(l, e));
done:
    free(memory);
    return result;
}

// ---- The server

static status read_plan(bench_link *l, net_session *s, int64_t deadline_ns, err *e)
{
    status result = OK;
    unsigned char frame[sizeof(tcp_plan) + NET_MAC_BYTES];
    tcp_plan given;
    TRY(net_read(l->fd, frame, sizeof frame, deadline_ns, e));
    memcpy(&given, frame, sizeof given);
    if (!net_seal_check(s, frame, sizeof given, frame + sizeof given))
        FAIL(E_IO, "its plan was changed on its way");
    const bench_link_plan *p = &given.plan;
    if (memcmp(given.magic, MAGIC, sizeof MAGIC) != 0 || p->least < 1 || p->least > p->most ||
        p->most > BENCH_LINK_MOST || p->factor < 2 || p->factor > BENCH_LINK_MOST ||
        p->iterations < 0 || p->iterations > BENCH_LINK_MOST_MESSAGES || p->warm_up < 0 ||
        p->warm_up > BENCH_LINK_MOST_MESSAGES)
        FAIL(E_USAGE, "it is no `trireme bench link` of this version");
    l->plan = given.plan;
done:
    return result;
}

// The first few are said.
static void warn_refused(void *owner, const char *from, const char *why)
{
    int *warnings = owner;
    if (*warnings < MOST_WARNINGS) console_warn("bench link: %s was refused: %s", from, why);
    if (++*warnings == MOST_WARNINGS)
        console_warn("bench link: others that are refused are not said");
}

// A client that does not have the secret does not end the server.
static status await_client(bench_link *l, const bench_link_tcp *t, char peer[NET_ADDRESS_TEXT],
                           err *e)
{
    const int64_t deadline_ns = deadline_of(l);
    int warnings = 0;
    for (;;) {
        net_client client;
        err why = {0};
        const status got = net_authenticate_client(t->listener, &t->secret, deadline_ns,
                                                   warn_refused, &warnings, &client, e);
        if (got != OK) return got;
        memcpy(peer, client.from, sizeof client.from);
        l->fd = client.fd;
        if (read_plan(l, &client.session, deadline_ns, &why) == OK) return OK;
        warn_refused(&warnings, peer, why.text);
        close(l->fd);
        l->fd = -1;
    }
}

status bench_link_serve(bench_link *l, const bench_link_tcp *t, err *e)
{
    status result = OK;
    char peer[NET_ADDRESS_TEXT] = "";
    l->fd = -1;
    result = await_client(l, t, peer, e);
    if (result != OK) {
        err_prefix(e, "bench link: ");
        goto done;
    }
    result = run(l, e);
    if (result != OK) err_prefix(e, "bench link: %s: ", peer);
done:
    if (l->fd >= 0) close(l->fd);
    return result;
}

// ---- The client

static status send_plan(bench_link *l, net_session *s, err *e)
{
    status result = OK;
    unsigned char frame[sizeof(tcp_plan) + NET_MAC_BYTES];
    tcp_plan mine = {.plan = l->plan};
    memcpy(mine.magic, MAGIC, sizeof MAGIC);
    memcpy(frame, &mine, sizeof mine);
    net_seal(s, frame, sizeof mine, frame + sizeof mine);
    TRY(net_write(l->fd, frame, sizeof frame, deadline_of(l), e));
done:
    return result;
}

status bench_link_connect(bench_link *l, const bench_link_tcp *t, err *e)
{
    status result = OK;
    char peer[NET_ADDRESS_TEXT];
    net_session session;
    l->fd = -1;
    l->measures = true;
    net_address_print(&t->address, peer);
    if (!l->title[0]) snprintf(l->title, sizeof l->title, "tcp to %s", peer);
    TRY(net_connect(&t->address, deadline_of(l), &l->fd, e));
    result = net_authenticate_to_server(l->fd, &t->secret, deadline_of(l), &session, e);
    if (result == OK) result = send_plan(l, &session, e);
    if (result == OK) result = run(l, e);
    // A rank of this machine fails with wrong bytes, too, and names no address then.
    if (result != OK && strncmp(e->text, "bench link: ", 12) != 0) err_prefix(e, "%s: ", peer);
done:
    if (l->fd >= 0) close(l->fd);
    if (result != OK && strncmp(e->text, "bench link: ", 12) != 0) err_prefix(e, "bench link: ");
    return result;
}
