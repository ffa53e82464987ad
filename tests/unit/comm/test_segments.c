// Collectives over many segments: uneven and empty shards, in place and not, against the
// all-reduce, bit for bit. And the calls that are refused.
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
static test_layout lay(int size)
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

static status open_arrays(const test_rank *s, const test_layout *l, dtype t, test_arrays *a, err *e)
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

static void close_arrays(const test_rank *s, const test_layout *l, dtype t, const test_arrays *a)
{
    const size_t element = dtype_bytes(t), full_bytes = (size_t)l->full * element;
    comm_release(s->comm, s->device, a->full, full_bytes);
    comm_release(s->comm, s->device, a->copy, full_bytes);
    comm_release(s->comm, s->device, a->shard, (size_t)l->shard * element);
    free(a->sums);
}

// The segments must hold the sums, and the gaps must be unchanged.
static status check(const test_layout *l, dtype t, const void *got, const void *sums,
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

static status check_shards(const test_rank *s, const test_layout *l, dtype t, const test_arrays *a,
                           err *e)
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
static status one_type(const test_rank *s, dtype t, comm_reduce_op op, err *e)
{
    status result = OK;
    const test_layout l = lay(s->comm->size);
    const size_t full_bytes = (size_t)l.full * dtype_bytes(t);
    test_arrays a = {0};
    void *before = malloc(full_bytes);
    TRY(open_arrays(s, &l, t, &a, e));
    memcpy(before, a.full, full_bytes);
    memset(a.copy, 0x55, full_bytes);
    TRY(comm_all_reduce(s->comm, a.sums, (size_t)l.full, t, op, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, l.segments, SEGMENTS, a.full, a.shard, t, op,
                                     s->stream, e));
    TRY(comm_all_gather_segments(s->comm, l.segments, SEGMENTS, a.shard, a.copy, t, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, l.segments, SEGMENTS, a.full, NULL, t, op, s->stream,
                                     e));
    TRY(comm_all_gather_segments(s->comm, l.segments, SEGMENTS, NULL, a.full, t, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(check_shards(s, &l, t, &a, e));
    TRY(check(&l, t, a.full, a.sums, before, "in place", e));
    memset(before, 0x55, full_bytes);
    TRY(check(&l, t, a.copy, a.sums, before, "through shard", e));
done:
    free(before);
    close_arrays(s, &l, t, &a);
    return result;
}

static status everything(const test_rank *s, err *e)
{
    status result = OK;
    TRY(one_type(s, F32, REDUCE_SUM, e));
    TRY(one_type(s, BF16, REDUCE_SUM, e));
    TRY(one_type(s, F16, REDUCE_SUM, e));
    TRY(one_type(s, F64, REDUCE_MAX, e));
    TRY(one_type(s, I64, REDUCE_SUM, e));
    TRY(comm_all_gather_segments(s->comm, NULL, 0, NULL, NULL, F32, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    return result;
}

static void run(int ranks, bool late)
{
    alarm(200);
    workers k = {.ranks = ranks, .late = late, .fn = everything};
    assert_int_equal(workers_run(&k), 0);
    k.as_threads = true;
    assert_int_equal(workers_run(&k), 0);
}

static void test_reduce_scatter_then_gather_is_all_reduce(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++) run(ranks, false);
    run(8, false);
}

static void test_on_late_streams(void **state)
{
    (void)state;
    run(3, true);
}

// Private memory that other ranks would have to read is refused, also between threads.
static status private_memory(const test_rank *s, err *e)
{
    float x[8] = {0};
    const comm_segment r = {.count = 8, .shard_count = 4}, empty = {.count = 0, .shard_count = 1};
    void *shared = NULL;
    status result = OK;
    TRY(comm_alloc(s->comm, s->device, sizeof x, &shared, e));
    err why;
    if (comm_all_gather_segments(s->comm, &r, 1, x, shared, F32, s->stream, &why) != E_INTERNAL)
        return E_USAGE;
    if (strcmp(why.text,
               "all_gather of segments: the other ranks read `shard`, which is not memory "
               "of comm_alloc") != 0)
        return E_IO;
    if (comm_all_gather_segments(s->comm, &r, 1, NULL, x, F32, s->stream, &why) != E_INTERNAL)
        return E_USAGE;
    if (comm_reduce_scatter_segments(s->comm, &r, 1, x, shared, F32, REDUCE_SUM, s->stream, &why) !=
        E_INTERNAL)
        return E_USAGE;
    // An array that no other rank reads may be private.
    TRY(comm_all_gather_segments(s->comm, &r, 1, shared, x, F32, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, &r, 1, shared, x, F32, REDUCE_SUM, s->stream, e));
    TRY(comm_all_gather_segments(s->comm, &empty, 1, NULL, x, F32, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    comm_release(s->comm, s->device, shared, sizeof x);
    return result;
}

static void test_private_memory_that_others_read_is_refused(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .fn = private_memory};
    assert_int_equal(workers_run(&k), 0);
    k.as_threads = true;
    assert_int_equal(workers_run(&k), 0);
}

// A segment that its shards do not cover.
static status uncovered(const test_rank *s, err *e)
{
    float x[8] = {0};
    const comm_segment r = {.full_offset = 1, .shard_offset = 2, .count = 7, .shard_count = 3};
    (void)e;
    err why;
    if (comm_all_gather_segments(s->comm, &r, 1, NULL, x, F32, s->stream, &why) != E_INTERNAL)
        return E_USAGE;
    if (!strstr(why.text, "segment 0 (7 elements from 1, shard from 2, 3 a rank) does not fit 2"))
        return E_IO;
    const comm_segment reversed = {.count = 7, .shard_count = 4, .reversed = true};
    if (comm_all_gather_segments(s->comm, &reversed, 1, NULL, x, F32, s->stream, &why) !=
        E_INTERNAL)
        return E_IO;
    if (comm_reduce_scatter_segments(s->comm, &r, 1, x, NULL, U8, REDUCE_SUM, s->stream, &why) !=
        E_INTERNAL)
        return E_USAGE;
    return OK;
}

static void test_impossible_lists_are_refused(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = uncovered};
    assert_int_equal(workers_run(&k), 0);
}

// Rank 1 passes another list (0, 3), or works in place (1), or makes another call (2).
static status differs(const test_rank *s, err *e)
{
    void *x = NULL;
    const int way = *(const int *)s->arg;
    const bool odd = s->comm->rank == 1;
    const comm_segment r = {
        .shard_offset = odd && way == 0, .count = 8, .shard_count = 4, .reversed = odd && way == 3};
    status result = comm_alloc(s->comm, s->device, 256, &x, e);
    float *shard = odd && way == 1 ? NULL : (float *)x + 32;
    if (result == OK && odd && way == 2)
        result =
            comm_reduce_scatter_segments(s->comm, &r, 1, x, shard, F32, REDUCE_MAX, s->stream, e);
    else if (result == OK)
        result = comm_all_gather_segments(s->comm, &r, 1, shard, x, F32, s->stream, e);
    if (result == OK) result = s->device->ops->sync(s->stream, e);
    comm_release(s->comm, s->device, x, 256);
    return result;
}

static void test_different_lists_are_named(void **state)
{
    (void)state;
    const char *const ends[] = {"calls all_gather of 8 fp32 in 1 segments (list ", ", in place)",
                                "calls reduce_scatter of 8 fp32 (max) in 1",
                                "calls all_gather of 8 fp32 in 1 segments (list "};
    for (int way = 0; way < 4; way++) {
        workers k = {.ranks = 2, .as_threads = true, .fn = differs, .arg = &way};
        assert_int_equal(workers_run(&k), 2);
        assert_int_equal(k.results[0], E_INTERNAL);
        const char *second = strstr(k.errors[0].text, " while rank 1 ");
        assert_int_equal(strncmp(k.errors[0].text, "rank 0 calls all_gather of 8 fp32 in 1", 38),
                         0);
        assert_non_null(second);
        assert_non_null(strstr(second, ends[way]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_scatter_then_gather_is_all_reduce),
        cmocka_unit_test(test_on_late_streams),
        cmocka_unit_test(test_private_memory_that_others_read_is_refused),
        cmocka_unit_test(test_impossible_lists_are_refused),
        cmocka_unit_test(test_different_lists_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
