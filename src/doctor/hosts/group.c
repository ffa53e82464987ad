// group.c -- see group.h. Keys of the store: host/R is what the host of first rank R says of itself, roster what rank 0's host
// has read, gone/I is set when host I loses its connection, and at/N counts the hosts that have come to wait N.
#include "doctor/hosts/group.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "net/interface.h"
#include "net/socket.h"
#include "net/user_secret.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALL_MS = 10000, PROBE_MS = 1000, SLICE_MS = 250, MS_NS = 1000000 };

static int64_t left_ms(int64_t deadline_ns)
{
    const int64_t left = (deadline_ns - clock_ns()) / MS_NS;
    return left > 0 ? left : 0;
}

static int64_t wall_less_monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - clock_ns();
}

// ---- Texts of any length

status host_group_put(host_group *g, const char *key, const char *bytes, size_t count, err *e)
{
    status result = OK;
    char name[STORE_KEY_BYTES], length[32];
    for (size_t at = 0, part = 0; at < count; at += STORE_VALUE_BYTES, part++) {
        const size_t left = count - at;
        snprintf(name, sizeof name, "%s/%zu", key, part);
        TRY(comm_store_set(g->store, name, bytes + at,
                           left < STORE_VALUE_BYTES ? left : STORE_VALUE_BYTES, CALL_MS, e));
    }
    snprintf(name, sizeof name, "%s/bytes", key);
    snprintf(length, sizeof length, "%zu", count);
    TRY(comm_store_set(g->store, name, length, strlen(length), CALL_MS, e));
done:
    return result;
}

status host_group_get(host_group *g, const char *key, int64_t deadline_ms, char **out,
                      size_t *bytes, err *e)
{
    enum { MOST = 1 << 26 };
    status result = OK;
    char name[STORE_KEY_BYTES], length[32] = "", *all = NULL;
    size_t got = 0;
    int64_t count = 0;
    snprintf(name, sizeof name, "%s/bytes", key);
    TRY(comm_store_get(g->store, name, length, sizeof length - 1, &got, deadline_ms, e));
    length[got] = 0;
    if (!text_to_count(length, &count) || count < 0 || count > MOST)
        FAIL(E_IO, "the store has a damaged value for %s", key);
    TRY(alloc_zeroed(&all, (size_t)count + 1, 1, "a message of a host", e));
    for (size_t at = 0, part = 0; at < (size_t)count; at += got, part++) {
        snprintf(name, sizeof name, "%s/%zu", key, part);
        const size_t room = (size_t)count - at;
        TRY(comm_store_get(g->store, name, all + at,
                           room < STORE_VALUE_BYTES ? room : STORE_VALUE_BYTES, &got, CALL_MS, e));
        if (got == 0) FAIL(E_IO, "the store has an empty part of %s", key);
    }
    *out = all;
    *bytes = (size_t)count;
    all = NULL;
done:
    free(all);
    return result;
}

// ---- Members

static status add_member(host_group *g, const json_t *of, err *e)
{
    status result = OK;
    const char *name, *address;
    host_member m = {0};
    size_t room = (size_t)g->count;
    if (json_unpack((json_t *)of, "{s:i,s:i,s:s,s:s,s:i}", "rank", &m.rank, "ranks", &m.ranks,
                    "name", &name, "address", &address, "port", &m.port) != 0 ||
        m.ranks < 1 || m.rank < 0)
        FAIL(E_USAGE, "a host says of itself what this version of Trireme does not understand");
    snprintf(m.name, sizeof m.name, "%s", name);
    snprintf(m.address, sizeof m.address, "%s", address);
    TRY(alloc_grow(&g->member, &room, (size_t)g->count + 1, sizeof *g->member, "the hosts", e));
    g->member[g->count++] = m;
done:
    return result;
}

// The address at which others reach this host: the one by which it reaches the store. On rank 0's host a name may stand
// for this host alone; then it is that of an interface.
static status find_own_address(host_group *g, const host_group_options *o, net_address *out, err *e)
{
    status result = OK;
    const char *variable;
    net_interface i;
    TRY(comm_store_tcp_own(g->store, out, e));
    const bool is_named = strncmp(o->host, "127.", 4) != 0 && strcmp(o->host, "::1") != 0 &&
                          strcmp(o->host, "localhost") != 0;
    if (net_address_is_loopback(out) && is_named &&
        net_interface_find(net_interface_rule(&variable), &i, NULL) == OK)
        *out = i.address;
    net_address_set_port(out, 0);
done:
    return result;
}

static status register_self(host_group *g, const host_group_options *o, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], address[NET_ADDRESS_TEXT], *chars = NULL;
    net_address own, bound;
    json_t *of = NULL;
    TRY(find_own_address(g, o, &own, e));
    TRY(net_listen(&own, &g->listener, &bound, e));
    net_address_print_host(&bound, address);
    of = json_pack("{s:i,s:i,s:s,s:s,s:i}", "rank", o->rank, "ranks", o->local_ranks, "name",
                   o->name, "address", address, "port", net_address_port(&bound));
    chars = of ? json_dumps(of, JSON_COMPACT) : NULL;
    if (!chars) FAIL(E_MEMORY, "no memory for what this host says of itself");
    snprintf(key, sizeof key, "host/%d", o->rank);
    TRY(comm_store_set(g->store, key, chars, strlen(chars), CALL_MS, e));
done:
    free(chars);
    json_decref(of);
    return result;
}

// Rank 0's host reads what each host says, and waits for those that have not come yet.
static status await_members(host_group *g, const host_group_options *o, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], value[STORE_VALUE_BYTES];
    size_t bytes;
    json_t *of = NULL;
    const int64_t deadline_ns = clock_ns() + o->timeout_ms * MS_NS;
    TRY(alloc_zeroed(&g->missing, (size_t)o->ranks, sizeof *g->missing, "the hosts", e));
    for (int r = 0; r < o->ranks; r++) {
        snprintf(key, sizeof key, "host/%d", r);
        const status got =
            comm_store_get(g->store, key, value, sizeof value, &bytes, left_ms(deadline_ns), e);
        if (got == E_PEER) {
            g->missing[g->missing_count++] = r;
            continue;
        }
        if (got != OK) return got;
        of = json_loadb(value, bytes, 0, NULL);
        TRY(add_member(g, of, e));
        r += g->member[g->count - 1].ranks - 1;
        json_decref(of);
        of = NULL;
    }
done:
    json_decref(of);
    return result;
}

// ---- The roster

static status send_roster(host_group *g, err *e)
{
    status result = OK;
    char *chars = NULL;
    json_t *list = json_array(), *roster = NULL;
    for (int i = 0; i < g->count; i++) {
        const host_member *m = &g->member[i];
        json_array_append_new(list,
                              json_pack("{s:i,s:i,s:s,s:s,s:i}", "rank", m->rank, "ranks", m->ranks,
                                        "name", m->name, "address", m->address, "port", m->port));
    }
    roster = json_pack("{s:o,s:I}", "hosts", list, "wall_ns", (json_int_t)g->wall_ns);
    chars = roster ? json_dumps(roster, JSON_COMPACT) : NULL;
    if (!chars) FAIL(E_MEMORY, "no memory for the list of hosts");
    TRY(host_group_put(g, "roster", chars, strlen(chars), e));
done:
    free(chars);
    json_decref(roster);
    return result;
}

static status receive_roster(host_group *g, int64_t timeout_ms, err *e)
{
    status result = OK;
    char *chars = NULL;
    size_t bytes, i;
    json_t *roster = NULL, *one;
    TRY(host_group_get(g, "roster", timeout_ms, &chars, &bytes, e));
    roster = json_loadb(chars, bytes, 0, NULL);
    g->wall_ns = json_integer_value(json_object_get(roster, "wall_ns"));
    json_array_foreach(json_object_get(roster, "hosts"), i, one) TRY(add_member(g, one, e));
done:
    free(chars);
    json_decref(roster);
    return result;
}

static status find_self(host_group *g, const host_group_options *o, err *e)
{
    char key[STORE_KEY_BYTES];
    g->index = -1;
    for (int i = 0; i < g->count; i++)
        if (g->member[i].rank == o->rank) g->index = i;
    if (g->index < 0)
        return err_set(e, E_PEER,
                       "host %s came after the time limit (%lld s) of rank 0's host; valid: a "
                       "longer --timeout",
                       o->name, (long long)(o->timeout_ms / 1000));
    snprintf(key, sizeof key, "gone/%d", g->index);
    return comm_store_tcp_set_on_disconnect(g->store, key, (store_value){"1", 1}, 0, e);
}

// ---- Opening

// Where the store listens, and where this host finds it. A name that stands for this host alone stands for all of its addresses.
static status open_store(host_group *g, const host_group_options *o, err *e)
{
    status result = OK;
    char why[160], where[NET_ADDRESS_TEXT];
    net_address address;
    TRY(net_address_resolve(o->host, o->port, &address, e));
    net_address own = address;
    const bool is_literal = strncmp(o->host, "127.", 4) == 0 || strcmp(o->host, "::1") == 0 ||
                            strcmp(o->host, "localhost") == 0;
    if (o->rank == 0 &&
        (!net_address_is_own(&own) || (net_address_is_loopback(&own) && !is_literal)))
        net_address_set_any(&own);
    TRY(net_secret_find(o->secret_file, &own, "doctor on several hosts", &g->secret, e));
    if (o->rank == 0) TRY(store_server_open(&own, &g->secret, &g->server, NULL, e));
    result = comm_store_tcp_open(&address, &g->secret, o->timeout_ms, &g->store, e);
    if (result != E_PEER) goto done;
    net_address_print(&address, where);
    (void)host_probe_port(&address, o->timeout_ms < PROBE_MS ? o->timeout_ms : PROBE_MS, why,
                          sizeof why);
    err_set(e, E_PEER, "rank 0's host did not answer on %s within %lld s: %s", where,
            (long long)(o->timeout_ms / 1000), why);
done:
    return result;
}

status host_group_open(const host_group_options *o, host_group *out, err *e)
{
    status result = OK;
    *out = (host_group){.listener = -1, .timeout_ms = o->timeout_ms};
    TRY(open_store(out, o, e));
    TRY(register_self(out, o, e));
    if (o->rank == 0) {
        TRY(await_members(out, o, e));
        out->wall_ns = wall_less_monotonic();
        TRY(send_roster(out, e));
    } else {
        TRY(receive_roster(out, o->timeout_ms + CALL_MS, e));
    }
    TRY(find_self(out, o, e));
done:
    return result;
}

void host_group_close(host_group *g)
{
    if (g->listener >= 0) close(g->listener);
    comm_store_close(g->store);
    store_server_close(g->server);
    free(g->member);
    free(g->missing);
    *g = (host_group){.listener = -1};
}

// ---- Waiting for all

bool host_group_is_gone(host_group *g, int index)
{
    char key[STORE_KEY_BYTES], value[8];
    snprintf(key, sizeof key, "gone/%d", index);
    return comm_store_get(g->store, key, value, sizeof value, NULL, 0, NULL) == OK;
}

static int count_gone(host_group *g)
{
    int gone = 0;
    for (int i = 0; i < g->count; i++) gone += host_group_is_gone(g, i);
    return gone;
}

status host_group_wait(host_group *g, int number, int64_t timeout_ms, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], go[STORE_KEY_BYTES];
    int64_t came = 0;
    const int64_t deadline_ns = clock_ns() + timeout_ms * MS_NS;
    snprintf(key, sizeof key, "at/%d", number);
    snprintf(go, sizeof go, "go/%d", number);
    TRY(comm_store_add(g->store, key, 1, &came, CALL_MS, e));
    for (;;) {
        if (came >= g->count) TRY(comm_store_set(g->store, go, "1", 1, CALL_MS, e));
        const status got = comm_store_wait(g->store, go, SLICE_MS, e);
        if (got != E_PEER) return got;
        if (clock_ns() >= deadline_ns)
            FAIL(E_PEER, "not all hosts came to a measurement within %lld s",
                 (long long)(timeout_ms / 1000));
        TRY(comm_store_add(g->store, key, 0, &came, CALL_MS, e));
        came += count_gone(g);
    }
done:
    return result;
}

status host_group_clock(host_group *g, double *ahead_s, double *error_s, err *e)
{
    status result = OK;
    store_clock c;
    TRY(comm_store_clock(g->store, &c, e));
    // clock_ns here and offset_ns make clock_ns there.
    *ahead_s = (double)(wall_less_monotonic() - g->wall_ns - c.offset_ns) * 1e-9;
    *error_s = (double)c.error_ns * 1e-9;
done:
    return result;
}
