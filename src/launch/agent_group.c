// agent_group.c -- see agent_group.h.
#include "launch/agent_group.h"

#include "base/clock.h"
#include "base/proc.h"
#include "net/socket.h"
#include "net/user_secret.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALL_MS = 60000, LOOK_MS = 20, SLICE_MS = 100, SKIPPED = -1 };

// The record of a node that its agent publishes. Plain numbers and characters of the same program on every host.
typedef struct node_record {
    int64_t nonce; // tells two agents of one host apart
    int32_t workers;
    char host[HOST_BYTES];
    char zero[4];
} node_record;
_Static_assert(sizeof(node_record) == 16 + HOST_BYTES, "without padding");

// The record that starts a round.
typedef struct round_start {
    int32_t nodes, restarts, left; // see agent_round; nodes 0: the run has ended
} round_start;

static void round_key(char out[STORE_KEY_BYTES], int round, const char *what)
{
    snprintf(out, STORE_KEY_BYTES, "%d/%s", round, what);
}

static void node_key(char out[STORE_KEY_BYTES], int round, int node)
{
    snprintf(out, STORE_KEY_BYTES, "%d/node/%d", round, node);
}

// ---- waiting for other nodes ----

static bool must_stop(const agent_group *g)
{
    return poll(&(struct pollfd){.fd = g->signals, .events = POLLIN}, 1, 0) > 0;
}

static status stopped(err *e)
{
    return err_set(e, E_INTERRUPTED, "stopped by a signal while it waited for other nodes");
}

// Returns whether the call that returned *got in its slice of the wait needs another one. A signal ends the wait:
// *got is then E_INTERRUPTED.
static bool waits_on(const agent_group *g, int64_t end_ns, status *got, err *e)
{
    if (*got != E_PEER || clock_ns() >= end_ns) return false;
    if (!must_stop(g)) return true;
    *got = stopped(e);
    return false;
}

// Copies the value of a key that another node sets to out [room].
static status await_key(agent_group *g, const char *key, void *out, size_t room, size_t *bytes,
                        int64_t wait_ms, err *e)
{
    const int64_t end = clock_ns() + wait_ms * 1000000;
    status got;
    do got = comm_store_get(g->store, key, out, room, bytes, SLICE_MS, e);
    while (waits_on(g, end, &got, e));
    return got;
}

static status refuse_record(const char *key, err *e)
{
    return err_set(e, E_IO, "the record %s of another agent is damaged", key);
}

// The same for a record, which has a fixed length.
static status await_record(agent_group *g, const char *key, void *out, size_t bytes,
                           int64_t wait_ms, err *e)
{
    status result = OK;
    char value[STORE_VALUE_BYTES];
    size_t found = 0;
    TRY(await_key(g, key, value, sizeof value, &found, wait_ms, e));
    if (found != bytes) return refuse_record(key, e);
    memcpy(out, value, bytes);
done:
    return result;
}

// Waits until the leading agent listens.
static status connect_store(agent_group *g, int64_t wait_ms, err *e)
{
    const int64_t end = clock_ns() + wait_ms * 1000000;
    status got;
    do got = comm_store_tcp_open(&g->address, &g->secret, SLICE_MS, &g->store, e);
    while (waits_on(g, end, &got, e));
    return got;
}

// ---- the store ----

static status find_endpoint(const agent_rendezvous *m, net_address *out, bool *own, err *e)
{
    status result = OK;
    const char *host = m->endpoint.host[0] ? m->endpoint.host : "127.0.0.1";
    TRY(net_address_resolve(host, m->endpoint.port, out, e));
    *own = m->is_leader >= 0 ? m->is_leader : net_address_is_own(out);
done:
    return result;
}

// The store of this host alone has clients in this process only.
static status find_secret(agent_group *g, err *e)
{
    if (!g->rendezvous->endpoint.host[0]) return net_secret_draw(&g->secret, e);
    return net_secret_find(g->rendezvous->secret_file, &g->address, "a store", &g->secret, e);
}

// All hosts of one run say the same id, so that a host of another run does not join by mistake. It is that of the agent
// which keeps the store.
static status check_id(agent_group *g, err *e)
{
    status result = OK;
    char found[STORE_VALUE_BYTES];
    const char *id = g->rendezvous->id;
    size_t bytes = 0;
    if (g->server) return comm_store_set(g->store, "id", id, strlen(id), CALL_MS, e);
    TRY(await_key(g, "id", found, sizeof found, &bytes, CALL_MS, e));
    if (bytes != strlen(id) || memcmp(found, id, bytes) != 0)
        FAIL(E_USAGE,
             "the run is called \"%s\" on this host and \"%.*s\" on another; valid: one --rdzv-id "
             "on every host, or another endpoint for another run",
             id, (int)bytes, found);
done:
    return result;
}

// The address from which this host reaches the store is the one at which the others reach it.
static status find_own(agent_group *g, err *e)
{
    status result = OK;
    net_address own;
    if (g->rendezvous->local_host) {
        snprintf(g->own, sizeof g->own, "%.*s",
                 TEXT_CUT(g->rendezvous->local_host, sizeof g->own - 1));
        return OK;
    }
    TRY(comm_store_tcp_own(g->store, &own, e));
    net_address_print_host(&own, g->own);
done:
    return result;
}

// Keeps the store. Where the address is one of this host, and another agent of this host keeps the store there,
// this agent is none that leads. An address that only the network knows (of a gateway) stands for all of this host.
static status keep_store(const agent_rendezvous *m, agent_group *g, err *e)
{
    status result = OK;
    net_address bound, any = g->address;
    const bool is_own = net_address_is_own(&g->address);
    err why = {0};
    if (!is_own) net_address_set_any(&any);
    if (store_server_open(&any, &g->secret, &g->server, &bound, &why) == OK) {
        if (!is_own) net_address_set_loopback(&bound);
        g->address = bound;
        return OK;
    }
    if (m->is_leader < 0) result = connect_store(g, CALL_MS, e);
    if (!g->store && result != E_INTERRUPTED) FAIL(why.code, "%s", why.text);
done:
    return result;
}

status agent_group_open(const agent_rendezvous *m, int signals, agent_group *g, err *e)
{
    status result = OK;
    bool own = false;
    *g = (agent_group){.rendezvous = m, .signals = signals, .reserved = -1};
    proc_host_name(g->host, sizeof g->host);
    TRY(find_endpoint(m, &g->address, &own, e));
    TRY(find_secret(g, e));
    if (own) TRY(keep_store(m, g, e));
    if (!g->store) TRY(connect_store(g, m->join_ms, e));
    TRY(check_id(g, e));
    TRY(find_own(g, e));
done:
    if (result != OK) {
        comm_store_close(g->store);
        store_server_close(g->server);
        *g = (agent_group){.reserved = -1};
    }
    return result;
}

// Returns whether a node has left that had joined a round which has not begun.
static status has_lost(agent_group *g, int round, bool *lost, err *e)
{
    char key[STORE_KEY_BYTES], value[STORE_VALUE_BYTES];
    round_key(key, round, "end");
    const status got = comm_store_get(g->store, key, value, sizeof value, NULL, 0, e);
    *lost = got == OK;
    return got == E_PEER ? OK : got;
}

// The leader finds the round that follows the last one. Earlier rounds that a node has left are skipped.
static status find_next(agent_group *g, int *next, err *e)
{
    status result = OK;
    const round_start skipped = {.nodes = SKIPPED};
    char key[STORE_KEY_BYTES];
    bool lost = true;
    for (*next = g->round; lost;) {
        TRY(has_lost(g, ++*next, &lost, e));
        round_key(key, *next, "closed");
        if (lost) TRY(comm_store_set(g->store, key, &skipped, sizeof skipped, CALL_MS, e));
    }
done:
    return result;
}

// Agents that wait for a next round learn that there is none.
static void end_rounds(agent_group *g)
{
    const round_start none = {.nodes = 0};
    char key[STORE_KEY_BYTES];
    int next = 0;
    if (find_next(g, &next, NULL) != OK) return;
    round_key(key, next, "closed");
    (void)comm_store_set(g->store, key, &none, sizeof none, CALL_MS, NULL);
}

void agent_group_close(agent_group *g)
{
    if (g->reserved >= 0) close(g->reserved);
    if (g->server && g->store) {
        const int64_t end = clock_ns() + g->rendezvous->close_ms * 1000000;
        end_rounds(g);
        while (store_server_clients(g->server) > 1 && clock_ns() < end) poll(NULL, 0, LOOK_MS);
    }
    comm_store_close(g->store);
    store_server_close(g->server);
    *g = (agent_group){.reserved = -1};
}

// ---- a round ----

static status refuse_node(const agent_rendezvous *m, const char *other, err *e)
{
    return err_set(
        e, E_USAGE,
        "node %d: another agent, on host %s, has this number; valid: each node has its own "
        "--node-rank from 0 to %d",
        m->node, other, m->most - 1);
}

static bool is_node(const node_record *r)
{
    return r->workers > 0 && r->host[0] && memchr(r->host, 0, sizeof r->host);
}

// Writes this node's record. A static node has its number, others take the next free one.
static status claim(agent_group *g, int round, const node_record *own, int *node, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    node_record found;
    size_t bytes = 0;
    int64_t sum = 0;
    round_key(key, round, "nodes");
    if (g->rendezvous->node < 0) TRY(comm_store_add(g->store, key, 1, &sum, CALL_MS, e));
    *node = g->rendezvous->node < 0 ? (int)sum - 1 : g->rendezvous->node;
    char record[STORE_KEY_BYTES];
    node_key(record, round, *node);
    TRY(comm_store_compare(g->store, record, (store_value){0}, (store_value){own, sizeof *own},
                           &found, sizeof found, &bytes, CALL_MS, e));
    if (bytes != sizeof found || !is_node(&found)) return refuse_record(record, e);
    if (memcmp(&found, own, sizeof found) != 0) TRY(refuse_node(g->rendezvous, found.host, e));
    if (g->rendezvous->node >= 0) TRY(comm_store_add(g->store, key, 1, &sum, CALL_MS, e));
done:
    return result;
}

// The leader's part: waits for the nodes and says how many there are, or that the next round takes the place of this one.
static status close_round(agent_group *g, const agent_round *r, err *e)
{
    status result = OK;
    const agent_rendezvous *m = g->rendezvous;
    bool lost = false;
    char nodes[STORE_KEY_BYTES], closed[STORE_KEY_BYTES];
    int64_t joined = 0, before = 0, changed = clock_ns(), began = changed;
    round_key(nodes, r->number, "nodes");
    round_key(closed, r->number, "closed");
    for (;;) {
        TRY(comm_store_add(g->store, nodes, 0, &joined, CALL_MS, e));
        TRY(has_lost(g, r->number, &lost, e));
        if (lost) break;
        const int64_t now = clock_ns();
        if (joined != before) before = joined, changed = now;
        if (joined >= m->most || (joined >= m->least && now - changed >= m->last_call_ms * 1000000))
            break;
        if (now - began > m->join_ms * 1000000)
            FAIL(E_PEER, "%lld of %d nodes came within %.3g s", (long long)joined, m->least,
                 (double)m->join_ms * 1e-3);
        if (must_stop(g)) TRY(stopped(e));
        poll(NULL, 0, LOOK_MS);
    }
    const int32_t in = joined < m->most ? (int32_t)joined : m->most;
    const round_start start = {
        .nodes = lost ? SKIPPED : in, .restarts = r->restarts, .left = r->left};
    TRY(comm_store_set(g->store, closed, &start, sizeof start, CALL_MS, e));
done:
    return result;
}

static status count_ranks(agent_group *g, agent_round *r, err *e)
{
    status result = OK;
    node_record record;
    char key[STORE_KEY_BYTES];
    r->ranks = r->first_rank = 0;
    for (int node = 0; node < r->nodes; node++) {
        node_key(key, r->number, node);
        TRY(await_record(g, key, &record, sizeof record, g->rendezvous->join_ms, e));
        if (!is_node(&record) || record.workers > INT32_MAX - r->ranks)
            return refuse_record(key, e);
        if (node < r->node) r->first_rank += record.workers;
        r->ranks += record.workers;
    }
done:
    return result;
}

// Node 0 names the place where the workers meet by themselves (MASTER_ADDR, MASTER_PORT).
static status find_master(agent_group *g, const agent_options *o, agent_round *r, err *e)
{
    status result = OK;
    struct {
        int32_t port;
        char host[NET_HOST_BYTES];
    } master = {.port = o->worker_port};
    char key[STORE_KEY_BYTES];
    net_address own;
    round_key(key, r->number, "master");
    if (r->node == 0) {
        const char *host = o->worker_host ? o->worker_host : g->own;
        snprintf(master.host, sizeof master.host, "%.*s", TEXT_CUT(host, sizeof master.host - 1));
        if (g->reserved >= 0) close(g->reserved), g->reserved = -1;
        if (!master.port) {
            TRY(net_address_resolve(g->own, 0, &own, e));
            TRY(net_reserve_port(&own, &g->reserved, &master.port, e));
        }
        TRY(comm_store_set(g->store, key, &master, sizeof master, CALL_MS, e));
    }
    TRY(await_record(g, key, &master, sizeof master, g->rendezvous->join_ms, e));
    if (!memchr(master.host, 0, sizeof master.host) || master.port < 1 || master.port > 65535)
        return refuse_record(key, e);
    strcpy(r->master, master.host);
    r->master_port = master.port;
done:
    return result;
}

// The run has begun without this node. It may be another job's.
static void say_waiting(const agent_group *g, const agent_options *o, int nodes)
{
    char address[NET_ADDRESS_TEXT], line[256];
    net_address_print(&g->address, address);
    snprintf(
        line, sizeof line,
        "the run at %s has begun with %d node%s: this agent waits until it is needed; a job of "
        "its own needs another endpoint",
        address, nodes, nodes == 1 ? "" : "s");
    o->say(line);
}

// Waits until a round begins in which this node is.
static status await_round(agent_group *g, const agent_options *o, const node_record *own,
                          agent_round *r, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    round_start start;
    int64_t wait_ms = g->rendezvous->join_ms + g->rendezvous->last_call_ms;
    // An agent that comes when a round is closed waits for the next one.
    for (;; r->number++) {
        TRY(claim(g, r->number, own, &r->node, e));
        TRY(agent_group_set_on_disconnect(g, g->store, r, g->rendezvous->silent_ms, e));
        if (g->server) TRY(close_round(g, r, e));
        round_key(key, r->number, "closed");
        TRY(await_record(g, key, &start, sizeof start, wait_ms, e));
        if (start.nodes < SKIPPED || start.nodes > g->rendezvous->most || start.restarts < 0 ||
            start.left < 0)
            return refuse_record(key, e);
        if (r->node < start.nodes) break;
        if (start.nodes == 0) FAIL(E_PEER, "the run has ended, and needed no further node");
        if (start.nodes == SKIPPED) continue;
        if (wait_ms != STORE_MOST_MS) say_waiting(g, o, start.nodes);
        wait_ms = STORE_MOST_MS;
    }
    r->nodes = start.nodes;
    r->restarts = start.restarts;
    r->left = start.left;
    g->round = r->number;
    // From now on another connection gives the signs of life (agent_watch.c).
    TRY(agent_group_set_on_disconnect(g, g->store, r, 0, e));
done:
    return result;
}

// The store is lost while this agent waits.
static void explain_lost(const agent_group *g, err *e)
{
    const agent_rendezvous *m = g->rendezvous;
    char address[NET_ADDRESS_TEXT], nodes[32];
    net_address_print(&g->address, address);
    snprintf(nodes, sizeof nodes, m->least == m->most ? "%d" : "%d to %d", m->least, m->most);
    err_prefix(e,
               "the leader's agent (%s) is gone, while this agent waited for %s node%s: ", address,
               nodes, m->most == 1 ? "" : "s");
}

status agent_group_join(agent_group *g, const agent_options *o, agent_round *r, err *e)
{
    status result = OK;
    node_record own = {.nonce = clock_ns() ^ ((int64_t)getpid() << 40), .workers = o->workers};
    strcpy(own.host, g->host);
    TRY(await_round(g, o, &own, r, e));
    TRY(count_ranks(g, r, e));
    TRY(find_master(g, o, r, e));
done:
    if (result == E_IO && !g->server) explain_lost(g, e);
    return result;
}

status agent_group_find(agent_group *g, const agent_round *r, worker_failure *f, err *e)
{
    status result = OK;
    node_record record;
    char key[STORE_KEY_BYTES];
    int first = 0;
    for (int node = 0; node < r->nodes && f->node < 0; node++, first += record.workers) {
        node_key(key, r->number, node);
        TRY(await_record(g, key, &record, sizeof record, CALL_MS, e));
        if (f->rank >= first + record.workers) continue;
        f->node = node;
        f->local_rank = f->rank - first;
        snprintf(f->host, sizeof f->host, "%.*s", (int)sizeof record.host, record.host);
    }
done:
    return result;
}

status agent_group_add_waiting(agent_group *g, const agent_round *r, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    int64_t waiting = 0;
    int next;
    if (!g->server || r->nodes >= g->rendezvous->most) return OK;
    TRY(find_next(g, &next, e));
    round_key(key, next, "nodes");
    TRY(comm_store_add(g->store, key, 0, &waiting, CALL_MS, e));
    if (waiting > 0) TRY(agent_group_publish(g, r, (store_value){"join", 4}, e));
done:
    return result;
}
