// comm.c -- the calls of comm.h. It checks the arguments, as is the same for every communicator,
// records the call (recorder.h), and then calls the communicator's table, or packed.c for calls over
// segments that the table lacks.
//
// Called by the code that executes a step. It does not know how ranks reach each other.
#include "comm/comm.h"

#include "base/text.h"
#include "comm/packed.h"
#include "comm/recorder_private.h"

#include <stdint.h>
#include <string.h>

void comm_close(comm *c)
{
    if (!c) return;
    comm_recording *recording = c->recording;
    c->ops->close(c);
    comm_recording_close(recording);
}

void comm_set_label(comm *c, const char *label)
{
    if (!c) return;
    c->label = label;
    comm_recording_set_label(c->recording, label);
    if (c->ops->set_label) c->ops->set_label(c, label);
}

void comm_add_choice(comm *c, bool routes, text *out)
{
    text route = {0}, seen = {0};
    text_addf(out, "communicator %s: %d ranks", c->ops->name, c->size);
    for (int r = 0; routes && c->ops->add_route && r < c->size; r++) {
        text_clear(&route);
        text_add(&route, "\n");
        if (r != c->rank) c->ops->add_route(c, r, &route);
        text_add(&route, "\n");
        if (route.bytes <= 2 || (seen.bytes && strstr(seen.chars, route.chars))) continue;
        text_add(&seen, route.chars);
        text_addf(out, "; rank %d by %.*s", r, (int)route.bytes - 2, route.chars + 1);
    }
    text_clear(&route);
    text_clear(&seen);
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

// Issues a call between the two marks of the flight recorder, in a function that has `c`, `e`, `result`
// and `done:`. The last arguments are the fields of its comm_call_shape.
#define RECORDED(on, call, ...)                                                                    \
    do {                                                                                           \
        comm_record_mark mark = {.slot = NULL};                                                    \
        if (c->recording) TRY(comm_record_begin(c, (comm_call_shape){__VA_ARGS__}, on, &mark, e)); \
        TRY(call);                                                                                 \
        comm_record_end(&mark, on);                                                                \
    } while (0)

#define SHAPE_OF_SEGMENTS(k, reduces)                                                              \
    .kind = (k), .type = (uint8_t)t, .op = (uint8_t)(reduces), .in_place = !shard,                 \
    .root = segments, .count = elements_of(s, segments), .hash = comm_segments_hash(s, segments)

status comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                       device_stream *on, err *e)
{
    status result = OK;
    TRY(check_counts(c, "all_reduce", count, t, true, e));
    RECORDED(on, c->ops->all_reduce(c, inout, count, t, op, on, e), .kind = CALL_ALL_REDUCE,
             .type = (uint8_t)t, .op = (uint8_t)op, .count = count);
done:
    return result;
}

status comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                           comm_reduce_op op, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_counts(c, "reduce_scatter", shard_count, t, true, e));
    RECORDED(on, c->ops->reduce_scatter(c, in, out, shard_count, t, op, on, e),
             .kind = CALL_REDUCE_SCATTER, .type = (uint8_t)t, .op = (uint8_t)op,
             .count = shard_count);
done:
    return result;
}

status comm_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                       device_stream *on, err *e)
{
    status result = OK;
    TRY(check_counts(c, "all_gather", shard_count, t, false, e));
    RECORDED(on, c->ops->all_gather(c, in, out, shard_count, t, on, e), .kind = CALL_ALL_GATHER,
             .type = (uint8_t)t, .count = shard_count);
done:
    return result;
}

status comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "broadcast from", root, true, e));
    RECORDED(on, c->ops->broadcast(c, inout, bytes, root, on, e), .kind = CALL_BROADCAST,
             .type = U8, .root = root, .count = bytes);
done:
    return result;
}

status comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "send to", peer, false, e));
    RECORDED(on, c->ops->send(c, buf, bytes, peer, on, e), .kind = CALL_SEND, .type = U8,
             .root = peer, .count = bytes);
done:
    return result;
}

status comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "recv from", peer, false, e));
    RECORDED(on, c->ops->recv(c, buf, bytes, peer, on, e), .kind = CALL_RECV, .type = U8,
             .root = peer, .count = bytes);
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

static uint64_t elements_of(const comm_segment *s, int segments)
{
    uint64_t count = 0;
    for (int i = 0; i < segments; i++) count += (uint64_t)s[i].count;
    return count;
}

status comm_all_gather_segments(comm *c, const comm_segment *s, int segments, const void *shard,
                                void *full, dtype t, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_segments(c, "all_gather", s, segments, e));
    if (c->ops->all_gather_segments)
        RECORDED(on, c->ops->all_gather_segments(c, s, segments, shard, full, t, on, e),
                 SHAPE_OF_SEGMENTS(CALL_ALL_GATHER_SEGMENTS, 0));
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
        RECORDED(on, c->ops->reduce_scatter_segments(c, s, segments, full, shard, t, op, on, e),
                 SHAPE_OF_SEGMENTS(CALL_REDUCE_SCATTER_SEGMENTS, op));
    else
        TRY(packed_reduce_scatter(c, s, segments, full, shard, t, op, on, e));
done:
    return result;
}

status comm_share(comm *c, err *e)
{
    status result = OK;
    RECORDED(NULL, c->ops->share(c, e), .kind = CALL_SHARE);
done:
    return result;
}

status comm_barrier(comm *c, err *e)
{
    status result = OK;
    RECORDED(NULL, c->ops->barrier(c, e), .kind = CALL_BARRIER);
done:
    return result;
}

void comm_abort(comm *c, const err *why)
{
    c->ops->abort(c, why);
}

status comm_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    *out = NULL;
    RECORDED(NULL, c->ops->split(c, color, key, out, e), .kind = CALL_SPLIT);
    TRY(comm_recording_split(c, color, *out, e));
done:
    if (result != OK) {
        comm_close(*out);
        *out = NULL;
    }
    return result;
}
