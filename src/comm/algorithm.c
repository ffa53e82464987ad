// algorithm.c -- describes what is common to communicators: segments that are packed, collectives that are made of
// messages, and groups of one rank. See algorithm.h. Called by the planner.
#include "comm/algorithm.h"

#include "comm/compose.h"
#include "comm/registry.h"
#include "comm/solo.h"

#include <math.h>

// ---- Flows

static comm_flow times(const comm_flow *x, double factor)
{
    comm_flow out = {.memory = x->memory * factor};
    for (int k = 0; k < COMM_LEVELS; k++) {
        out.rounds[k] = x->rounds[k] * factor;
        out.sent[k] = x->sent[k] * factor;
    }
    return out;
}

static void sum_into(comm_flow *x, const comm_flow *more)
{
    x->memory += more->memory;
    for (int k = 0; k < COMM_LEVELS; k++) {
        x->rounds[k] += more->rounds[k];
        x->sent[k] += more->sent[k];
    }
}

void comm_flows_add(comm_flows *f, comm_flow next)
{
    if (f->count == COMM_FLOWS)
        sum_into(&f->flow[COMM_FLOWS - 1], &next);
    else
        f->flow[f->count++] = next;
}

void comm_flows_join(comm_flows *f, const comm_flows *more, double factor)
{
    for (int i = 0; i < more->count; i++) comm_flows_add(f, times(&more->flow[i], factor));
}

comm_flow comm_exchange_flow(const comm_topology *t, double rounds, double bytes)
{
    comm_flow out = {.memory = 2 * (t->ranks - 1) * bytes};
    out.rounds[comm_farthest(t)] = rounds;
    out.sent[COMM_HOST_LINK] = (t->per_host - 1) * bytes;
    out.sent[COMM_NETWORK] = (t->ranks - t->per_host) * bytes;
    return out;
}

comm_described_call comm_described_part(const comm_described_call *c, comm_topology on,
                                        comm_call_kind kind, double bytes)
{
    return (comm_described_call){
        .on = on, .kind = kind, .type = c->type, .bytes = bytes, .any_order = c->any_order};
}

int comm_tree_steps(int ranks)
{
    int steps = 0;
    while ((int64_t)1 << steps < ranks) steps++;
    return steps;
}

// ---- Collectives that are made of messages

// Of `to_host` messages inside of a host, and `beyond` to others.
typedef struct message_counts {
    double to_host, beyond;
} message_counts;

static comm_flow one_message(const comm_flows_row *row, const comm_described_call *c,
                             comm_call_kind kind, bool beyond, double bytes)
{
    const comm_topology pair = {2, beyond ? 1 : 2, beyond ? 2 : 1};
    const comm_described_call message = comm_described_part(c, pair, kind, bytes);
    comm_flows flows = {.count = 0};
    comm_flow out = {.memory = 0};
    row->describe(&message, &flows);
    for (int i = 0; i < flows.count; i++) sum_into(&out, &flows.flow[i]);
    return out;
}

// Messages that start together wait together: then there is a round for each batch, else one for each message.
static comm_flow messages(const comm_flows_row *row, const comm_described_call *c,
                          comm_call_kind kind, message_counts count, double bytes)
{
    comm_flow out = {.memory = 0};
    for (int beyond = 0; beyond < 2; beyond++) {
        const comm_flow one = one_message(row, c, kind, beyond, bytes);
        const comm_flow all = times(&one, beyond ? count.beyond : count.to_host);
        sum_into(&out, &all);
    }
    if (!row->can->sends_wait) return out;
    const int batch = c->kind == CALL_ALL_TO_ALL ? COMPOSE_ROUNDS : COMPOSE_MESSAGES;
    const double batches = ceil((count.to_host + count.beyond) / batch);
    for (int k = 0; k < COMM_LEVELS; k++) out.rounds[k] = 0;
    out.rounds[comm_farthest(&c->on)] = batches;
    return out;
}

// Of an all_to_all each rank sends to all others and receives as much from them. Of the others the root sends to all
// others, or receives.
static void describe_messages(const comm_flows_row *row, const comm_described_call *c,
                              comm_flows *out)
{
    const double shard = c->bytes / c->on.ranks;
    const message_counts count = {c->on.per_host - 1, c->on.ranks - c->on.per_host};
    comm_flow all = messages(row, c, c->kind == CALL_GATHER ? CALL_RECV : CALL_SEND, count, shard);
    if (c->kind == CALL_ALL_TO_ALL) {
        const comm_flow received = messages(row, c, CALL_RECV, count, shard);
        all.memory += received.memory;
        for (int k = 0; k < COMM_LEVELS; k++)
            all.rounds[k] = row->can->sends_wait ? fmax(all.rounds[k], received.rounds[k])
                                                 : all.rounds[k] + received.rounds[k];
    }
    all.memory += 2 * shard; // its own
    comm_flows_add(out, all);
}

// ---- Packed segments

static void describe_copies(double bytes, comm_flows *out)
{
    comm_flows_add(out, (comm_flow){.memory = 2 * bytes});
}

// An all_gather packs this rank's shards and unpacks the others, a reduce_scatter packs all and unpacks this rank's sums.
static void describe_packed(const comm_flows_row *row, const comm_described_call *c,
                            comm_flows *out)
{
    const comm_described_call plain = comm_described_part(c, c->on, c->kind, c->bytes);
    const double shard = c->bytes / c->on.ranks;
    const bool gathers = c->kind == CALL_ALL_GATHER;
    describe_copies(gathers ? shard : c->bytes, out);
    row->describe(&plain, out);
    describe_copies(!gathers ? shard : c->in_place ? c->bytes - shard : c->bytes, out);
}

bool comm_flows_of(const char *communicator, const comm_described_call *c, comm_flows *out)
{
    comm_flows_row row;
    *out = (comm_flows){.count = 0};
    if (!comm_flows_row_of(communicator, &row)) return false;
    if (c->on.ranks == 1)
        solo_flows(c, out);
    else if (comm_call_row_of(c->kind)->compose)
        describe_messages(&row, c, out);
    else if (c->segments && row.can->needs_workspace)
        describe_packed(&row, c, out);
    else
        row.describe(c, out);
    return true;
}
