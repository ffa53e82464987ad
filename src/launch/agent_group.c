// agent_group.c -- see agent_group.h.
#include "launch/agent_group.h"

#include "base/clock.h"
#include "base/proc.h"
#include "net/socket.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALL_MS = 60000, LOOK_MS = 20, SLICE_MS = 100 };

// What an agent tells the others. Plain numbers and characters of the same program on every host.
typedef struct node_record {
    int64_t drawn; // tells two agents of one host apart
    int32_t workers;
    char host[HOST_BYTES];
    char zero[4];
} node_record;
_Static_assert(sizeof(node_record) == 16 + HOST_BYTES, "without padding");

static void round_key(char out[STORE_KEY_BYTES], int round, const char *what)
{
    snprintf(out, STORE_KEY_BYTES, "%d/%s", round, what);
}

static void node_key(char out[STORE_KEY_BYTES], int round, int node)
{
    snprintf(out, STORE_KEY_BYTES, "%d/node/%d", round, node);
}

void agent_group_end_key(const agent_round *r, char out[STORE_KEY_BYTES])
{
    round_key(out, r->number, "end");
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

// Does the call that returned *got in its slice of the wait need another one? A signal ends the wait: *got is then
// E_INTERRUPTED.
static bool waits_on(const agent_group *g, int64_t end_ns, status *got, err *e)
{
    if (*got != E_PEER || clock_ns() >= end_ns) return false;
    if (!must_stop(g)) return true;
    *got = stopped(e);
    return false;
}

// Copies the value [bytes] of a key that another node sets.
static status await_value(agent_group *g, const char *key, void *out, size_t bytes, int64_t wait_ms,
                          err *e)
{
    const int64_t end = clock_ns() + wait_ms * 1000000;
    status got;
    do got = comm_store_get(g->store, key, out, bytes, NULL, SLICE_MS, e);
    while (waits_on(g, end, &got, e));
    return got;
}

// Waits until the leading agent listens.
static status connect_store(agent_group *g, err *e)
{
    const int64_t end = clock_ns() + g->meeting->join_ms * 1000000;
    status got;
    do got = comm_store_tcp_open(&g->address, &g->meeting->secret, SLICE_MS, &g->store, e);
    while (waits_on(g, end, &got, e));
    return got;
}

// ---- the store ----

static status find_endpoint(const agent_meeting *m, net_address *out, bool *own, err *e)
{
    status result = OK;
    const char *host = m->endpoint.host[0] ? m->endpoint.host : "127.0.0.1";
    TRY(net_address_resolve(host, m->endpoint.port, out, e));
    *own = m->is_leader >= 0 ? m->is_leader : net_address_is_own(out);
done:
    return result;
}

// All hosts of one run say the same id, so that a host of another run does not join by mistake.
static status check_id(agent_group *g, err *e)
{
    status result = OK;
    char found[STORE_VALUE_BYTES];
    const char *id = g->meeting->id;
    size_t bytes = 0;
    if (!id[0]) return OK;
    TRY(comm_store_compare(g->store, "id", (store_value){0}, (store_value){id, strlen(id)}, found,
                           sizeof found, &bytes, CALL_MS, e));
    if (bytes != strlen(id) || memcmp(found, id, bytes) != 0)
        FAIL(E_USAGE,
             "the run is called \"%s\" on this host and \"%.*s\" on another; valid: one --rdzv-id",
             id, (int)bytes, found);
done:
    return result;
}

// The address from which this host reaches the store is the one at which the others reach it.
static status find_own(agent_group *g, err *e)
{
    status result = OK;
    net_address own;
    if (g->meeting->local_host) {
        snprintf(g->own, sizeof g->own, "%.*s",
                 TEXT_CUT(g->meeting->local_host, sizeof g->own - 1));
        return OK;
    }
    TRY(comm_store_tcp_own(g->store, &own, e));
    net_address_print_host(&own, g->own);
done:
    return result;
}

// Keeps the store. Where the address is one of this host, and another agent of this host keeps the store there,
// this agent is none that leads. An address that only the network knows (of a gateway) stands for all of this host.
static status lead(const agent_meeting *m, agent_group *g, err *e)
{
    status result = OK;
    net_address bound, any = g->address;
    const bool is_own = net_address_is_own(&g->address);
    err why = {0};
    if (!is_own) net_address_set_any(&any);
    if (store_server_open(&any, &m->secret, &g->server, &bound, &why) == OK) {
        if (!is_own) net_address_set_loopback(&bound);
        g->address = bound;
        return OK;
    }
    if (m->is_leader < 0)
        (void)comm_store_tcp_open(&g->address, &m->secret, CALL_MS, &g->store, NULL);
    if (!g->store) FAIL(why.code, "%s", why.text);
done:
    return result;
}

status agent_group_open(const agent_meeting *m, int signals, agent_group *g, err *e)
{
    status result = OK;
    bool own = false;
    *g = (agent_group){.meeting = m, .signals = signals, .reserved = -1};
    proc_host_name(g->host, sizeof g->host);
    TRY(find_endpoint(m, &g->address, &own, e));
    if (own) TRY(lead(m, g, e));
    if (!g->store) TRY(connect_store(g, e));
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

// Agents that wait for a next round learn that there is none.
static void end_rounds(agent_group *g)
{
    const int64_t none = 0;
    char key[STORE_KEY_BYTES];
    round_key(key, g->round + 1, "closed");
    (void)comm_store_set(g->store, key, &none, sizeof none, CALL_MS, NULL);
}

void agent_group_close(agent_group *g)
{
    if (g->reserved >= 0) close(g->reserved);
    if (g->server && g->store) {
        const int64_t end = clock_ns() + g->meeting->close_ms * 1000000;
        end_rounds(g);
        while (store_server_clients(g->server) > 1 && clock_ns() < end) poll(NULL, 0, LOOK_MS);
    }
    comm_store_close(g->store);
    store_server_close(g->server);
    *g = (agent_group){.reserved = -1};
}

// ---- a round ----

static status refuse_node(const agent_meeting *m, const char *other, err *e)
{
    return err_set(
        e, E_USAGE,
        "node %d: another agent, on host %s, has this number; valid: each node has its own "
        "--node-rank from 0 to %d",
        m->node, other, m->most - 1);
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
    if (g->meeting->node < 0) TRY(comm_store_add(g->store, key, 1, &sum, CALL_MS, e));
    *node = g->meeting->node < 0 ? (int)sum - 1 : g->meeting->node;
    char record[STORE_KEY_BYTES];
    node_key(record, round, *node);
    TRY(comm_store_compare(g->store, record, (store_value){0}, (store_value){own, sizeof *own},
                           &found, sizeof found, &bytes, CALL_MS, e));
    if (bytes != sizeof found) FAIL(E_IO, "the record of node %d is damaged", *node);
    if (memcmp(&found, own, sizeof found) != 0) TRY(refuse_node(g->meeting, found.host, e));
    if (g->meeting->node >= 0) TRY(comm_store_add(g->store, key, 1, &sum, CALL_MS, e));
done:
    return result;
}

// The leader's part: waits for the nodes and says how many there are.
static status close_round(agent_group *g, int round, err *e)
{
    status result = OK;
    const agent_meeting *m = g->meeting;
    char nodes[STORE_KEY_BYTES], closed[STORE_KEY_BYTES];
    int64_t came = 0, before = 0, changed = clock_ns();
    const int64_t began = changed;
    round_key(nodes, round, "nodes");
    round_key(closed, round, "closed");
    for (;;) {
        TRY(comm_store_add(g->store, nodes, 0, &came, CALL_MS, e));
        const int64_t now = clock_ns();
        if (came != before) before = came, changed = now;
        if (came >= m->most || (came >= m->least && now - changed >= m->last_call_ms * 1000000))
            break;
        if (now - began > m->join_ms * 1000000)
            FAIL(E_PEER, "%lld of %d nodes came within %.3g s", (long long)came, m->least,
                 (double)m->join_ms * 1e-3);
        if (must_stop(g)) TRY(stopped(e));
        poll(NULL, 0, LOOK_MS);
    }
    if (came > m->most) came = m->most;
    TRY(comm_store_set(g->store, closed, &came, sizeof came, CALL_MS, e));
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
        TRY(await_value(g, key, &record, sizeof record, g->meeting->join_ms, e));
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
    TRY(await_value(g, key, &master, sizeof master, g->meeting->join_ms, e));
    master.host[sizeof master.host - 1] = 0;
    strcpy(r->master, master.host);
    r->master_port = master.port;
done:
    return result;
}

status agent_group_join(agent_group *g, const agent_options *o, agent_round *r, err *e)
{
    status result = OK;
    node_record own = {.drawn = clock_ns() ^ ((int64_t)getpid() << 40), .workers = o->workers};
    char key[STORE_KEY_BYTES];
    int64_t nodes = 0, wait_ms = g->meeting->join_ms + g->meeting->last_call_ms;
    strcpy(own.host, g->host);
    // An agent that comes when a round is closed waits for the next one.
    for (;; r->number++) {
        TRY(claim(g, r->number, &own, &r->node, e));
        if (g->server) TRY(close_round(g, r->number, e));
        round_key(key, r->number, "closed");
        TRY(await_value(g, key, &nodes, sizeof nodes, wait_ms, e));
        if (r->node < nodes) break;
        if (nodes == 0) FAIL(E_PEER, "the run has ended, and needed no further node");
        wait_ms = STORE_MOST_MS;
    }
    r->nodes = (int)nodes;
    g->round = r->number;
    TRY(count_ranks(g, r, e));
    TRY(find_master(g, o, r, e));
done:
    return result;
}

// ---- the end of a round ----

static status publish_end(agent_group *g, const agent_round *r, store_value v, err *e)
{
    char key[STORE_KEY_BYTES], found[STORE_VALUE_BYTES];
    agent_group_end_key(r, key);
    return comm_store_compare(g->store, key, (store_value){0}, v, found, sizeof found, NULL,
                              CALL_MS, e);
}

status agent_group_fail(agent_group *g, const agent_round *r, const worker_failure *f, err *e)
{
    status result = OK;
    char packed[STORE_VALUE_BYTES];
    size_t bytes = 0;
    TRY(worker_failure_pack(f, packed, &bytes, e));
    TRY(publish_end(g, r, (store_value){packed, bytes}, e));
done:
    return result;
}

status agent_group_finish(agent_group *g, const agent_round *r, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    int64_t nodes = 0;
    round_key(key, r->number, "finished");
    TRY(comm_store_add(g->store, key, 1, &nodes, CALL_MS, e));
    if (nodes == r->nodes) TRY(publish_end(g, r, (store_value){"done", 4}, e));
done:
    return result;
}

void agent_group_lost(const agent_group *g, int node, const char *what, worker_failure *out)
{
    *out = (worker_failure){
        .rank = -1, .local_rank = -1, .node = node, .pid = (int)getpid(), .time_s = time(NULL)};
    snprintf(out->host, sizeof out->host, "%s", g->host);
    snprintf(out->what, sizeof out->what, "%.*s", TEXT_CUT(what, sizeof out->what - 1));
}
