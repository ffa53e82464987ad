// p2p_flows.c -- describes the calls of the communicator p2p on its streams: copies and K_REDUCE between two meetings.
// Segments are packed, so it is asked for plain arrays only. Called by algorithm.c.
#include "comm/p2p/p2p_private.h"

static void add(comm_flows *out, double rounds, double sent, double moved)
{
    comm_flow x = {.memory = moved};
    x.rounds[COMM_HOST_LINK] = rounds;
    x.sent[COMM_HOST_LINK] = sent;
    comm_flows_add(out, x);
}

void p2p_flows(const comm_described_call *c, comm_flows *out)
{
    const double n = c->on.ranks, bytes = c->bytes, shard = bytes / n;
    switch (c->kind) {
    case CALL_ALL_REDUCE: // others read this rank's shards of them, and it writes its shard to theirs
        add(out, PHASES, 2 * (bytes - shard), 2 * bytes);
        break;
    case CALL_REDUCE_SCATTER:
        add(out, PHASES, bytes - shard, bytes + shard);
        break;
    case CALL_ALL_GATHER:
        add(out, PHASES, bytes - shard, 2 * (bytes - shard));
        break;
    case CALL_BROADCAST: // all others read the root's array
        add(out, PHASES, (n - 1) * bytes, 2 * bytes);
        break;
    case CALL_SEND: // its stream waits while the receiver's copies
    case CALL_RECV:
        add(out, 1, bytes, 2 * bytes);
        break;
    default: { // hosts meet
        comm_flow x = {.rounds[COMM_SHARED_MEMORY] = 1};
        if (c->kind == CALL_BARRIER || c->kind == CALL_SPLIT || c->kind == CALL_SHARE)
            comm_flows_add(out, x);
    }
    }
}
