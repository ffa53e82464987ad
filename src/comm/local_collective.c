// local_collective.c -- collectives of ranks on one machine, in rounds (see shared.h).
//
// Run by a stream through local.c. Three ways, all with the same arithmetic and the same bits:
//   flat    small: everyone shows its data and takes what it needs from all; one round
//   direct  buffers that all ranks see: each works straight on everyone's buffers; two rounds
//   staged  other buffers: through the staging areas in chunks; about one round a chunk
// The ranks choose the same way, from sizes (compared in the first round) and from what all posted.
#include "comm/local.h"
#include "comm/reduce.h"

#include <string.h>

enum { FLAT_BYTES = 1024, LINE = 64 };
_Static_assert((int)WORLD_RANKS <= (int)REDUCE_SOURCES, "every rank can be a source");

typedef struct range {
    size_t first, count; // elements
} range;

// Rank `rank`'s part of `count` elements, cut at cache lines as far as the buffer starts at one.
static range part_of(size_t count, size_t element, int rank, int size)
{
    const size_t line = LINE / element, lines = (count + line - 1) / line;
    const size_t each = lines / (size_t)size, more = lines % (size_t)size, r = (size_t)rank;
    const size_t first = (r * each + (r < more ? r : more)) * line;
    const size_t last = first + (each + (r < more)) * line;
    return (range){first < count ? first : count,
                   (last < count ? last : count) - (first < count ? first : count)};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static const char *shown_by(const local *l, int rank, size_t bytes)
{
    return bytes <= POST_DATA_BYTES ? (const char *)local_post(l, rank)->data
                                    : local_stage(l, rank, l->round);
}

static bool all_shared(const local *l)
{
    for (int r = 0; r < l->base.size; r++)
        if (!local_post(l, r)->at) return false;
    return true;
}

static void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (to != from && bytes) memcpy(to, from, bytes);
}

// ---- all-reduce

static status all_reduce_direct(const call *k, err *e)
{
    local *l = k->comm;
    const size_t element = dtype_bytes(k->type);
    const range own = part_of(k->count, element, l->base.rank, l->base.size);
    void *at[WORLD_RANKS];
    for (int r = 0; r < l->base.size; r++)
        at[r] = (char *)local_post(l, r)->at + own.first * element;
    reduce_arrays(at, l->base.size, (const void *const *)at, l->base.size, own.count, k->type,
                  k->op);
    return local_meet(l, e);
}

// One chunk: own part of all ranks' staged copies, into the own buffer and for the others to fetch.
static void all_reduce_own_part(const call *k, size_t first, size_t count)
{
    local *l = k->comm;
    const size_t element = dtype_bytes(k->type);
    const range own = part_of(count, element, l->base.rank, l->base.size);
    char *mine = (char *)k->out + (first + own.first) * element;
    const void *from[WORLD_RANKS];
    for (int r = 0; r < l->base.size; r++)
        from[r] = r == l->base.rank ? mine : local_stage(l, r, l->round) + own.first * element;
    void *to[2] = {mine, local_result(l, l->base.rank, l->round) + own.first * element};
    reduce_arrays(to, 2, from, l->base.size, own.count, k->type, k->op);
}

// Copies all parts of a chunk but the own one: into the staging area, or from the others' results.
static void all_reduce_other_parts(const call *k, size_t first, size_t count, bool fetch)
{
    local *l = k->comm;
    const size_t element = dtype_bytes(k->type);
    for (int i = 1; i < l->base.size; i++) {
        const int r = (l->base.rank + i) % l->base.size;
        const range part = part_of(count, element, r, l->base.size);
        char *mine = (char *)k->out + (first + part.first) * element;
        const size_t at = part.first * element, bytes = part.count * element;
        if (fetch)
            copy_bytes(mine, local_result(l, r, l->round - 1) + at, bytes);
        else
            copy_bytes(local_stage(l, l->base.rank, l->round + 1) + at, mine, bytes);
    }
}

// Chunk i is staged before round i, reduced after it, and fetched after round i+1.
static status all_reduce_staged(const call *k, err *e)
{
    status result = OK;
    const size_t chunk = STAGE_BYTES / dtype_bytes(k->type);
    size_t before = 0; // elements of the chunk that is to be fetched
    for (size_t first = 0; first < k->count || before; first += chunk) {
        const size_t count = first < k->count ? least(chunk, k->count - first) : 0;
        all_reduce_other_parts(k, first, count, false);
        TRY(local_meet(k->comm, e));
        all_reduce_own_part(k, first, count);
        if (before) all_reduce_other_parts(k, first - chunk, before, true);
        before = count;
    }
done:
    return result;
}

static status all_reduce(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const size_t bytes = k->count * dtype_bytes(k->type);
    if (bytes > FLAT_BYTES) {
        TRY(local_announce(k, k->out, NULL, 0, e));
        return all_shared(l) ? all_reduce_direct(k, e) : all_reduce_staged(k, e);
    }
    TRY(local_announce(k, NULL, k->in, bytes, e));
    const void *from[WORLD_RANKS];
    for (int r = 0; r < l->base.size; r++) from[r] = shown_by(l, r, bytes);
    void *to[1] = {k->out};
    reduce_arrays(to, 1, from, l->base.size, k->count, k->type, k->op);
done:
    return result;
}

// ---- reduce-scatter

static status reduce_scatter_staged(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const int rank = l->base.rank, size = l->base.size;
    const size_t element = dtype_bytes(k->type), whole = k->count * element;
    const size_t chunk = STAGE_BYTES / element / (size_t)size;
    const char *in = k->in;
    for (size_t first = 0; first < k->count; first += chunk) {
        const size_t count = least(chunk, k->count - first), at = first * element;
        for (int r = 0; r < size; r++)
            if (r != rank)
                memcpy(local_stage(l, rank, l->round + 1) + (size_t)r * chunk * element,
                       in + (size_t)r * whole + at, count * element);
        TRY(local_meet(l, e));
        const void *from[WORLD_RANKS];
        for (int r = 0; r < size; r++)
            from[r] = r == rank ? in + (size_t)rank * whole + at
                                : local_stage(l, r, l->round) + (size_t)rank * chunk * element;
        void *to[1] = {(char *)k->out + at};
        reduce_arrays(to, 1, from, size, count, k->type, k->op);
    }
done:
    return result;
}

static status reduce_scatter(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const size_t own = k->count * dtype_bytes(k->type), bytes = own * (size_t)l->base.size;
    const size_t mine = own * (size_t)l->base.rank;
    const bool flat = bytes <= FLAT_BYTES;
    const void *from[WORLD_RANKS];
    void *to[1] = {k->out};
    TRY(local_announce(k, flat ? NULL : (void *)(uintptr_t)k->in, k->in, flat ? bytes : 0, e));
    if (!flat && !all_shared(l)) return reduce_scatter_staged(k, e);
    for (int r = 0; r < l->base.size; r++)
        from[r] = flat ? shown_by(l, r, bytes) + mine : (const char *)local_post(l, r)->at + mine;
    reduce_arrays(to, 1, from, l->base.size, k->count, k->type, k->op);
    if (!flat) TRY(local_meet(l, e));
done:
    return result;
}

// ---- all-gather

static status all_gather_staged(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const int rank = l->base.rank, size = l->base.size;
    const size_t own = k->count * dtype_bytes(k->type);
    copy_bytes((char *)k->out + (size_t)rank * own, k->in, own);
    for (size_t at = 0; at < own; at += STAGE_BYTES) {
        const size_t bytes = least(STAGE_BYTES, own - at);
        memcpy(local_stage(l, rank, l->round + 1), (const char *)k->in + at, bytes);
        TRY(local_meet(l, e));
        for (int i = 1; i < size; i++) {
            const int r = (rank + i) % size;
            memcpy((char *)k->out + (size_t)r * own + at, local_stage(l, r, l->round), bytes);
        }
    }
done:
    return result;
}

static status all_gather(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const size_t own = k->count * dtype_bytes(k->type);
    const bool flat = own <= FLAT_BYTES;
    TRY(local_announce(k, flat ? NULL : (void *)(uintptr_t)k->in, k->in, flat ? own : 0, e));
    if (!flat && !all_shared(l)) return all_gather_staged(k, e);
    for (int i = 0; i < l->base.size; i++) {
        const int r = (l->base.rank + i) % l->base.size;
        const void *from = r == l->base.rank ? k->in
                           : flat            ? shown_by(l, r, own)
                                             : local_post(l, r)->at;
        copy_bytes((char *)k->out + (size_t)r * own, from, own);
    }
    if (!flat) TRY(local_meet(l, e));
done:
    return result;
}

// ---- broadcast

static status broadcast_staged(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const bool is_root = l->base.rank == k->root;
    for (size_t at = 0; at < k->count; at += STAGE_BYTES) {
        const size_t bytes = least(STAGE_BYTES, k->count - at);
        if (is_root) memcpy(local_stage(l, k->root, l->round + 1), (const char *)k->in + at, bytes);
        TRY(local_meet(l, e));
        if (!is_root) memcpy((char *)k->out + at, local_stage(l, k->root, l->round), bytes);
    }
done:
    return result;
}

static status broadcast(const call *k, err *e)
{
    status result = OK;
    local *l = k->comm;
    const bool is_root = l->base.rank == k->root, flat = k->count <= FLAT_BYTES;
    TRY(local_announce(k, is_root && !flat ? k->out : NULL, k->in, is_root && flat ? k->count : 0,
                       e));
    const void *from = flat ? shown_by(l, k->root, k->count) : local_post(l, k->root)->at;
    if (!from) return broadcast_staged(k, e);
    if (!is_root) copy_bytes(k->out, from, k->count);
    if (!flat) TRY(local_meet(l, e));
done:
    return result;
}

status local_run_collective(const call *k, err *e)
{
    switch (k->kind) {
    case CALL_ALL_REDUCE:
        return all_reduce(k, e);
    case CALL_REDUCE_SCATTER:
        return reduce_scatter(k, e);
    case CALL_ALL_GATHER:
        return all_gather(k, e);
    case CALL_BROADCAST:
        return broadcast(k, e);
    default:
        return local_announce(k, NULL, NULL, 0, e);
    }
}
