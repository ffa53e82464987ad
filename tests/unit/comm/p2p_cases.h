// p2p_cases.h -- what the tests of the communicator p2p run on each rank, on any device that can share its
// memory. Every collective has the bits of the tree of base/reduce.h.
#ifndef TRIREME_TESTS_COMM_P2P_CASES_H
#define TRIREME_TESTS_COMM_P2P_CASES_H

#include "p2p_ranks.h"

// ---- Numbers

static void fill(void *p, dtype t, int rank, size_t count, uint64_t salt)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t mixed = (i + salt) * 2654435761u + (uint64_t)rank * 40503u;
        const double x = (double)(mixed % 2003u) / 7.0 - 100.0;
        if (t == F32)
            ((float *)p)[i] = (float)x;
        else if (t == BF16)
            ((uint16_t *)p)[i] = float_to_bf16((float)x);
        else if (t == F16)
            ((uint16_t *)p)[i] = float_to_fp16((float)x);
        else if (t == F64)
            ((double *)p)[i] = x;
        else
            ((int64_t *)p)[i] = (int64_t)(x * 1e12);
    }
}

// The reduction of all ranks' `count` elements, by the tree.
static void expect(void *out, int ranks, size_t count, dtype t, reduce_op op, uint64_t salt)
{
    static const size_t room = ROOM * 8;
    char *memory = malloc((size_t)ranks * room);
    const void *in[MOST];
    for (int r = 0; r < ranks; r++) {
        in[r] = memory + (size_t)r * room;
        fill(memory + (size_t)r * room, t, r, count, salt);
    }
    reduce_arrays(&out, 1, in, ranks, count, t, op);
    free(memory);
}

typedef struct arrays {
    char *device, *host, *want; // ROOM elements of 8 bytes each
} arrays;

static status arrays_open(rank_state *s, bool shared, arrays *a, err *e)
{
    status result = OK;
    void *p;
    if (shared)
        TRY(comm_alloc(s->comm, s->device, ROOM * 8, &p, e));
    else
        TRY(device_alloc(s->device, MEMORY_DEVICE, ROOM * 8, &p, e));
    a->device = p;
    a->host = malloc(ROOM * 8);
    a->want = malloc(ROOM * 8);
done:
    return result;
}

static void arrays_close(rank_state *s, bool shared, arrays *a)
{
    if (shared)
        comm_release(s->comm, s->device, a->device, ROOM * 8);
    else
        device_release(s->device, MEMORY_DEVICE, a->device, ROOM * 8);
    free(a->host);
    free(a->want);
}

static status compare(rank_state *s, arrays *a, const void *from, size_t bytes, const char *what,
                      err *e)
{
    status result = OK;
    TRY(device_download(s->stream[STREAM_COMM], a->host, from, bytes, e));
    if (memcmp(a->host, a->want, bytes) != 0) FAIL(E_INTERNAL, "%s: the bits differ", what);
done:
    return result;
}

// ---- Collectives

static const size_t COUNTS[] = {0, 1, 3, 17, 255, 256, 600};
static const dtype TYPES[] = {F32, BF16, F16, F64, I64};

static status check_reductions(rank_state *s, arrays *a, arrays *b, dtype t, reduce_op op,
                               size_t count, size_t offset, err *e)
{
    status result = OK;
    device_stream *on = s->stream[STREAM_COMM];
    const size_t element = dtype_bytes(t), ranks = (size_t)s->comm->size,
                 rank = (size_t)s->comm->rank;
    char *x = a->device + offset * element, *y = b->device + offset * element;
    fill(a->host, t, s->rank, count, 1);
    TRY(device_upload(on, x, a->host, count * element, e));
    TRY(comm_all_reduce(s->comm, x, count, t, op, on, e));
    expect(a->want, s->comm->size, count, t, op, 1);
    TRY(compare(s, a, x, count * element, "all_reduce", e));

    fill(a->host, t, s->rank, count * ranks, 2);
    TRY(device_upload(on, x, a->host, count * ranks * element, e));
    TRY(comm_reduce_scatter(s->comm, x, y, count, t, op, on, e));
    TRY(comm_reduce_scatter(s->comm, x, x + rank * count * element, count, t, op, on, e));
    expect(a->want, s->comm->size, count * ranks, t, op, 2);
    memmove(a->want, a->want + rank * count * element, count * element);
    TRY(compare(s, a, y, count * element, "reduce_scatter", e));
    TRY(compare(s, a, x + rank * count * element, count * element, "reduce_scatter in place", e));
done:
    return result;
}

static status check_copies(rank_state *s, arrays *a, arrays *b, dtype t, size_t count,
                           size_t offset, err *e)
{
    status result = OK;
    device_stream *on = s->stream[STREAM_COMM];
    const size_t bytes = count * dtype_bytes(t), ranks = (size_t)s->comm->size,
                 rank = (size_t)s->comm->rank;
    char *x = a->device + offset * dtype_bytes(t), *y = b->device + offset * dtype_bytes(t);
    fill(a->host, t, s->rank, count, 3);
    TRY(device_upload(on, x, a->host, bytes, e));
    TRY(comm_all_gather(s->comm, x, y, count, t, on, e));
    for (size_t r = 0; r < ranks; r++) fill(a->want + r * bytes, t, (int)r, count, 3);
    TRY(compare(s, a, y, ranks * bytes, "all_gather", e));
    fill(a->host, t, s->rank, count, 3);
    TRY(device_upload(on, y + rank * bytes, a->host, bytes, e));
    TRY(comm_all_gather(s->comm, y + rank * bytes, y, count, t, on, e));
    TRY(compare(s, a, y, ranks * bytes, "all_gather in place", e));

    const int root = s->comm->size - 1;
    fill(a->host, t, s->rank, count, 4);
    TRY(device_upload(on, x, a->host, bytes, e));
    TRY(comm_broadcast(s->comm, x, bytes, root, on, e));
    fill(a->want, t, root, count, 4);
    TRY(compare(s, a, x, bytes, "broadcast", e));
done:
    return result;
}

// Each rank has a shard for every other one.
static status check_messages(rank_state *s, arrays *a, arrays *b, dtype t, size_t count, err *e)
{
    status result = OK;
    device_stream *on = s->stream[STREAM_COMM];
    const size_t bytes = count * dtype_bytes(t), ranks = (size_t)s->comm->size;
    const int root = s->comm->size - 1;
    comm_call call = {CALL_ALL_TO_ALL, .type = t, .count = count, .in = a->device,
                      .out = b->device};
    for (size_t r = 0; r < ranks; r++) {
        fill(a->host + r * bytes, t, s->rank, count, r);
        fill(a->want + r * bytes, t, (int)r, count, (uint64_t)s->rank);
    }
    TRY(device_upload(on, a->device, a->host, ranks * bytes, e));
    TRY(comm_issue(s->comm, &call, on, e));
    TRY(compare(s, a, b->device, ranks * bytes, "all_to_all", e));
    // The root gathers the first shards, and scatters those.
    call = (comm_call){CALL_GATHER,    .type = t,       .peer = root,
                       .count = count, .in = a->device, .out = b->device};
    TRY(comm_issue(s->comm, &call, on, e));
    call.kind = CALL_SCATTER;
    call.in = b->device;
    call.out = a->device + ranks * bytes;
    TRY(comm_issue(s->comm, &call, on, e));
    fill(a->want, t, s->rank, count, 0);
    TRY(compare(s, a, call.out, bytes, "gather and scatter", e));
done:
    return result;
}

static status collectives(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL}, b = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(arrays_open(s, false, &b, e));
    TRY(comm_share(s->comm, e));
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
            const reduce_op op = (reduce_op)((n + t) % 3);
            if (COUNTS[n] * (size_t)s->comm->size >= ROOM) continue;
            TRY(check_reductions(s, &a, &b, TYPES[t], op, COUNTS[n], n % 2, e));
            TRY(check_copies(s, &a, &b, TYPES[t], COUNTS[n], n % 2, e));
            if (COUNTS[n] * (size_t)(s->comm->size + 1) >= ROOM) continue;
            TRY(check_messages(s, &a, &b, TYPES[t], COUNTS[n], e));
        }
done:
    arrays_close(s, false, &b);
    arrays_close(s, true, &a);
    return result;
}

// Calls that nobody waits for in between, on two streams.
static status many_calls(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL}, b = {NULL};
    enum { CALLS = 12, COUNT = 500 };
    TRY(arrays_open(s, true, &a, e));
    TRY(arrays_open(s, true, &b, e));
    TRY(comm_share(s->comm, e));
    for (size_t i = 0; i < COUNT; i++) ((float *)a.host)[i] = 1;
    TRY(device_upload(s->stream[STREAM_COMM], a.device, a.host, COUNT * 4, e));
    TRY(device_upload(s->stream[STREAM_COMM], b.device, a.host, COUNT * 4, e));
    for (int i = 0; i < CALLS; i++) {
        TRY(comm_all_reduce(s->comm, a.device, COUNT, F32, REDUCE_SUM, s->stream[STREAM_COMM], e));
        if (i % 3) continue;
        TRY(comm_all_reduce(s->comm, b.device, COUNT, F32, REDUCE_SUM, s->stream[STREAM_COMPUTE],
                            e));
    }
    TRY(s->device->ops->sync(s->stream[STREAM_COMPUTE], e));
    float x = 1, y = 1;
    for (int i = 0; i < CALLS; i++)
        x *= (float)s->comm->size, y *= i % 3 ? 1 : (float)s->comm->size;
    for (size_t i = 0; i < COUNT; i++) ((float *)a.want)[i] = x;
    TRY(compare(s, &a, a.device, COUNT * 4, "many calls", e));
    for (size_t i = 0; i < COUNT; i++) ((float *)a.want)[i] = y;
    TRY(compare(s, &a, b.device, COUNT * 4, "many calls on a second stream", e));
done:
    arrays_close(s, true, &b);
    arrays_close(s, true, &a);
    return result;
}

// ---- Splits

static status splits(rank_state *s, err *e)
{
    status result = OK;
    comm *all = s->comm, *part = NULL, *one = NULL;
    arrays a = {NULL}, b = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(arrays_open(s, true, &b, e));
    TRY(comm_share(all, e));
    TRY(comm_split(all, s->rank % 2, -s->rank, &part, e)); // in the reverse order
    comm_set_label(part, "part");
    const int rank = s->rank;
    s->comm = part;
    s->rank = part->rank; // as whose numbers are filled in
    TRY(check_reductions(s, &a, &b, F32, REDUCE_SUM, 300, 0, e));
    TRY(check_copies(s, &a, &b, BF16, 300, 0, e));
    s->rank = rank;
    TRY(comm_split(part, part->rank, 0, &one, e));
    s->comm = one;
    s->rank = 0;
    TRY(check_reductions(s, &a, &b, F32, REDUCE_SUM, 300, 0, e));
    TRY(check_copies(s, &a, &b, F32, 300, 0, e));
done:
    comm_close(one);
    comm_close(part);
    s->comm = all;
    arrays_close(s, true, &b);
    arrays_close(s, true, &a);
    return result;
}

// ---- Messages

static status send_and_receive(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    device_stream *on = s->stream[STREAM_COMM];
    const int next = (s->rank + 1) % s->comm->size,
              last = (s->rank + s->comm->size - 1) % s->comm->size;
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    fill(a.host, F32, s->rank, 1000, 5);
    TRY(device_upload(on, a.device, a.host, 4000, e));
    // A ring, in which all messages start together: three to the same rank, one of them empty.
    for (int i = 0; i < 3; i++) {
        const comm_message m[] = {comm_message_to(s->comm, a.device, 1200, next),
                                  comm_message_from(s->comm, a.device + 4000, 1200, last),
                                  comm_message_to(s->comm, a.device, 0, next),
                                  comm_message_to(s->comm, a.device + 1200, 2800, next),
                                  comm_message_from(s->comm, a.device, 0, last),
                                  comm_message_from(s->comm, a.device + 5200, 2800, last)};
        TRY(comm_issue_group(m, 6, on, e));
    }
    TRY(comm_send_wait(s->comm, next, 9, s->stream[STREAM_COMPUTE], e));
    TRY(s->device->ops->sync(s->stream[STREAM_COMPUTE], e));
    if (comm_send_wait(s->comm, next, 10, on, e) != E_INTERNAL) FAIL(E_INTERNAL, "ten were sent");
    fill(a.want, F32, last, 1000, 5);
    TRY(compare(s, &a, a.device + 4000, 4000, "messages", e));
    // One after the other, from rank 0 to the last.
    if (s->rank > 0) TRY(comm_recv(s->comm, a.device, 4000, last, on, e));
    if (next > 0) TRY(comm_send(s->comm, a.device, 4000, next, on, e));
    fill(a.want, F32, 0, 1000, 5);
    TRY(compare(s, &a, a.device, 4000, "a chain of messages", e));
done:
    arrays_close(s, true, &a);
    return result;
}

// ---- Recordings

static status record_and_replay(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    const device_ops *ops = s->device->ops;
    device_stream *on = s->stream[STREAM_COMM];
    device_recording *r = NULL;
    const int other = 1 - s->rank;
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    TRY(ops->capture_begin(on, e));
    TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, on, e));
    const comm_message m[] = {comm_message_to(s->comm, a.device, 1200, other),
                              comm_message_from(s->comm, a.device + 8000, 1200, other)};
    TRY(comm_issue_group(m, 2, on, e));
    TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_MAX, on, e));
    TRY(ops->capture_end(on, &r, e));
    for (uint64_t i = 0; i < 4; i++) {
        fill(a.host, F32, s->rank, 900, i);
        TRY(device_upload(on, a.device, a.host, 3600, e));
        TRY(ops->replay(r, on, e));
        if (i == 2) TRY(ops->replay(r, on, e)); // two that nobody waits for in between
        expect(a.want, 2, 900, F32, REDUCE_SUM, i);
        if (i == 2)
            for (int k = 0; k < 900; k++) ((float *)a.want)[k] *= 2;
        TRY(compare(s, &a, a.device, 3600, "a replayed all_reduce", e));
        TRY(compare(s, &a, a.device + 8000, 1200, "a replayed message", e));
    }
done:
    if (r) ops->recording_close(r);
    arrays_close(s, true, &a);
    return result;
}

// ---- Failures

// Rank 1 issues its call and fails, before the device has come to it.
static status fail_late(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    for (int i = 0; i < 3; i++)
        TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, s->stream[STREAM_COMM], e));
    if (s->rank == 1) {
        err why = {0};
        err_set(&why, E_IO, "the disk is full");
        comm_abort(s->comm, &why);
        FAIL(E_IO, "the disk is full");
    }
    for (;;) { // later calls fail, too, and none waits for ever
        TRY(s->device->ops->sync(s->stream[STREAM_COMM], e));
        TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, s->stream[STREAM_COMM], e));
    }
done:
    for (int k = 0; k < STREAMS; k++) { // as a trainer closes: streams before memory
        s->device->ops->stream_close(s->stream[k]);
        s->stream[k] = NULL;
    }
    arrays_close(s, true, &a);
    return result;
}

// Rank 1 records the call, but does not replay it: only the streams can notice.
static status replay_alone(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    const device_ops *ops = s->device->ops;
    device_stream *on = s->stream[STREAM_COMM];
    device_recording *r = NULL;
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    comm_set_label(s->comm, "dp");
    TRY(ops->capture_begin(on, e));
    TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, on, e));
    TRY(ops->capture_end(on, &r, e));
    if (s->rank == 0) {
        TRY(ops->replay(r, on, e));
        TRY(ops->sync(on, e));
    }
    TRY(comm_barrier(s->comm, e));
done:
    if (r) ops->recording_close(r);
    for (int k = 0; k < STREAMS; k++) {
        s->device->ops->stream_close(s->stream[k]);
        s->stream[k] = NULL;
    }
    arrays_close(s, true, &a);
    return result;
}

static status kill_a_rank(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    if (s->rank == 1) {
        comm_failure_set_lost(s->all->world->failure, 1, 77, 9, NULL, "");
        FAIL(E_PEER, "killed");
    }
    TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, s->stream[STREAM_COMM], e));
    TRY(s->device->ops->sync(s->stream[STREAM_COMM], e));
done:
    for (int k = 0; k < STREAMS; k++) {
        s->device->ops->stream_close(s->stream[k]);
        s->stream[k] = NULL;
    }
    arrays_close(s, true, &a);
    return result;
}

static status differ(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    TRY(comm_all_reduce(s->comm, a.device, s->rank ? 900 : 800, F32, REDUCE_SUM,
                        s->stream[STREAM_COMM], e));
done:
    arrays_close(s, true, &a);
    return result;
}

static status send_other_bytes(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    if (s->rank == 0)
        TRY(comm_send(s->comm, a.device, 8, 1, s->stream[STREAM_COMM], e));
    else
        TRY(comm_recv(s->comm, a.device, 12, 0, s->stream[STREAM_COMM], e));
    TRY(s->device->ops->sync(s->stream[STREAM_COMM], e));
done:
    for (int k = 0; k < STREAMS; k++) {
        s->device->ops->stream_close(s->stream[k]);
        s->stream[k] = NULL;
    }
    arrays_close(s, true, &a);
    return result;
}

#endif
