// Collectives over many runs: uneven and empty parts, in place and not, against plain loops and the
// all-reduce, bit for bit; and what is refused.
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RUNS = 7 };

// Elements of each run, of one slice of its dim 0: even, uneven, fewer slices than ranks, empty,
// one slice, large.
static const int64_t SIZES[RUNS][2] = {{24, 1}, {35, 5},    {6, 3}, {0, 4},
                                       {9, 9},  {30001, 1}, {1, 1}};

typedef struct layout {
    comm_segment runs[RUNS];
    int64_t whole, own; // elements
} layout;

// Cut as torch.chunk cuts dim 0. Runs lie apart in the whole, and in another order than in own.
static layout lay(int size)
{
    layout l = {.whole = 3};
    for (int i = 0; i < RUNS; i++) {
        const int64_t slices = SIZES[i][0] / SIZES[i][1], each = (slices + size - 1) / size;
        l.runs[i] = (comm_segment){.full_offset = l.whole,
                                   .count = SIZES[i][0],
                                   .shard_count = (each ? each : 1) * SIZES[i][1]};
        l.whole += SIZES[i][0] + 2;
    }
    for (int i = RUNS - 1; i >= 0; i--) {
        l.runs[i].shard_offset = l.own;
        l.own += l.runs[i].shard_count;
    }
    return l;
}

static double value(int rank, int64_t i)
{
    return (double)(((uint64_t)i * 2654435761u + (uint64_t)rank * 40503u) % 2003u) / 7.0 - 100.0;
}

static void put(void *p, dtype t, int64_t i, double x)
{
    if (t == F32)
        ((float *)p)[i] = (float)x;
    else if (t == BF16)
        ((uint16_t *)p)[i] = float_to_bf16((float)x);
    else if (t == F16)
        ((uint16_t *)p)[i] = float_to_fp16((float)x);
    else if (t == F64)
        ((double *)p)[i] = x;
    else
        ((int64_t *)p)[i] = (int64_t)(x * 1e12);
}

typedef struct arrays {
    void *sums, *whole, *own, *copy; // sums: of an all_reduce; whole, own, copy: comm_alloc'ed
} arrays;

static status open_arrays(const seat *s, const layout *l, dtype t, arrays *a, err *e)
{
    status result = OK;
    const size_t element = dtype_bytes(t), whole = (size_t)l->whole * element;
    *a = (arrays){.sums = malloc(whole)};
    TRY(comm_alloc(s->comm, s->device, whole, &a->whole, e));
    TRY(comm_alloc(s->comm, s->device, whole, &a->copy, e));
    TRY(comm_alloc(s->comm, s->device, (size_t)l->own * element, &a->own, e));
    for (int64_t i = 0; i < l->whole; i++) put(a->whole, t, i, value(s->comm->rank, i));
    memcpy(a->sums, a->whole, whole);
done:
    return result;
}

static void close_arrays(const seat *s, const layout *l, dtype t, const arrays *a)
{
    const size_t element = dtype_bytes(t), whole = (size_t)l->whole * element;
    comm_release(s->comm, s->device, a->whole, whole);
    comm_release(s->comm, s->device, a->copy, whole);
    comm_release(s->comm, s->device, a->own, (size_t)l->own * element);
    free(a->sums);
}

// Between the runs nothing may change, and in them all must be the sums.
static status check(const layout *l, dtype t, const void *got, const void *sums,
                    const void *between, const char *what, err *e)
{
    const size_t element = dtype_bytes(t);
    const char *want = between, *x = got;
    int run = 0;
    for (int64_t i = 0; i < l->whole; i++) {
        while (run < RUNS && i >= l->runs[run].full_offset + l->runs[run].count) run++;
        const bool inside = run < RUNS && i >= l->runs[run].full_offset;
        const char *from = inside ? sums : want;
        if (memcmp(x + (size_t)i * element, from + (size_t)i * element, element) != 0)
            return err_set(e, E_INTERNAL, "%s of %s: element %lld %s differs", what, dtype_name(t),
                           (long long)i, inside ? "of a run" : "between runs");
    }
    return OK;
}

static status check_own(const seat *s, const layout *l, dtype t, const arrays *a, err *e)
{
    const size_t element = dtype_bytes(t);
    for (int i = 0; i < RUNS; i++) {
        const comm_segment *r = &l->runs[i];
        int64_t first;
        const size_t count = (size_t)comm_segment_shard(r, s->comm->rank, &first);
        if (memcmp((char *)a->own + (size_t)r->shard_offset * element,
                   (char *)a->sums + (size_t)(r->full_offset + first) * element,
                   count * element) != 0)
            return err_set(e, E_INTERNAL, "reduce_scatter: own part of run %d differs", i);
    }
    return OK;
}

// reduce_scatter and all_gather, through `own` and in place, against all_reduce.
static status one_type(const seat *s, dtype t, reduce_op op, err *e)
{
    status result = OK;
    const layout l = lay(s->comm->size);
    const size_t whole = (size_t)l.whole * dtype_bytes(t);
    arrays a = {0};
    void *before = malloc(whole);
    TRY(open_arrays(s, &l, t, &a, e));
    memcpy(before, a.whole, whole);
    memset(a.copy, 0x55, whole);
    TRY(comm_all_reduce(s->comm, a.sums, (size_t)l.whole, t, op, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, l.runs, RUNS, a.whole, a.own, t, op, s->stream, e));
    TRY(comm_all_gather_segments(s->comm, l.runs, RUNS, a.own, a.copy, t, s->stream, e));
    TRY(comm_reduce_scatter_segments(s->comm, l.runs, RUNS, a.whole, NULL, t, op, s->stream, e));
    TRY(comm_all_gather_segments(s->comm, l.runs, RUNS, NULL, a.whole, t, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(check_own(s, &l, t, &a, e));
    TRY(check(&l, t, a.whole, a.sums, before, "in place", e));
    memset(before, 0x55, whole);
    TRY(check(&l, t, a.copy, a.sums, before, "through own", e));
done:
    free(before);
    close_arrays(s, &l, t, &a);
    return result;
}

static status everything(const seat *s, err *e)
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
    crew k = {.ranks = ranks, .late = late, .fn = everything};
    assert_int_equal(crew_run(&k), 0);
    k.as_threads = true;
    assert_int_equal(crew_run(&k), 0);
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

// Private memory that others would have to read, also between threads.
static status private_memory(const seat *s, err *e)
{
    float x[8] = {0};
    const comm_segment r = {.count = 8, .shard_count = 4}, empty = {.count = 0, .shard_count = 1};
    void *shared = NULL;
    status result = OK;
    TRY(comm_alloc(s->comm, s->device, sizeof x, &shared, e));
    err why;
    if (comm_all_gather_segments(s->comm, &r, 1, x, shared, F32, s->stream, &why) != E_INTERNAL)
        return E_USAGE;
    if (strcmp(why.text, "all_gather of segments: the other ranks read `own`, which is not memory "
                         "of comm_alloc") != 0)
        return E_IO;
    if (comm_all_gather_segments(s->comm, &r, 1, NULL, x, F32, s->stream, &why) != E_INTERNAL)
        return E_USAGE;
    if (comm_reduce_scatter_segments(s->comm, &r, 1, x, shared, F32, REDUCE_SUM, s->stream, &why) !=
        E_INTERNAL)
        return E_USAGE;
    // What only this rank touches may be private, and so may what nobody reads.
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
    crew k = {.ranks = 2, .fn = private_memory};
    assert_int_equal(crew_run(&k), 0);
    k.as_threads = true;
    assert_int_equal(crew_run(&k), 0);
}

// A run of which some elements would have no owner.
static status ownerless(const seat *s, err *e)
{
    float x[8] = {0};
    const comm_segment r = {.full_offset = 1, .shard_offset = 2, .count = 7, .shard_count = 3};
    (void)e;
    err why;
    if (comm_all_gather_segments(s->comm, &r, 1, NULL, x, F32, s->stream, &why) != E_INTERNAL)
        return E_USAGE;
    if (!strstr(why.text, "segment 0 (7 elements from 1, own from 2, 3 a rank) does not fit 2"))
        return E_IO;
    if (comm_reduce_scatter_segments(s->comm, &r, 1, x, NULL, U8, REDUCE_SUM, s->stream, &why) !=
        E_INTERNAL)
        return E_USAGE;
    return OK;
}

static void test_impossible_lists_are_refused(void **state)
{
    (void)state;
    crew k = {.ranks = 2, .as_threads = true, .fn = ownerless};
    assert_int_equal(crew_run(&k), 0);
}

// Rank 1's list is cut elsewhere (0), or in place (1), or another call (2).
static status differs(const seat *s, err *e)
{
    void *x = NULL;
    const int way = *(const int *)s->arg;
    const bool odd = s->comm->rank == 1;
    const comm_segment r = {.shard_offset = odd && way == 0, .count = 8, .shard_count = 4};
    status result = comm_alloc(s->comm, s->device, 256, &x, e);
    float *own = odd && way == 1 ? NULL : (float *)x + 32;
    if (result == OK && odd && way == 2)
        result =
            comm_reduce_scatter_segments(s->comm, &r, 1, x, own, F32, REDUCE_MAX, s->stream, e);
    else if (result == OK)
        result = comm_all_gather_segments(s->comm, &r, 1, own, x, F32, s->stream, e);
    if (result == OK) result = s->device->ops->sync(s->stream, e);
    comm_release(s->comm, s->device, x, 256);
    return result;
}

static void test_different_lists_are_named(void **state)
{
    (void)state;
    const char *const ends[] = {"calls all_gather of 8 fp32 in 1 segments (list ", ", in place)",
                                "calls reduce_scatter of 8 fp32 (max) in 1"};
    for (int way = 0; way < 3; way++) {
        crew k = {.ranks = 2, .as_threads = true, .fn = differs, .arg = &way};
        assert_int_equal(crew_run(&k), 2);
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
