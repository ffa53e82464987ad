// local_segments.c -- the collectives over many segments at once, directly on the buffers of all
// ranks.
//
// A stream runs them through local.c, in two rounds. In the first round each rank posts the address
// of its array, and then reads those of the others. After the second round no rank reads the array
// of another. It does not know parameters or buckets.
#include "comm/local.h"

#include <string.h>

static size_t elements_of(const comm_segment *s, int segments)
{
    size_t count = 0;
    for (int i = 0; i < segments; i++) count += (size_t)s[i].count;
    return count;
}

// Refuses memory that other processes cannot read. Threads could read it, but a program that runs
// with threads must also run with processes.
static status check_shared(const comm_local *local, const char *what, const char *array,
                           const void *ptr, size_t bytes, err *e)
{
    if (bytes == 0 || local_holds(local, ptr)) return OK;
    return err_set(e, E_INTERNAL,
                   "%s of segments: the other ranks read `%s`, which is not memory of comm_alloc",
                   what, array);
}

status local_gather_call(comm_local *local, const comm_segment *s, int segments, const void *shard,
                         void *full, dtype t, comm_call *out, err *e)
{
    *out = (comm_call){.local = local,
                       .kind = CALL_ALL_GATHER_SEGMENTS,
                       .type = t,
                       .in = shard ? shard : full,
                       .out = full,
                       .count = elements_of(s, segments),
                       .segments = s,
                       .segment_count = segments,
                       .hash = comm_segments_hash(s, segments),
                       .in_place = !shard};
    size_t mine = 0;
    for (int i = 0; i < segments; i++) {
        int64_t first;
        mine += (size_t)comm_segment_shard(&s[i], local->base.rank, &first);
    }
    return check_shared(local, "all_gather", shard ? "shard" : "full", out->in, mine, e);
}

status local_scatter_call(comm_local *local, const comm_segment *s, int segments, const void *full,
                          void *shard, dtype t, comm_reduce_op op, comm_call *out, err *e)
{
    *out = (comm_call){.local = local,
                       .kind = CALL_REDUCE_SCATTER_SEGMENTS,
                       .type = t,
                       .op = op,
                       .in = full,
                       .out = shard ? shard : (void *)(uintptr_t)full,
                       .count = elements_of(s, segments),
                       .segments = s,
                       .segment_count = segments,
                       .hash = comm_segments_hash(s, segments),
                       .in_place = !shard};
    return check_shared(local, "reduce_scatter", "full", full, out->count, e);
}

// Each rank starts with the rank after it, so that not all read from the same rank at once.
static void gather(const comm_call *call)
{
    const comm_local *local = call->local;
    const size_t element = dtype_bytes(call->type);
    for (int i = call->in_place ? 1 : 0; i < local->base.size; i++) {
        const int r = (local->base.rank + i) % local->base.size;
        const char *from = r == local->base.rank ? call->in : local_post(local, r)->buffer;
        for (int j = 0; j < call->segment_count; j++) {
            const comm_segment *s = &call->segments[j];
            int64_t first;
            const size_t bytes = (size_t)comm_segment_shard(s, r, &first) * element;
            const size_t offset = (size_t)(s->full_offset + first) * element;
            if (bytes == 0) continue;
            memcpy((char *)call->out + offset,
                   from + (call->in_place ? offset : (size_t)s->shard_offset * element), bytes);
        }
    }
}

// In place, only this rank's shards are written, and no other rank reads those.
static void reduce_scatter(const comm_call *call)
{
    const comm_local *local = call->local;
    const size_t element = dtype_bytes(call->type);
    for (int j = 0; j < call->segment_count; j++) {
        const comm_segment *s = &call->segments[j];
        int64_t first;
        const size_t count = (size_t)comm_segment_shard(s, local->base.rank, &first);
        const size_t offset = (size_t)(s->full_offset + first) * element;
        const void **from = local_sources(local);
        if (count == 0) continue;
        for (int r = 0; r < local->base.size; r++)
            from[r] = (char *)local_post(local, r)->buffer + offset;
        void *to[1] = {(char *)call->out +
                       (call->in_place ? offset : (size_t)s->shard_offset * element)};
        reduce_arrays(to, 1, from, local->base.size, count, call->type, call->op);
    }
}

status local_run_segments(const comm_call *call, err *e)
{
    status result = OK;
    TRY(local_announce(call, (void *)(uintptr_t)call->in, NULL, 0, e));
    if (call->kind == CALL_ALL_GATHER_SEGMENTS)
        gather(call);
    else
        reduce_scatter(call);
    TRY(local_meet(call->local, e));
done:
    return result;
}
