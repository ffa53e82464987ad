// segments.h -- lists of segments of every shape, and the check that a reduce_scatter and an all_gather
// of a list have the bits of an all_reduce, for the tests of all communicators. The host can address the
// memory of the device.
#ifndef TESTS_COMM_SEGMENTS_H
#define TESTS_COMM_SEGMENTS_H

#include "ranks.h"

enum { SEGMENTS = 7 };

// For each segment its elements, and the elements of one slice of its dim 0: even, uneven, fewer
// slices than ranks, empty, one slice, large.
static const int64_t SIZES[SEGMENTS][2] = {{24, 1}, {35, 5},    {6, 3}, {0, 4},
                                           {9, 9},  {30001, 1}, {1, 1}};

typedef struct test_layout {
    comm_segment segments[SEGMENTS];
    int64_t full, shard; // elements of the full array, and of a rank's array of shards
} test_layout;

// Shards dim 0 as torch.chunk does. The segments have gaps between them in the full array, and
// another order in the array of shards.
static inline test_layout lay(int size)
{
    test_layout l = {.full = 3};
    for (int i = 0; i < SEGMENTS; i++) {
        const int64_t slices = SIZES[i][0] / SIZES[i][1], each = (slices + size - 1) / size;
        comm_segment *s = &l.segments[i];
        *s = (comm_segment){.full_offset = l.full,
                            .count = SIZES[i][0],
                            .shard_count = (each ? each : 1) * SIZES[i][1]};
        s->reversed = s->count == size * s->shard_count; // all that may be
        l.full += SIZES[i][0] + 2;
    }
    for (int i = SEGMENTS - 1; i >= 0; i--) {
        l.segments[i].shard_offset = l.shard;
        l.shard += l.segments[i].shard_count;
    }
    return l;
}

typedef struct test_arrays {
    void *sums;                // of an all_reduce
    void *full, *shard, *copy; // memory of comm_alloc
} test_arrays;

static inline status open_arrays(const test_rank *s, const test_layout *l, dtype t, test_arrays *a,
                                 err *e)
{
    status result = OK;
    const size_t element = dtype_bytes(t), full_bytes = (size_t)l->full * element;
    *a = (test_arrays){.sums = malloc(full_bytes)};
    TRY(comm_alloc(s->comm, s->device, full_bytes, &a->full, e));
    TRY(comm_alloc(s->comm, s->device, full_bytes, &a->copy, e));
    TRY(comm_alloc(s->comm, s->device, (size_t)l->shard * element, &a->shard, e));
    for (int64_t i = 0; i < l->full; i++)
        test_put(a->full, t, (size_t)i, test_value(s->comm->rank, (size_t)i));
    memcpy(a->sums, a->full, full_bytes);
done:
    return result;
}

static inline void close_arrays(const test_rank *s, const test_layout *l, dtype t,
                                const test_arrays *a)
{
    const size_t element = dtype_bytes(t), full_bytes = (size_t)l->full * element;
    comm_release(s->comm, s->device, a->full, full_bytes);
    comm_release(s->comm, s->device, a->copy, full_bytes);
    comm_release(s->comm, s->device, a->shard, (size_t)l->shard * element);
    free(a->sums);
}

// The segments must hold the sums, and the gaps must be unchanged.
static inline status check(const test_layout *l, dtype t, const void *got, const void *sums,
                           const void *between, const char *what, err *e)
{
    const size_t element = dtype_bytes(t);
    const char *want = between, *x = got;
    int run = 0;
    for (int64_t i = 0; i < l->full; i++) {
        while (run < SEGMENTS && i >= l->segments[run].full_offset + l->segments[run].count) run++;
        const bool inside = run < SEGMENTS && i >= l->segments[run].full_offset;
        const char *from = inside ? sums : want;
        if (memcmp(x + (size_t)i * element, from + (size_t)i * element, element) != 0)
            return err_set(e, E_INTERNAL, "%s of %s: element %lld %s differs", what, dtype_name(t),
                           (long long)i, inside ? "of a segment" : "between segments");
    }
    return OK;
}

static inline status check_shards(const test_rank *s, const test_layout *l, dtype t,
                                  const test_arrays *a, err *e)
{
    const size_t element = dtype_bytes(t);
    for (int i = 0; i < SEGMENTS; i++) {
        const comm_segment *r = &l->segments[i];
        int64_t first;
        const size_t count = (size_t)comm_segment_shard(r, s->comm->rank, &first);
        if (memcmp((char *)a->shard + (size_t)r->shard_offset * element,
                   (char *)a->sums + (size_t)(r->full_offset + first) * element,
                   count * element) != 0)
            return err_set(e, E_INTERNAL, "reduce_scatter: shard of segment %d differs", i);
    }
    return OK;
}

// reduce_scatter and all_gather, through `shard` and in place, against all_reduce.
static inline status one_type(const test_rank *s, const test_layout *l, dtype t, comm_reduce_op op,
                              err *e)
{
    status result = OK;
    const size_t full_bytes = (size_t)l->full * dtype_bytes(t);
    test_arrays a = {0};
    void *before = malloc(full_bytes);
    TRY(open_arrays(s, l, t, &a, e));
    memcpy(before, a.full, full_bytes);
    memset(a.copy, 0x55, full_bytes);
    TRY(comm_all_reduce(s->comm, a.sums, (size_t)l->full, t, op, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, l->segments, SEGMENTS, a.full, a.shard, t, op,
                                     s->stream, e));
    TRY(comm_all_gather_segments(s->comm, l->segments, SEGMENTS, a.shard, a.copy, t, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, l->segments, SEGMENTS, a.full, NULL, t, op, s->stream,
                                     e));
    TRY(comm_all_gather_segments(s->comm, l->segments, SEGMENTS, NULL, a.full, t, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(check_shards(s, l, t, &a, e));
    TRY(check(l, t, a.full, a.sums, before, "in place", e));
    memset(before, 0x55, full_bytes);
    TRY(check(l, t, a.copy, a.sums, before, "through shard", e));
done:
    free(before);
    close_arrays(s, l, t, &a);
    return result;
}

#endif
