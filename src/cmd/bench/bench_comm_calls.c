// bench_comm_calls.c -- the collectives of `trireme bench all_reduce …`: sizes, expected results, and the
// calls of comm.h that each makes. Called by bench_comm_run.c on each rank.
#include "cmd/bench/bench_comm.h"

static void copy(const bench_comm_rank *b, char *out, const char *in, size_t bytes)
{
    if (out != in && bytes) b->device->ops->copy(b->stream, out, in, bytes);
}

// ---- One call

// A call whose arrays have one size works in place.
static status run_call(const bench_comm_rank *b, const bench_comm_row *r, const char *in, char *out,
                       err *e)
{
    const comm_call_kind kind = b->q->what->kind;
    const comm_call_row *row = comm_call_row_of(kind);
    const bool same = row->in == row->out && kind != CALL_ALL_TO_ALL;
    const comm_call call = {kind,
                            .type = b->q->type,
                            .op = row->reduces ? b->q->op : REDUCE_SUM,
                            .peer = row->peer ? b->q->root : 0,
                            .count = r->count,
                            .in = same ? out : in,
                            .out = out};
    if (same && (!row->peer || b->comm->rank == b->q->root)) copy(b, out, in, r->bytes);
    return comm_issue(b->comm, &call, b->stream, e);
}

// Every rank reduces its shard, and the root gathers the shards. The last shards are padded.
static status run_reduce(const bench_comm_rank *b, const bench_comm_row *r, const char *in,
                         char *out, err *e)
{
    status result = OK;
    const size_t count = r->shard_bytes / dtype_bytes(b->q->type);
    char *const mine = out + (size_t)b->comm->rank * r->shard_bytes;
    const comm_call gather = {CALL_GATHER,    .type = b->q->type, .peer = b->q->root,
                              .count = count, .in = mine,         .out = out};
    TRY(comm_reduce_scatter(b->comm, in, mine, count, b->q->type, b->q->op, b->stream, e));
    TRY(comm_issue(b->comm, &gather, b->stream, e));
done:
    return result;
}

// ---- Messages

// Sends to `to`, and receives from `from`. Of two ranks that send to each other, one sends first, because a send of a
// long message may wait for its receiver.
static status exchange(const bench_comm_rank *b, const char *out, int to, char *in, int from,
                       bool sends_first, size_t bytes, err *e)
{
    const comm_message send = comm_message_to(b->comm, out, bytes, to),
                       recv = comm_message_from(b->comm, in, bytes, from);
    const comm_message both[] = {sends_first ? send : recv, sends_first ? recv : send};
    return comm_issue_group(both, 2, b->stream, e);
}

// A call has ended when its buffers may be used again.
static status wait_for_sends(const bench_comm_rank *b, err *e)
{
    status result = OK;
    for (int r = 0; r < b->comm->size; r++)
        if (b->comm->sent[r]) TRY(comm_send_wait(b->comm, r, b->comm->sent[r], b->stream, e));
done:
    return result;
}

static status run_sendrecv(const bench_comm_rank *b, const bench_comm_row *r, const char *in,
                           char *out, err *e)
{
    status result = OK;
    const int rank = b->comm->rank, size = b->comm->size;
    TRY(exchange(b, in, (rank + 1) % size, out, (rank + size - 1) % size, rank % 2 == 0, r->bytes,
                 e));
    TRY(wait_for_sends(b, e));
done:
    return result;
}

// Gathers in rounds: in each, a rank exchanges all that it has with the rank across one more dimension.
static status run_hypercube(const bench_comm_rank *b, const bench_comm_row *r, const char *in,
                            char *out, err *e)
{
    status result = OK;
    const int rank = b->comm->rank, size = b->comm->size;
    copy(b, out + (size_t)rank * r->shard_bytes, in, r->shard_bytes);
    for (int mask = 1; mask < size; mask <<= 1) {
        const int peer = rank ^ mask, mine = rank & ~(mask - 1), theirs = mine ^ mask;
        TRY(exchange(b, out + (size_t)mine * r->shard_bytes, peer,
                     out + (size_t)theirs * r->shard_bytes, peer, rank < peer,
                     (size_t)mask * r->shard_bytes, e));
    }
    TRY(wait_for_sends(b, e));
done:
    return result;
}

// ---- Results

// As the type holds it. Sums of such numbers are not exact, so another order of sums gives other bits.
double bench_comm_value(const bench_comm_rank *b, int rank, size_t i)
{
    const double whole = (double)((i * 7 + (size_t)rank * 3) % 16), x = whole * 0.37 - 2;
    switch (b->q->type) {
    case F32:
        return (float)x;
    case BF16:
        return bf16_to_float(float_to_bf16((float)x));
    case F16:
        return fp16_to_float(float_to_fp16((float)x));
    case F64:
        return x;
    default:
        return whole;
    }
}

// Element i of the reduction of ranks low to high - 1, by the tree of comm.h.
static double reduced(const bench_comm_rank *b, int low, int high, size_t i)
{
    int half = 1;
    if (high - low == 1) return bench_comm_value(b, low, i);
    while (half * 2 < high - low) half *= 2;
    const double x = reduced(b, low, low + half, i), y = reduced(b, low + half, high, i);
    if (b->q->op != REDUCE_SUM) return (b->q->op == REDUCE_MAX ? x > y : x < y) ? x : y;
    return b->q->type == F64 ? x + y : (double)((float)x + (float)y);
}

static double expect_reduced(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    (void)r;
    return reduced(b, 0, b->comm->size, i);
}

static double expect_reduced_shard(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    return reduced(b, 0, b->comm->size, (size_t)b->comm->rank * r->count + i);
}

static double expect_gathered(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    return bench_comm_value(b, (int)(i / r->count), i % r->count);
}

static double expect_root(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    (void)r;
    return bench_comm_value(b, b->q->root, i);
}

static double expect_root_shard(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    return bench_comm_value(b, b->q->root, (size_t)b->comm->rank * r->count + i);
}

static double expect_previous(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    (void)r;
    return bench_comm_value(b, (b->comm->rank + b->comm->size - 1) % b->comm->size, i);
}

static double expect_from_each(const bench_comm_rank *b, const bench_comm_row *r, size_t i)
{
    return bench_comm_value(b, (int)(i / r->count),
                            (size_t)b->comm->rank * r->count + i % r->count);
}

// ---- The table

#define REDUCES  .reduces = true
#define ROOTED   .rooted = true
#define DIVIDES  .divides = true
#define IN_PLACE .in_place = true

// clang-format off
const bench_collective BENCH_COLLECTIVES[] = {
    {"all_reduce", ARRAY_FULL, ARRAY_FULL, BUS_ALL_REDUCE, .run = run_call, .kind = CALL_ALL_REDUCE, .expect = expect_reduced, REDUCES, IN_PLACE},
    {"reduce_scatter", ARRAY_FULL, ARRAY_SHARD, BUS_OTHERS, .run = run_call, .kind = CALL_REDUCE_SCATTER, .expect = expect_reduced_shard, REDUCES, DIVIDES, IN_PLACE},
    {"all_gather", ARRAY_SHARD, ARRAY_FULL, BUS_OTHERS, .run = run_call, .kind = CALL_ALL_GATHER, .expect = expect_gathered, DIVIDES, IN_PLACE},
    {"broadcast", ARRAY_FULL, ARRAY_FULL, BUS_ONE, .run = run_call, .kind = CALL_BROADCAST, .expect = expect_root, ROOTED, IN_PLACE},
    {"reduce", ARRAY_FULL, ARRAY_FULL_OF_ROOT, BUS_ONE, .run = run_reduce, .expect = expect_reduced, REDUCES, ROOTED, IN_PLACE},
    {"alltoall", ARRAY_FULL, ARRAY_FULL, BUS_OTHERS, .run = run_call, .kind = CALL_ALL_TO_ALL, .expect = expect_from_each, DIVIDES},
    {"sendrecv", ARRAY_FULL, ARRAY_FULL, BUS_ONE, .run = run_sendrecv, .expect = expect_previous},
    {"scatter", ARRAY_FULL, ARRAY_SHARD, BUS_OTHERS, .run = run_call, .kind = CALL_SCATTER, .expect = expect_root_shard, ROOTED, DIVIDES, IN_PLACE},
    {"gather", ARRAY_SHARD, ARRAY_FULL_OF_ROOT, BUS_OTHERS, .run = run_call, .kind = CALL_GATHER, .expect = expect_gathered, ROOTED, DIVIDES, IN_PLACE},
    {"hypercube", ARRAY_SHARD, ARRAY_FULL, BUS_HYPERCUBE, .run = run_hypercube, .expect = expect_gathered, DIVIDES, IN_PLACE},
    {.name = NULL},
};
// clang-format on
