// local_collective.c -- collectives of the ranks of one machine, in rounds (see local_group.h).
//
// A stream runs them through local.c. There are three ways, with the same arithmetic and the same
// bits:
//   flat     for small arrays: each rank shows its data in its post or its staging area, and reads
//            that of all others; one round
//   direct   for buffers that all ranks can address: each rank works on the buffers of all ranks;
//            two rounds
//   staged   for other buffers: data passes through the staging areas in chunks; about one round
//            per chunk
// All ranks choose the same way, from the sizes (which the first round compares) and from the
// posts.
#include "comm/local/local.h"

#include "base/size.h"

#include <string.h>

enum { LINE = 64 };
_Static_assert((int)WORLD_MOST_RANKS <= (int)REDUCE_SOURCES, "every rank can be a source");

typedef struct local_range {
    size_t first, count; // elements
} local_range;

// The share of `count` elements that rank `rank` reduces. Shares begin at cache lines if the buffer
// does.
static local_range share_of(size_t count, size_t element, int rank, int size)
{
    const size_t line = LINE / element, lines = (count + line - 1) / line;
    const size_t each = lines / (size_t)size, more = lines % (size_t)size, r = (size_t)rank;
    const size_t first = (r * each + (r < more ? r : more)) * line;
    const size_t last = first + (each + (r < more)) * line;
    return (local_range){first < count ? first : count,
                         (last < count ? last : count) - (first < count ? first : count)};
}

static const char *shown_by(const comm_local *local, int rank, size_t bytes)
{
    return bytes <= POST_DATA_BYTES ? (const char *)local_post(local, rank)->data
                                    : local_staging(local, rank, local->round);
}

static bool all_shared(const comm_local *local)
{
    for (int r = 0; r < local->base.size; r++)
        if (!local_post(local, r)->buffer) return false;
    return true;
}

static void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (to != from && bytes) memcpy(to, from, bytes);
}

// ---- all-reduce

static status all_reduce_direct(comm_local *local, const comm_call *call, err *e)
{
    const size_t element = dtype_bytes(call->type);
    const local_range share = share_of(call->count, element, local->base.rank, local->base.size);
    void **shares = local->arrays;
    for (int r = 0; r < local->base.size; r++)
        shares[r] = (char *)local_post(local, r)->buffer + share.first * element;
    reduce_arrays(shares, local->base.size, (const void *const *)shares, local->base.size,
                  share.count, call->type, call->op);
    return local_meet(local, e);
}

// Reduces this rank's share of one chunk over the staged copies of all ranks, into its own buffer
// and into its result area, from which the other ranks fetch it.
static void all_reduce_own_share(comm_local *local, const comm_call *call, size_t first,
                                 size_t count)
{
    const size_t element = dtype_bytes(call->type);
    const local_range share = share_of(count, element, local->base.rank, local->base.size);
    char *mine = (char *)call->out + (first + share.first) * element;
    const void **from = local_sources(local);
    for (int r = 0; r < local->base.size; r++)
        from[r] = r == local->base.rank
                      ? mine
                      : local_staging(local, r, local->round) + share.first * element;
    void *to[2] = {mine,
                   local_result(local, local->base.rank, local->round) + share.first * element};
    reduce_arrays(to, 2, from, local->base.size, share.count, call->type, call->op);
}

// Copies the shares of all other ranks in a chunk: with `fetch` from their result areas, else into
// this rank's staging area.
static void all_reduce_other_shares(comm_local *local, const comm_call *call, size_t first,
                                    size_t count, bool fetch)
{
    const size_t element = dtype_bytes(call->type);
    for (int i = 1; i < local->base.size; i++) {
        const int r = (local->base.rank + i) % local->base.size;
        const local_range share = share_of(count, element, r, local->base.size);
        char *mine = (char *)call->out + (first + share.first) * element;
        const size_t offset = share.first * element, bytes = share.count * element;
        if (fetch)
            copy_bytes(mine, local_result(local, r, local->round - 1) + offset, bytes);
        else
            copy_bytes(local_staging(local, local->base.rank, local->round + 1) + offset, mine,
                       bytes);
    }
}

// Chunk i is staged before round i, reduced after it, and fetched after round i+1.
static status all_reduce_staged(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const size_t chunk = STAGING_BYTES / dtype_bytes(call->type);
    size_t before = 0; // elements of the previous chunk, which is to be fetched
    for (size_t first = 0; first < call->count || before; first += chunk) {
        const size_t count = first < call->count ? (size_t)size_min(chunk, call->count - first) : 0;
        all_reduce_other_shares(local, call, first, count, false);
        TRY(local_meet(local, e));
        all_reduce_own_share(local, call, first, count);
        if (before) all_reduce_other_shares(local, call, first - chunk, before, true);
        before = count;
    }
done:
    return result;
}

static status all_reduce(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const size_t bytes = call->count * dtype_bytes(call->type);
    if (bytes > LOCAL_FLAT_BYTES) {
        TRY(local_announce(local, call->out, NULL, 0, e));
        return all_shared(local) ? all_reduce_direct(local, call, e)
                                 : all_reduce_staged(local, call, e);
    }
    TRY(local_announce(local, NULL, call->in, bytes, e));
    const void **from = local_sources(local);
    for (int r = 0; r < local->base.size; r++) from[r] = shown_by(local, r, bytes);
    void *to[1] = {call->out};
    reduce_arrays(to, 1, from, local->base.size, call->count, call->type, call->op);
done:
    return result;
}

// ---- reduce-scatter

static status reduce_scatter_staged(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const int rank = local->base.rank, size = local->base.size;
    const size_t element = dtype_bytes(call->type), shard_bytes = call->count * element;
    const size_t chunk = STAGING_BYTES / element / (size_t)size;
    const char *in = call->in;
    for (size_t first = 0; first < call->count; first += chunk) {
        const size_t count = (size_t)size_min(chunk, call->count - first), offset = first * element;
        for (int r = 0; r < size; r++)
            if (r != rank)
                memcpy(local_staging(local, rank, local->round + 1) + (size_t)r * chunk * element,
                       in + (size_t)r * shard_bytes + offset, count * element);
        TRY(local_meet(local, e));
        const void **from = local_sources(local);
        for (int r = 0; r < size; r++)
            from[r] = r == rank
                          ? in + (size_t)rank * shard_bytes + offset
                          : local_staging(local, r, local->round) + (size_t)rank * chunk * element;
        void *to[1] = {(char *)call->out + offset};
        reduce_arrays(to, 1, from, size, count, call->type, call->op);
    }
done:
    return result;
}

static status reduce_scatter(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const size_t shard_bytes = call->count * dtype_bytes(call->type),
                 bytes = shard_bytes * (size_t)local->base.size;
    const size_t own_offset = shard_bytes * (size_t)local->base.rank;
    const bool flat = bytes <= LOCAL_FLAT_BYTES;
    const void **from = local_sources(local);
    void *to[1] = {call->out};
    TRY(local_announce(local, flat ? NULL : (void *)(uintptr_t)call->in, call->in, flat ? bytes : 0,
                       e));
    if (!flat && !all_shared(local)) return reduce_scatter_staged(local, call, e);
    for (int r = 0; r < local->base.size; r++)
        from[r] = flat ? shown_by(local, r, bytes) + own_offset
                       : (const char *)local_post(local, r)->buffer + own_offset;
    reduce_arrays(to, 1, from, local->base.size, call->count, call->type, call->op);
    if (!flat) TRY(local_meet(local, e));
done:
    return result;
}

// ---- all-gather

static status all_gather_staged(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const int rank = local->base.rank, size = local->base.size;
    const size_t shard_bytes = call->count * dtype_bytes(call->type);
    copy_bytes((char *)call->out + (size_t)rank * shard_bytes, call->in, shard_bytes);
    for (size_t offset = 0; offset < shard_bytes; offset += STAGING_BYTES) {
        const size_t bytes = (size_t)size_min(STAGING_BYTES, shard_bytes - offset);
        memcpy(local_staging(local, rank, local->round + 1), (const char *)call->in + offset,
               bytes);
        TRY(local_meet(local, e));
        for (int i = 1; i < size; i++) {
            const int r = (rank + i) % size;
            memcpy((char *)call->out + (size_t)r * shard_bytes + offset,
                   local_staging(local, r, local->round), bytes);
        }
    }
done:
    return result;
}

static status all_gather(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const size_t shard_bytes = call->count * dtype_bytes(call->type);
    const bool flat = shard_bytes <= LOCAL_FLAT_BYTES;
    TRY(local_announce(local, flat ? NULL : (void *)(uintptr_t)call->in, call->in,
                       flat ? shard_bytes : 0, e));
    if (!flat && !all_shared(local)) return all_gather_staged(local, call, e);
    for (int i = 0; i < local->base.size; i++) {
        const int r = (local->base.rank + i) % local->base.size;
        const void *from = r == local->base.rank ? call->in
                           : flat                ? shown_by(local, r, shard_bytes)
                                                 : local_post(local, r)->buffer;
        copy_bytes((char *)call->out + (size_t)r * shard_bytes, from, shard_bytes);
    }
    if (!flat) TRY(local_meet(local, e));
done:
    return result;
}

// ---- broadcast

static status broadcast_staged(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const bool is_root = local->base.rank == call->peer;
    const size_t all = call->count * dtype_bytes(call->type);
    for (size_t offset = 0; offset < all; offset += STAGING_BYTES) {
        const size_t bytes = (size_t)size_min(STAGING_BYTES, all - offset);
        if (is_root)
            memcpy(local_staging(local, call->peer, local->round + 1),
                   (const char *)call->in + offset, bytes);
        TRY(local_meet(local, e));
        if (!is_root)
            memcpy((char *)call->out + offset, local_staging(local, call->peer, local->round),
                   bytes);
    }
done:
    return result;
}

static status broadcast(comm_local *local, const comm_call *call, err *e)
{
    status result = OK;
    const size_t bytes = call->count * dtype_bytes(call->type);
    const bool is_root = local->base.rank == call->peer, flat = bytes <= LOCAL_FLAT_BYTES;
    TRY(local_announce(local, is_root && !flat ? call->out : NULL, call->in,
                       is_root && flat ? bytes : 0, e));
    const void *from =
        flat ? shown_by(local, call->peer, bytes) : local_post(local, call->peer)->buffer;
    if (!from) return broadcast_staged(local, call, e);
    if (!is_root) copy_bytes(call->out, from, bytes);
    if (!flat) TRY(local_meet(local, e));
done:
    return result;
}

static status come(comm_local *local, const comm_call *call, err *e)
{
    (void)call;
    return local_announce(local, NULL, NULL, 0, e);
}

status local_run_collective(comm_local *local, const comm_call *call, err *e)
{
    static status (*const run[CALL_KINDS])(comm_local * local, const comm_call *call, err *e) = {
        [CALL_BARRIER] = come,
        [CALL_SPLIT] = come,
        [CALL_SHARE] = come,
        [CALL_ALL_REDUCE] = all_reduce,
        [CALL_REDUCE_SCATTER] = reduce_scatter,
        [CALL_ALL_GATHER] = all_gather,
        [CALL_BROADCAST] = broadcast,
    };
    return call->segment ? local_run_segments(local, call, e) : run[call->kind](local, call, e);
}
