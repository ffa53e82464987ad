// network_flows.c -- describes the calls of communicators of network.h: the algorithms of all_reduce, which the table of
// network_algorithm.c chooses, and the other collectives of network_collective.c. Segments are packed, so it is asked
// for plain arrays only. Called by algorithm.c and hier_flows.c.
#include "comm/network/network_private.h"

#include <math.h>

// One step of a tree or of a dissemination. The partner is `distance` ranks away, of `on->per_host` adjacent ones: so
// many of a host's ranks have a partner on another host.
static void add_step(const comm_topology *on, int distance, double rounds, double bytes,
                     comm_flow *to)
{
    const double beyond = on->hosts > 1 ? fmin(distance, on->per_host) / (double)on->per_host : 0;
    to->rounds[beyond > 0 ? COMM_NETWORK : COMM_HOST_LINK] += rounds;
    to->sent[COMM_NETWORK] += beyond * bytes;
    to->sent[COMM_HOST_LINK] += (1 - beyond) * bytes;
    to->memory += 2 * bytes;
}

// As add_step between ranks whose numbers differ in one bit. Where hosts have powers of two of ranks, those of a small
// distance are on one host.
static void add_pair(const comm_topology *on, int distance, double rounds, double bytes,
                     comm_flow *to)
{
    const bool aligned = (on->per_host & (on->per_host - 1)) == 0;
    const comm_topology one = {on->ranks, on->per_host, 1};
    add_step(aligned && distance < on->per_host ? &one : on, distance, rounds, bytes, to);
}

// A sum that reads `read` bytes and writes `written`, after what was received.
static void add_sum(double read, double written, comm_flows *out)
{
    comm_flows_add(out, (comm_flow){.memory = read + written});
}

void network_doubling_flows(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = 0};
    for (int d = 1; d < c->on.ranks; d *= 2) add_pair(&c->on, d, 1, c->bytes, &x);
    comm_flows_add(out, x);
    const int steps = comm_tree_steps(c->on.ranks);
    add_sum(2 * steps * c->bytes, steps * c->bytes, out);
}

void network_gather_flows(const comm_described_call *c, comm_flows *out)
{
    const int size = c->on.ranks;
    comm_flow x = {.memory = 0};
    for (int have = 1; have < size; have *= 2)
        add_step(&c->on, have, 1, c->bytes * (have < size - have ? have : size - have), &x);
    comm_flows_add(out, x);
    add_sum((size + 1) * c->bytes, 2 * c->bytes, out); // its own array is copied to the others
}

void network_halving_flows(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = 0};
    double part = c->bytes / 2, summed = 0;
    for (int d = 1; d < c->on.ranks; d *= 2, part /= 2) {
        add_pair(&c->on, d, 2, 2 * part, &x);
        summed += part;
    }
    comm_flows_add(out, x);
    add_sum(2 * summed, summed, out);
}

static double pieces_of(double bytes, double most)
{
    return bytes <= most ? 1 : ceil(bytes / most);
}

// A piece is summed while the next one is exchanged, so of one piece the sum comes after the exchange.
static void add_pieces(comm_flow exchange, double pieces, double read, double written,
                       comm_flows *out)
{
    exchange.memory += (read + written) * (1 - 1 / pieces);
    comm_flows_add(out, exchange);
    add_sum(read / pieces, written / pieces, out);
}

void network_direct_flows(const comm_described_call *c, comm_flows *out)
{
    const double share = c->bytes / c->on.ranks,
                 pieces = pieces_of(c->bytes, NETWORK_WORK_BYTES / 2);
    add_pieces(comm_exchange_flow(&c->on, pieces + 1, 2 * share), pieces, c->bytes, share, out);
}

static void reduce_scatter(const comm_described_call *c, comm_flows *out)
{
    const double shard = c->bytes / c->on.ranks,
                 pieces = pieces_of(c->bytes, NETWORK_WORK_BYTES / 2);
    add_pieces(comm_exchange_flow(&c->on, pieces, shard), pieces, c->bytes, shard, out);
}

static void all_gather(const comm_described_call *c, comm_flows *out)
{
    const double pieces = pieces_of(c->bytes, NETWORK_WORK_BYTES / 2);
    comm_flows_add(out, comm_exchange_flow(&c->on, pieces, c->bytes / c->on.ranks));
}

// The root sends to all of its children at once, and the last one is as deep as the tree.
static void broadcast(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = 0};
    for (int d = 1; d < c->on.ranks; d *= 2) add_pair(&c->on, d, 1, c->bytes, &x);
    comm_flows_add(out, x);
}

static void disseminate(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = 0};
    x.rounds[comm_farthest(&c->on)] = comm_tree_steps(c->on.ranks);
    comm_flows_add(out, x);
}

static void message(const comm_described_call *c, comm_flows *out)
{
    comm_flow x = {.memory = c->bytes};
    x.rounds[comm_farthest(&c->on)] = 1;
    x.sent[comm_farthest(&c->on)] = c->bytes;
    comm_flows_add(out, x);
}

void network_flows(const comm_described_call *c, comm_flows *out)
{
    static const comm_describe_flows describe[CALL_KINDS] = {
        [CALL_BARRIER] = disseminate,   [CALL_SPLIT] = disseminate,
        [CALL_SHARE] = disseminate,     [CALL_ALL_REDUCE] = network_all_reduce_flows,
        [CALL_ALL_GATHER] = all_gather, [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_BROADCAST] = broadcast,   [CALL_SEND] = message,
        [CALL_RECV] = message,          [CALL_COMPARE] = all_gather,
    };
    if (describe[c->kind]) describe[c->kind](c, out);
}
