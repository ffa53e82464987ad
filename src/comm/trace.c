// trace.c -- counts the calls and bytes of a communicator by kind, and passes every call on.
//
// Opened by the trainer, and by tests that compare the traffic of a strategy with the planned one.
// It does not know how the wrapped communicator moves bytes.
#include "comm/trace.h"

#include "base/alloc.h"

#include <stdlib.h>

typedef struct comm_trace {
    comm base;
    comm *inner;
    trace_counts counts;
} comm_trace;

static comm *inner_of(const comm *c)
{
    return ((const comm_trace *)c)->inner;
}

static status count(comm *c, trace_kind k, double bytes, status issued)
{
    comm_trace *t = (comm_trace *)c;
    if (issued != OK) return issued;
    t->counts.kind[k].calls++;
    t->counts.kind[k].bytes += bytes;
    return OK;
}

// (n-1)/n of `bytes`.
static double others(const comm *c, double bytes)
{
    return bytes * (c->size - 1) / c->size;
}

static double bytes_of(size_t elements, dtype t)
{
    return (double)elements * (double)dtype_bytes(t);
}

// Bytes of the shards of all ranks but this one.
static double others_of_segments(const comm *c, const comm_segment *s, int segments, dtype t)
{
    size_t elements = 0;
    for (int i = 0; i < segments; i++) {
        int64_t first;
        elements += (size_t)(s[i].count - comm_segment_shard(&s[i], c->rank, &first));
    }
    return bytes_of(elements, t);
}

static void trace_close(comm *c)
{
    comm_close(inner_of(c));
    free(c);
}

static status trace_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return comm_alloc(inner_of(c), d, bytes, out, e);
}

static void trace_release(comm *c, device *d, void *p, size_t bytes)
{
    comm_release(inner_of(c), d, p, bytes);
}

static status trace_all_reduce(comm *c, void *inout, size_t n, dtype t, comm_reduce_op op,
                               device_stream *on, err *e)
{
    return count(c, TRACE_ALL_REDUCE, 2 * others(c, bytes_of(n, t)),
                 comm_all_reduce(inner_of(c), inout, n, t, op, on, e));
}

static status trace_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                                   comm_reduce_op op, device_stream *on, err *e)
{
    return count(c, TRACE_REDUCE_SCATTER, bytes_of(shard_count, t) * (c->size - 1),
                 comm_reduce_scatter(inner_of(c), in, out, shard_count, t, op, on, e));
}

static status trace_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                               device_stream *on, err *e)
{
    return count(c, TRACE_ALL_GATHER, bytes_of(shard_count, t) * (c->size - 1),
                 comm_all_gather(inner_of(c), in, out, shard_count, t, on, e));
}

static status trace_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                              err *e)
{
    return count(c, TRACE_BROADCAST, others(c, (double)bytes),
                 comm_broadcast(inner_of(c), inout, bytes, root, on, e));
}

static status trace_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                         err *e)
{
    return count(c, TRACE_SEND, (double)bytes, comm_send(inner_of(c), buf, bytes, peer, on, e));
}

static status trace_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    return count(c, TRACE_RECV, (double)bytes, comm_recv(inner_of(c), buf, bytes, peer, on, e));
}

static status trace_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    return comm_send_wait(inner_of(c), peer, messages, on, e);
}

static status trace_group_begin(comm *c, err *e)
{
    return comm_group_begin(inner_of(c), e);
}

static status trace_group_end(comm *c, err *e)
{
    return comm_group_end(inner_of(c), e);
}

static status trace_all_gather_segments(comm *c, const comm_segment *s, int segments,
                                        const void *shard, void *full, dtype t, device_stream *on,
                                        err *e)
{
    return count(c, TRACE_ALL_GATHER, others_of_segments(c, s, segments, t),
                 comm_all_gather_segments(inner_of(c), s, segments, shard, full, t, on, e));
}

static status trace_reduce_scatter_segments(comm *c, const comm_segment *s, int segments,
                                            const void *full, void *shard, dtype t,
                                            comm_reduce_op op, device_stream *on, err *e)
{
    return count(c, TRACE_REDUCE_SCATTER, others_of_segments(c, s, segments, t),
                 comm_reduce_scatter_segments(inner_of(c), s, segments, full, shard, t, op, on, e));
}

static status trace_barrier(comm *c, err *e)
{
    return comm_barrier(inner_of(c), e);
}

static void trace_abort(comm *c, const err *why)
{
    comm_abort(inner_of(c), why);
}

static status trace_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    comm *inner = NULL;
    *out = NULL;
    TRY(comm_split(inner_of(c), color, key, &inner, e));
    TRY(trace_comm_open(inner, out, e));
    inner = NULL;
done:
    comm_close(inner);
    return result;
}

static status trace_share(comm *c, err *e)
{
    return comm_share(inner_of(c), e);
}

static void trace_set_packing(comm *c, const struct comm_packing *packing)
{
    comm_set_packing(inner_of(c), packing);
}

static void trace_set_label(comm *c, const char *label)
{
    comm_set_label(inner_of(c), label);
}

static const comm_ops trace_ops = {
    .name = "trace",
    .close = trace_close,
    .alloc = trace_alloc,
    .release = trace_release,
    .all_reduce = trace_all_reduce,
    .reduce_scatter = trace_reduce_scatter,
    .all_gather = trace_all_gather,
    .broadcast = trace_broadcast,
    .send = trace_send,
    .recv = trace_recv,
    .send_wait = trace_send_wait,
    .group_begin = trace_group_begin,
    .group_end = trace_group_end,
    .all_gather_segments = trace_all_gather_segments,
    .reduce_scatter_segments = trace_reduce_scatter_segments,
    .barrier = trace_barrier,
    .abort = trace_abort,
    .split = trace_split,
    .share = trace_share,
    .set_label = trace_set_label,
    .set_packing = trace_set_packing,
};

status trace_comm_open(comm *inner, comm **out, err *e)
{
    comm_trace *t;
    *out = NULL;
    const status result = alloc_zeroed(&t, 1, sizeof *t, "a communicator that counts", e);
    if (result != OK) return result;
    t->base =
        (comm){.ops = &trace_ops, .rank = inner->rank, .size = inner->size, .can = inner->can};
    t->inner = inner;
    *out = &t->base;
    return OK;
}

const trace_counts *trace_comm_counts(const comm *c)
{
    return c->ops == &trace_ops ? &((const comm_trace *)c)->counts : NULL;
}

void trace_comm_reset(comm *c)
{
    if (c->ops == &trace_ops) ((comm_trace *)c)->counts = (trace_counts){0};
}

const char *trace_kind_name(trace_kind k)
{
    static const char *const names[TRACE_KINDS] = {
        [TRACE_ALL_REDUCE] = "all_reduce",
        [TRACE_REDUCE_SCATTER] = "reduce_scatter",
        [TRACE_ALL_GATHER] = "all_gather",
        [TRACE_BROADCAST] = "broadcast",
        [TRACE_SEND] = "send",
        [TRACE_RECV] = "recv",
    };
    return names[k];
}
