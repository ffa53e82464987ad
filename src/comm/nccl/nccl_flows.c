// nccl_flows.c -- describes the calls of the communicator nccl: our sums, in which each rank brings its parts of all
// shards to their owners, and those that the library carries out. Of NCCL it knows: it gathers, scatters and broadcasts
// in rings, which go through all ranks of a host before they leave it, each by another NIC; over several hosts it adds in
// two trees over hosts, each for half of an array, with a chain in each host. NVLink SHARP and the direct trees of
// NCCL's newer versions are left out. Segments are packed, so it is asked for plain arrays only. Called by algorithm.c.
#include "comm/nccl/nccl_private.h"

#include <math.h>

// ---- Calls of the library

// Each rank sends `bytes` to the next one of the ring, in `laps` times around it. A host's part that leaves it is shared
// by the NICs of its ranks.
static void ring(const comm_topology *t, double laps, double bytes, double memory, comm_flows *out)
{
    const bool is_far = t->hosts > 1;
    const double leaves = is_far ? 1.0 / t->per_host : 0;
    comm_flow x = {.memory = memory};
    x.rounds[COMM_NETWORK] = is_far ? laps * (t->hosts - 1) : 0;
    x.rounds[COMM_HOST_LINK] = laps * (t->ranks - 1) - x.rounds[COMM_NETWORK];
    x.sent[COMM_NETWORK] = leaves * bytes;
    x.sent[COMM_HOST_LINK] = (1 - leaves) * bytes;
    comm_flows_add(out, x);
}

static void library_all_reduce(const comm_described_call *c, comm_flows *out)
{
    const comm_topology *t = &c->on;
    const double n = t->ranks, bytes = c->bytes;
    if (t->hosts == 1) {
        ring(t, 2, 2 * (n - 1) / n * bytes, 5 * (n - 1) / n * bytes, out);
        return;
    }
    comm_flow x = {.memory = 5 * bytes};
    x.rounds[COMM_NETWORK] = 2 * comm_tree_steps(t->hosts);
    x.rounds[COMM_HOST_LINK] = 2 * (t->per_host - 1);
    x.sent[COMM_NETWORK] = 2 * bytes * (t->hosts - 1) / t->hosts / t->per_host;
    x.sent[COMM_HOST_LINK] = 2 * bytes * (t->per_host - 1) / t->per_host;
    comm_flows_add(out, x);
}

static void all_gather(const comm_described_call *c, comm_flows *out)
{
    const double others = c->bytes * (c->on.ranks - 1) / c->on.ranks;
    ring(&c->on, 1, others, 2 * others, out);
}

// The array follows through the ring in pieces.
static void broadcast(const comm_described_call *c, comm_flows *out)
{
    ring(&c->on, 1, c->bytes, 2 * c->bytes, out);
}

// ---- Sums in the order of the tree

// The parts of a shard come from all ranks in pieces, and the kernel adds each after it.
static void bring_to_owner(const comm_described_call *c, comm_flows *out)
{
    const int ranks = c->on.ranks;
    const double shard = c->bytes / ranks,
                 most = (double)nccl_tree_room(NCCL_PART_BYTES, ranks, c->type) *
                        (double)dtype_bytes(c->type),
                 pieces = fmax(1, ceil(shard / most));
    comm_flows_add(out, comm_exchange_flow(&c->on, pieces, shard));
    comm_flows_add(out, (comm_flow){.memory = c->bytes + shard});
}

static void reduce_scatter(const comm_described_call *c, comm_flows *out)
{
    const double others = c->bytes * (c->on.ranks - 1) / c->on.ranks;
    if (c->any_order)
        ring(&c->on, 1, others, 3 * others, out);
    else
        bring_to_owner(c, out);
}

static void all_reduce(const comm_described_call *c, comm_flows *out)
{
    if (c->any_order) {
        library_all_reduce(c, out);
        return;
    }
    bring_to_owner(c, out);
    comm_flows_add(out, comm_exchange_flow(&c->on, 1, c->bytes / c->on.ranks));
}

// ---- Messages, and what meets in the store

static void message(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = c->bytes};
    x.rounds[comm_farthest(&c->on)] = 1;
    x.sent[comm_farthest(&c->on)] = c->bytes;
    comm_flows_add(out, x);
}

static void meet(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = 0};
    x.rounds[comm_farthest(&c->on)] = 2;
    comm_flows_add(out, x);
}

// More ranks than our sums have are added by the library alone.
void nccl_flows(const comm_described_call *given, comm_flows *out)
{
    static const comm_describe_flows describe[CALL_KINDS] = {
        [CALL_BARRIER] = meet,
        [CALL_SPLIT] = meet,
        [CALL_SHARE] = meet,
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_BROADCAST] = broadcast,
        [CALL_SEND] = message,
        [CALL_RECV] = message,
    };
    comm_described_call c = *given;
    c.any_order = c.any_order || c.on.ranks > NCCL_RANKS;
    if (describe[c.kind]) describe[c.kind](&c, out);
}
