// comm.c -- the calls of comm.h. It checks the arguments, as is the same for every communicator,
// and then calls the communicator's table, or packed.c for calls over segments that the table lacks.
//
// Called by the code that executes a step. It does not know how ranks reach each other.
#include "comm/comm.h"

#include "comm/packed.h"

#include <stdint.h>

void comm_close(comm *c)
{
    if (c) c->ops->close(c);
}

void comm_set_label(comm *c, const char *label)
{
    if (!c) return;
    c->label = label;
    if (c->ops->set_label) c->ops->set_label(c, label);
}

void comm_set_packing(comm *c, const comm_packing *packing)
{
    if (!c) return;
    c->packing = packing;
    if (c->ops->set_packing) c->ops->set_packing(c, packing);
}

status comm_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return c->ops->alloc(c, d, bytes, out, e);
}

void comm_release(comm *c, device *d, void *p, size_t bytes)
{
    if (p) c->ops->release(c, d, p, bytes);
}

status comm_share(comm *c, err *e)
{
    return c->ops->share(c, e);
}

static status check_counts(const comm *c, const char *what, size_t count, dtype t, bool reduces,
                           err *e)
{
    if (reduces && !reduce_supports(t))
        return err_set(e, E_INTERNAL, "%s of %s: valid are fp32, bf16, fp16, fp64 and int64", what,
                       dtype_name(t));
    if (count > SIZE_MAX / dtype_bytes(t) / (size_t)c->size)
        return err_set(e, E_INTERNAL, "%s of %zu %s on %d ranks does not fit in memory", what,
                       count, dtype_name(t), c->size);
    return OK;
}

static status check_peer(const comm *c, const char *what, int peer, bool may_be_self, err *e)
{
    if (peer < 0 || peer >= c->size || (peer == c->rank && !may_be_self))
        return err_set(e, E_INTERNAL, "%s rank %d: this is rank %d of %d", what, peer, c->rank,
                       c->size);
    return OK;
}

status comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                       device_stream *on, err *e)
{
    status result = OK;
    TRY(check_counts(c, "all_reduce", count, t, true, e));
    TRY(c->ops->all_reduce(c, inout, count, t, op, on, e));
done:
    return result;
}

status comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                           comm_reduce_op op, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_counts(c, "reduce_scatter", shard_count, t, true, e));
    TRY(c->ops->reduce_scatter(c, in, out, shard_count, t, op, on, e));
done:
    return result;
}

status comm_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                       device_stream *on, err *e)
{
    status result = OK;
    TRY(check_counts(c, "all_gather", shard_count, t, false, e));
    TRY(c->ops->all_gather(c, in, out, shard_count, t, on, e));
done:
    return result;
}

status comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "broadcast from", root, true, e));
    TRY(c->ops->broadcast(c, inout, bytes, root, on, e));
done:
    return result;
}

status comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "send to", peer, false, e));
    TRY(c->ops->send(c, buf, bytes, peer, on, e));
done:
    return result;
}

status comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "recv from", peer, false, e));
    TRY(c->ops->recv(c, buf, bytes, peer, on, e));
done:
    return result;
}

status comm_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "send_wait for", peer, false, e));
    TRY(c->ops->send_wait(c, peer, messages, on, e));
done:
    return result;
}

status comm_group_begin(comm *c, err *e)
{
    return c->ops->group_begin ? c->ops->group_begin(c, e) : OK;
}

status comm_group_end(comm *c, err *e)
{
    return c->ops->group_end ? c->ops->group_end(c, e) : OK;
}

// Checks that the shards cover every segment, and that no size overflows.
static status check_segments(const comm *c, const char *what, const comm_segment *s, int segments,
                             err *e)
{
    const int64_t most = (int64_t)1 << 48; // elements; most * ranks fits in 64 bits
    for (int i = 0; i < segments; i++)
        if (s[i].full_offset < 0 || s[i].shard_offset < 0 || s[i].count < 0 ||
            s[i].shard_count < 0 || s[i].count > most || s[i].shard_count > most ||
            s[i].shard_count * c->size < s[i].count ||
            (s[i].reversed && s[i].shard_count * c->size != s[i].count))
            return err_set(e, E_INTERNAL,
                           "%s: segment %d (%lld elements from %lld, shard from %lld, %lld a rank) "
                           "does not fit %d ranks",
                           what, i, (long long)s[i].count, (long long)s[i].full_offset,
                           (long long)s[i].shard_offset, (long long)s[i].shard_count, c->size);
    return OK;
}

status comm_all_gather_segments(comm *c, const comm_segment *s, int segments, const void *shard,
                                void *full, dtype t, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_segments(c, "all_gather", s, segments, e));
    if (c->ops->all_gather_segments)
        TRY(c->ops->all_gather_segments(c, s, segments, shard, full, t, on, e));
    else
        TRY(packed_all_gather(c, s, segments, shard, full, t, on, e));
done:
    return result;
}

status comm_reduce_scatter_segments(comm *c, const comm_segment *s, int segments, const void *full,
                                    void *shard, dtype t, comm_reduce_op op, device_stream *on,
                                    err *e)
{
    status result = OK;
    TRY(check_counts(c, "reduce_scatter", 0, t, true, e));
    TRY(check_segments(c, "reduce_scatter", s, segments, e));
    if (c->ops->reduce_scatter_segments)
        TRY(c->ops->reduce_scatter_segments(c, s, segments, full, shard, t, op, on, e));
    else
        TRY(packed_reduce_scatter(c, s, segments, full, shard, t, op, on, e));
done:
    return result;
}

status comm_barrier(comm *c, err *e)
{
    return c->ops->barrier(c, e);
}

void comm_abort(comm *c, const err *why)
{
    c->ops->abort(c, why);
}

status comm_split(comm *c, int color, int key, comm **out, err *e)
{
    return c->ops->split(c, color, key, out, e);
}
