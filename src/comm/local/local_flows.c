// local_flows.c -- describes the calls of the communicator local: the ways flat and direct of local_collective.c. The
// trainer's arrays are memory of comm_alloc, so nothing is staged. Called by algorithm.c and hier_flows.c.
#include "comm/local/local.h"

// `moved`: bytes that a rank reads and writes.
static void add(comm_flows *out, double rounds, double sent, double moved)
{
    comm_flow x = {.memory = moved};
    x.rounds[COMM_SHARED_MEMORY] = rounds;
    x.sent[COMM_SHARED_MEMORY] = sent;
    comm_flows_add(out, x);
}

// A flat call shows `shown` bytes of each rank and reads those of all; a direct one meets a second time.
static void all_reduce(const comm_described_call *c, comm_flows *out)
{
    const double n = c->on.ranks, bytes = c->bytes;
    if (bytes <= LOCAL_FLAT_BYTES)
        add(out, 1, (n - 1) * bytes, (n + 3) * bytes);
    else
        add(out, 2, 2 * (n - 1) / n * bytes, 2 * bytes);
}

static void reduce_scatter(const comm_described_call *c, comm_flows *out)
{
    const double n = c->on.ranks, shard = c->bytes / n;
    const bool is_flat = !c->segments && c->bytes <= LOCAL_FLAT_BYTES;
    add(out, is_flat ? 1 : 2, (n - 1) * shard, c->bytes + shard + (is_flat ? 2 * c->bytes : 0));
}

static void all_gather(const comm_described_call *c, comm_flows *out)
{
    const double n = c->on.ranks, shard = c->bytes / n,
                 copied = c->segments && !c->in_place ? c->bytes : c->bytes - shard;
    const bool is_flat = !c->segments && shard <= LOCAL_FLAT_BYTES;
    add(out, is_flat ? 1 : 2, (n - 1) * shard, 2 * copied + (is_flat ? 2 * shard : 0));
}

// All others read the root's array.
static void broadcast(const comm_described_call *c, comm_flows *out)
{
    const bool is_flat = c->bytes <= LOCAL_FLAT_BYTES;
    add(out, is_flat ? 1 : 2, (c->on.ranks - 1) * c->bytes, (is_flat ? 4 : 2) * c->bytes);
}

static void meet(const comm_described_call *c, comm_flows *out)
{
    (void)c;
    add(out, 1, 0, 0);
}

// A send announces its bytes, and does not wait. The receiver copies them.
static void send(const comm_described_call *c, comm_flows *out)
{
    add(out, 0, c->bytes, 0);
}

static void recv(const comm_described_call *c, comm_flows *out)
{
    add(out, 1, c->bytes, 2 * c->bytes);
}

void local_flows(const comm_described_call *c, comm_flows *out)
{
    static const comm_describe_flows describe[CALL_KINDS] = {
        [CALL_BARRIER] = meet,
        [CALL_SPLIT] = meet,
        [CALL_SHARE] = meet,
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_BROADCAST] = broadcast,
        [CALL_SEND] = send,
        [CALL_RECV] = recv,
    };
    if (describe[c->kind]) describe[c->kind](c, out);
}
