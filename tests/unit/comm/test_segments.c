// Collectives over many segments: uneven and empty shards, in place and not, against the
// all-reduce, bit for bit. And the calls that are refused.
#include "segments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static status everything(const test_rank *s, err *e)
{
    status result = OK;
    const test_layout l = lay(s->comm->size);
    TRY(one_type(s, &l, F32, REDUCE_SUM, e));
    TRY(one_type(s, &l, BF16, REDUCE_SUM, e));
    TRY(one_type(s, &l, F16, REDUCE_SUM, e));
    TRY(one_type(s, &l, F64, REDUCE_MAX, e));
    TRY(one_type(s, &l, I64, REDUCE_SUM, e));
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

static status rank_1_does_not_share(const test_rank *s, err *e)
{
    return s->comm->rank == 1 ? comm_barrier(s->comm, e) : comm_share(s->comm, e);
}

static void test_a_rank_that_does_not_share_is_named(void **state)
{
    (void)state;
    workers k = {.ranks = 3, .as_threads = true, .fn = rank_1_does_not_share};
    assert_int_equal(workers_run(&k), 3);
    assert_int_equal(k.results[0], E_INTERNAL);
    assert_string_equal(k.errors[0].text, "rank 0 calls share while rank 1 calls barrier");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_scatter_then_gather_is_all_reduce),
        cmocka_unit_test(test_on_late_streams),
        cmocka_unit_test(test_private_memory_that_others_read_is_refused),
        cmocka_unit_test(test_impossible_lists_are_refused),
        cmocka_unit_test(test_different_lists_are_named),
        cmocka_unit_test(test_a_rank_that_does_not_share_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
