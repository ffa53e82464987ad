// pairs.c -- see pairs.h. In a round the host of the lower index connects, measures, and then waits for the other one to
// connect: a firewall may let only one of the two through. All hosts begin a round together.
#include "doctor/hosts/pairs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "doctor/hosts/rounds.h"
#include "net/authenticate.h"
#include "net/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_MS = 2500, BACK_MS = 1500, WAIT_MS = 20000, MOST_FAILURES = 2, MS_NS = 1000000 };

static const host_link_times TIMES = {.send_ms = 100, .stall_ms = 1500, .most_ms = 2000};

static int64_t after_ms(int64_t ms)
{
    return clock_ns() + ms * MS_NS;
}

// ---- Connections

static status connect_to(const host_group *g, int other, int64_t timeout_ms, int *fd, err *e)
{
    status result = OK;
    const host_member *m = &g->member[other];
    const int64_t deadline_ns = after_ms(timeout_ms);
    const int32_t own = g->index;
    char why[PAIR_WHY_BYTES];
    net_address address;
    net_session session;
    *fd = -1;
    TRY(net_address_resolve(m->address, m->port, &address, e));
    result = net_connect(&address, deadline_ns, fd, e);
    if (result != OK) {
        (void)host_probe_port(&address, 200, why, sizeof why);
        err_set(e, E_PEER, "%s:%d: %s", m->address, m->port, why);
        goto done;
    }
    TRY(net_authenticate_to_server(*fd, &g->secret, deadline_ns, &session, e));
    TRY(net_write(*fd, &own, sizeof own, deadline_ns, e));
done:
    return result;
}

static void ignore(void *owner, const char *from, const char *why)
{
    (void)owner, (void)from, (void)why;
}

// Waits until this other host connects. One that comes late from an earlier round is let go.
static status accept_from(const host_group *g, int other, int64_t timeout_ms, int *fd, err *e)
{
    const int64_t deadline_ns = after_ms(timeout_ms);
    for (;;) {
        net_client client;
        int32_t index = -1;
        const status got =
            net_authenticate_client(g->listener, &g->secret, deadline_ns, ignore, NULL, &client, e);
        if (got != OK) return got;
        if (net_read(client.fd, &index, sizeof index, deadline_ns, NULL) == OK && index == other) {
            *fd = client.fd;
            return OK;
        }
        close(client.fd);
    }
}

// ---- One pair

// The other host connects, or this one does, to see whether that works too.
static bool try_back(const host_group *g, int other, bool connects)
{
    int fd = -1;
    char word = 0;
    const int64_t deadline_ns = after_ms(BACK_MS);
    const status got = connects ? connect_to(g, other, BACK_MS, &fd, NULL)
                                : accept_from(g, other, BACK_MS, &fd, NULL);
    // Each waits for the other one's word, so that neither closes too early.
    const bool works = got == OK && net_write(fd, &word, 1, deadline_ns, NULL) == OK &&
                       net_read(fd, &word, 1, deadline_ns, NULL) == OK;
    if (fd >= 0) close(fd);
    return works;
}

static void judge(host_pair *p, bool connected, bool measured, bool back)
{
    p->state = measured && back ? PAIR_MEASURED
               : measured       ? PAIR_ONE_WAY_BACK
               : connected      ? PAIR_LOST
               : back           ? PAIR_ONE_WAY
                                : PAIR_SEPARATE;
    if (p->state == PAIR_ONE_WAY_BACK)
        snprintf(p->why, sizeof p->why, "the other direction of the connection did not work");
}

static void measure_from(const host_group *g, host_pair *p)
{
    err e = {.code = OK};
    int fd = -1;
    const bool connected = connect_to(g, p->to, CONNECT_MS, &fd, &e) == OK;
    const bool measured = connected && host_link_measure(fd, true, &TIMES, &p->link, &e) == OK;
    if (!measured) snprintf(p->why, sizeof p->why, "%.*s", TEXT_CUT(e.text, sizeof p->why - 1));
    if (fd >= 0) close(fd);
    judge(p, connected, measured, try_back(g, p->to, false));
}

static void answer(const host_group *g, int other)
{
    int fd = -1;
    host_link unused;
    if (accept_from(g, other, CONNECT_MS, &fd, NULL) == OK)
        (void)host_link_measure(fd, false, &TIMES, &unused, NULL);
    if (fd >= 0) close(fd);
    (void)try_back(g, other, true);
}

// ---- All pairs

// How many hosts could not reach this one so far.
static int64_t failures_of(host_group *g, int index, int64_t more)
{
    char key[STORE_KEY_BYTES];
    int64_t sum = 0;
    snprintf(key, sizeof key, "unreachable/%d", index);
    return comm_store_add(g->store, key, more, &sum, g->timeout_ms, NULL) == OK ? sum : 0;
}

// Both hosts of a pair decide it alike: they ask after the wait, before anybody counts again.
static bool is_given_up(host_group *g, int other)
{
    return failures_of(g, other, 0) >= MOST_FAILURES ||
           failures_of(g, g->index, 0) >= MOST_FAILURES || host_group_is_gone(g, other);
}

void host_pair_play(host_group *g, int other, host_pair *p)
{
    if (p)
        measure_from(g, p);
    else
        answer(g, other);
}

static void play(host_group *g, int other, bool gives_up, host_pair *p)
{
    if (gives_up && p)
        snprintf(p->why, sizeof p->why, "other hosts could not reach one of the two");
    if (gives_up) return;
    host_pair_play(g, other, p);
    if (p && p->state != PAIR_MEASURED) {
        failures_of(g, other, 1);
        failures_of(g, g->index, 1);
    }
}

status host_pairs_measure(host_group *g, host_pair **out, int *count, err *e)
{
    status result = OK;
    *count = 0;
    TRY(alloc_zeroed(out, (size_t)g->count, sizeof **out, "the pairs of hosts", e));
    for (int round = 0; round < hosts_rounds(g->count); round++) {
        const int other = hosts_partner(g->count, round, g->index);
        host_pair *p = other > g->index ? &(*out)[(*count)++] : NULL;
        if (p) *p = (host_pair){.from = g->index, .to = other};
        if (p) snprintf(p->why, sizeof p->why, "the measurement of pairs ended before");
        // Nobody counts failures between the two waits.
        TRY(host_group_wait(g, 2 * round, WAIT_MS, e));
        const bool gives_up = other >= 0 && is_given_up(g, other);
        TRY(host_group_wait(g, 2 * round + 1, WAIT_MS, e));
        if (other >= 0) play(g, other, gives_up, p);
    }
done:
    return result;
}
