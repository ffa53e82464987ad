// hier_flows.c -- describes the calls of the communicator hier: by those of local on one host, by steps of local and of
// the network where the layout is HIER_EVEN, and by those of the network else. Segments are packed, so it is asked for
// plain arrays only. Called by algorithm.c.
#include "comm/hier/hier_private.h"

#include <math.h>

// A call on an even layout, in the type in which sums of hosts travel.
typedef struct hier_steps {
    const comm_described_call *call;
    comm_flows *out;
    double wide; // bytes of an element while it travels
    double narrow;
} hier_steps;

static hier_layout layout_of(const comm_topology *t)
{
    if (t->hosts == 1) return HIER_ONE_HOST;
    const bool is_even = t->per_host > 1 && (t->per_host & (t->per_host - 1)) == 0 &&
                         t->per_host * t->hosts == t->ranks;
    return is_even ? HIER_EVEN : HIER_ANY;
}

static comm_described_call step_of(const hier_steps *x, comm_topology on, comm_call_kind kind,
                                   double bytes)
{
    comm_described_call step = comm_described_part(x->call, on, kind, bytes);
    if (x->wide > x->narrow) step.type = F32;
    return step;
}

static void local_step(const hier_steps *x, comm_call_kind kind, double bytes)
{
    const int ranks = x->call->on.per_host;
    const comm_described_call step = step_of(x, (comm_topology){ranks, ranks, 1}, kind, bytes);
    local_flows(&step, x->out);
}

static void remote_step(const hier_steps *x, comm_call_kind kind, double bytes)
{
    const int hosts = x->call->on.hosts;
    const comm_described_call step = step_of(x, (comm_topology){hosts, 1, hosts}, kind, bytes);
    network_flows(&step, x->out);
}

static void copies(const hier_steps *x, double bytes)
{
    if (bytes > 0) comm_flows_add(x->out, (comm_flow){.memory = bytes});
}

static void all_reduce_piece(const hier_steps *x, double bytes)
{
    if (bytes <= HIER_SMALL_BYTES) {
        local_step(x, CALL_ALL_REDUCE, bytes);
        remote_step(x, CALL_ALL_REDUCE, bytes);
        return;
    }
    local_step(x, CALL_REDUCE_SCATTER, bytes);
    remote_step(x, CALL_ALL_REDUCE, bytes / x->call->on.per_host);
    local_step(x, CALL_ALL_GATHER, bytes);
}

// 16-bit types are converted to and from the workspace.
static void all_reduce(const hier_steps *x, double bytes)
{
    const double converted = x->wide > x->narrow ? 2 * bytes * (1 + x->narrow / x->wide) : 0;
    all_reduce_piece(x, bytes);
    copies(x, converted);
}

// Shards are ordered in the workspace.
static void reduce_scatter(const hier_steps *x, double bytes)
{
    copies(x, bytes * (1 + x->narrow / x->wide));
    local_step(x, CALL_REDUCE_SCATTER, bytes);
    remote_step(x, CALL_REDUCE_SCATTER, bytes / x->call->on.per_host);
}

static void all_gather(const hier_steps *x, double bytes)
{
    remote_step(x, CALL_ALL_GATHER, bytes / x->call->on.per_host);
    local_step(x, CALL_ALL_GATHER, bytes);
    copies(x, 2 * bytes);
}

static void broadcast(const hier_steps *x, double bytes)
{
    remote_step(x, CALL_BROADCAST, bytes);
    local_step(x, CALL_BROADCAST, bytes);
}

// Pieces of an array pass through the workspace one after the other, but for what travels as it lies.
static void describe_even(const comm_described_call *c, comm_flows *out)
{
    static void (*const describe[CALL_KINDS])(const hier_steps *x, double bytes) = {
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_BROADCAST] = broadcast,
    };
    comm_flows piece = {.count = 0};
    const bool is_short = dtype_bytes(c->type) == 2 && comm_call_row_of(c->kind)->reduces;
    const double narrow = (double)dtype_bytes(c->type), wide = is_short ? sizeof(float) : narrow,
                 bytes = c->bytes / narrow * wide;
    const bool passes = is_short || c->kind == CALL_REDUCE_SCATTER || c->kind == CALL_ALL_GATHER;
    const double pieces = passes ? fmax(1, ceil(bytes / HIER_WORK_BYTES)) : 1;
    const hier_steps x = {c, &piece, wide, narrow};
    if (!describe[c->kind]) return;
    describe[c->kind](&x, bytes / pieces);
    comm_flows_join(out, &piece, pieces);
}

void hier_flows(const comm_described_call *c, comm_flows *out)
{
    const comm_call_row *row = comm_call_row_of(c->kind);
    const hier_layout layout = layout_of(&c->on);
    if (layout == HIER_ONE_HOST)
        local_flows(c, out);
    else if (layout == HIER_EVEN && !row->is_message && row->in != COMM_NO_ARRAY)
        describe_even(c, out);
    else
        network_flows(c, out);
}
