// local_segments.c -- the collectives over many segments at once, directly on the buffers of all
// ranks.
//
// A stream runs them through local.c, in two rounds. In the first round each rank posts the address
// of its array, and then reads those of the others. After the second round no rank reads the array
// of another. It does not know parameters or buckets.
#include "comm/local/local.h"

#include <string.h>

// Refuses memory that other processes cannot read. Threads could read it, but a program that runs
// with threads must also run with processes.
status local_check_segments(const comm_local *local, const comm_call *call, err *e)
{
    const bool gathers = call->kind == CALL_ALL_GATHER;
    uint64_t elements = gathers ? 0 : comm_call_elements(call);
    for (int i = 0; gathers && i < call->segments; i++) {
        int64_t first;
        elements += (uint64_t)comm_segment_shard(&call->segment[i], local->base.rank, &first);
    }
    if (elements == 0 || local_holds(local, call->in)) return OK;
    return err_set(e, E_INTERNAL,
                   "%s of segments: the other ranks read `%s`, which is not memory of comm_alloc",
                   comm_call_row_of(call->kind)->name,
                   gathers && !call->in_place ? "shard" : "full");
}

// Each rank starts with the rank after it, so that not all read from the same rank at once.
static void gather(const comm_local *local, const comm_call *call)
{
    const size_t element = dtype_bytes(call->type);
    for (int i = call->in_place ? 1 : 0; i < local->base.size; i++) {
        const int r = (local->base.rank + i) % local->base.size;
        const char *from = r == local->base.rank ? call->in : local_post(local, r)->buffer;
        for (int j = 0; j < call->segments; j++) {
            const comm_segment *s = &call->segment[j];
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
static void reduce_scatter(const comm_local *local, const comm_call *call)
{
    const size_t element = dtype_bytes(call->type);
    for (int j = 0; j < call->segments; j++) {
        const comm_segment *s = &call->segment[j];
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

status local_run_segments(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    TRY(local_announce(local, (void *)(uintptr_t)call->in, NULL, 0, e));
    if (call->kind == CALL_ALL_GATHER)
        gather(local, call);
    else
        reduce_scatter(local, call);
    TRY(local_meet(local, e));
done:
    return result;
}
