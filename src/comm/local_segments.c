// local_segments.c -- the collectives over many runs at once, straight on the buffers of all ranks.
//
// Issued here and run by a stream through local.c. Two rounds: in the first everyone shows where
// its array lies, and works; with the second everyone is done with the arrays of the others. Knows
// nothing of parameters or buckets.
#include "comm/local.h"
#include "comm/reduce.h"

#include <string.h>

// FNV-1a over 64-bit words, with the high half folded in: lists that differ are to be told apart,
// nothing more.
static uint64_t hash_word(uint64_t hash, int64_t word)
{
    hash = (hash ^ (uint64_t)word) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const comm_segment *s, int segments)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < segments; i++) {
        hash = hash_word(hash, s[i].full_offset);
        hash = hash_word(hash, s[i].shard_offset);
        hash = hash_word(hash, s[i].count);
        hash = hash_word(hash, s[i].shard_count);
    }
    return hash;
}

static size_t elements_of(const comm_segment *s, int segments)
{
    size_t count = 0;
    for (int i = 0; i < segments; i++) count += (size_t)s[i].count;
    return count;
}

// Also for ranks that are threads, so that a program does not learn of it as processes only.
static status check_shared(const local *l, const char *what, const char *array, const void *at,
                           size_t bytes, err *e)
{
    if (bytes == 0 || world_holds(l->world, at)) return OK;
    return err_set(e, E_INTERNAL,
                   "%s of segments: the other ranks read `%s`, which is not memory of comm_alloc",
                   what, array);
}

status local_gather_call(local *l, const comm_segment *s, int segments, const void *own,
                         void *whole, dtype t, call *out, err *e)
{
    *out = (call){.comm = l,
                  .kind = CALL_ALL_GATHER_SEGMENTS,
                  .type = t,
                  .in = own ? own : whole,
                  .out = whole,
                  .count = elements_of(s, segments),
                  .segments = s,
                  .segment_count = segments,
                  .hash = hash_of(s, segments),
                  .in_place = !own};
    size_t mine = 0;
    for (int i = 0; i < segments; i++) {
        int64_t first;
        mine += (size_t)comm_segment_shard(&s[i], l->base.rank, &first);
    }
    return check_shared(l, "all_gather", own ? "own" : "whole", out->in, mine, e);
}

status local_scatter_call(local *l, const comm_segment *s, int segments, const void *whole,
                          void *own, dtype t, reduce_op op, call *out, err *e)
{
    *out = (call){.comm = l,
                  .kind = CALL_REDUCE_SCATTER_SEGMENTS,
                  .type = t,
                  .op = op,
                  .in = whole,
                  .out = own ? own : (void *)(uintptr_t)whole,
                  .count = elements_of(s, segments),
                  .segments = s,
                  .segment_count = segments,
                  .hash = hash_of(s, segments),
                  .in_place = !own};
    return check_shared(l, "reduce_scatter", "whole", whole, out->count, e);
}

// Starts with the next rank, so that not all read from the same one at once.
static void gather(const call *k)
{
    const local *l = k->comm;
    const size_t element = dtype_bytes(k->type);
    for (int i = k->in_place ? 1 : 0; i < l->base.size; i++) {
        const int r = (l->base.rank + i) % l->base.size;
        const char *from = r == l->base.rank ? k->in : local_post(l, r)->at;
        for (int j = 0; j < k->segment_count; j++) {
            const comm_segment *s = &k->segments[j];
            int64_t first;
            const size_t bytes = (size_t)comm_segment_shard(s, r, &first) * element;
            const size_t place = (size_t)(s->full_offset + first) * element;
            if (bytes == 0) continue;
            memcpy((char *)k->out + place,
                   from + (k->in_place ? place : (size_t)s->shard_offset * element), bytes);
        }
    }
}

// In place only this rank's parts are written, and no other rank reads those.
static void reduce_scatter(const call *k)
{
    const local *l = k->comm;
    const size_t element = dtype_bytes(k->type);
    for (int j = 0; j < k->segment_count; j++) {
        const comm_segment *s = &k->segments[j];
        int64_t first;
        const size_t count = (size_t)comm_segment_shard(s, l->base.rank, &first);
        const size_t place = (size_t)(s->full_offset + first) * element;
        const void *from[WORLD_RANKS];
        if (count == 0) continue;
        for (int r = 0; r < l->base.size; r++) from[r] = (char *)local_post(l, r)->at + place;
        void *to[1] = {(char *)k->out + (k->in_place ? place : (size_t)s->shard_offset * element)};
        reduce_arrays(to, 1, from, l->base.size, count, k->type, k->op);
    }
}

status local_run_segments(const call *k, err *e)
{
    status result = OK;
    TRY(local_announce(k, (void *)(uintptr_t)k->in, NULL, 0, e));
    if (k->kind == CALL_ALL_GATHER_SEGMENTS)
        gather(k);
    else
        reduce_scatter(k);
    TRY(local_meet(k->comm, e));
done:
    return result;
}
