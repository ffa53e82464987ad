// agent_group.h -- how agents meet in the store: the leader, the nodes of a round and their ranks, the first failure of
// a round, and the common end. Used by agent.c only.
//
// Keys of the store, for round R:
//   id             the name of the run
//   R/nodes        how many agents have come
//   R/node/I       the record of node I
//   R/closed       how many nodes are in the round, and the restarts; 0 nodes: the run has ended; SKIPPED: the next
//                  round takes its place, because a node that had come is gone
//   R/master       address and port for the workers' own rendezvous
//   R/end          the first failure, "done", or "join"; before the round begins: a node that had come is gone
//   R/finished     how many nodes' workers have all succeeded
#ifndef TRIREME_LAUNCH_AGENT_GROUP_H
#define TRIREME_LAUNCH_AGENT_GROUP_H

#include "launch/agent.h"
#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"

typedef struct agent_group {
    const agent_rendezvous *rendezvous;
    store_server *server; // NULL: another host keeps the store
    comm_store *store;
    net_address address; // of the store
    net_secret secret;
    char host[HOST_BYTES];      // this host's name
    char own[NET_ADDRESS_TEXT]; // this host's address for the others
    int round;                  // the last one
    int signals;                // a wait for other nodes ends when this descriptor is readable
    int reserved;               // keeps the port of the workers' rendezvous, on node 0; -1: none
} agent_group;

// A round as this node sees it.
typedef struct agent_round {
    int number, node, nodes;
    int first_rank, ranks; // of this node's workers; of all
    int restarts, left;    // of the run: so far, and that failures may still cost
    char master[NET_HOST_BYTES];
    int master_port;
} agent_round;

// `signals` is a descriptor that becomes readable when the agent shall stop: calls that wait for other nodes are then
// E_INTERRUPTED.
status agent_group_open(const agent_rendezvous *m, int signals, agent_group *g, err *e);
// Waits until the others need the store no longer, at most m->close_ms, and closes it.
void agent_group_close(agent_group *g);

// Joins the next round with so many workers. All nodes then have the leader's restarts. Collective over the agents.
status agent_group_join(agent_group *g, const agent_options *o, agent_round *r, err *e);
// Publishes what ends a round. Where there is such a record already, it stays.
status agent_group_publish(agent_group *g, const agent_round *r, store_value v, err *e);
// Publishes the first failure of a round. Where there is one already, it stays.
status agent_group_fail(agent_group *g, const agent_round *r, const worker_failure *f, err *e);
// Fills the node, the local rank and the host of a worker that another worker has blamed, where its node is -1.
status agent_group_find(agent_group *g, const agent_round *r, worker_failure *f, err *e);
// All workers of this node have succeeded. The last node ends the round.
status agent_group_finish(agent_group *g, const agent_round *r, err *e);
// Ends the round where the leader finds that further nodes wait and that there is room for them. The others do nothing.
status agent_group_add_waiting(agent_group *g, const agent_round *r, err *e);
// Writes the key of the round's end.
void agent_group_end_key(const agent_round *r, char out[STORE_KEY_BYTES]);
// The record of an agent that is lost.
void agent_group_lost(const agent_group *g, int node, const char *what, worker_failure *out);
// Sets what the others read as the end of the round when the connection s ends, or gives no sign of life for
// silent_ms (0: for however long).
status agent_group_set_on_disconnect(const agent_group *g, comm_store *s, const agent_round *r,
                                     int64_t silent_ms, err *e);

#endif
