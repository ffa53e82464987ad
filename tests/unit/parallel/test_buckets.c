// test_buckets.c -- which parameters share a bucket.
#include "unit/parallel/planned.h"

static void test_buckets_are_a_small_first_one_then_up_to_the_cap(void **state)
{
    (void)state;
    planned x = planned_blocks(6, 1024, 256); // 1 MiB of gradients in each block
    x.bucket_bytes = 3 << 20;
    expect_buckets(&x, "a b | c d e | f");
    x.bucket_bytes = 100 << 20;
    expect_buckets(&x, "a b c d e | f");
    x.bucket_bytes = 1 << 20;
    expect_buckets(&x, "a | b | c | d | e | f");
    x.bucket_bytes = 1; // smaller than the first bucket's size
    expect_buckets(&x, "a | b | c | d | e | f");
    x.param[5].rows = 8; // the first bucket takes blocks until it has 1 MiB
    x.bucket_bytes = 3 << 20;
    expect_buckets(&x, "a | b c d | e f");
}

static void test_a_bucket_is_whole_blocks(void **state)
{
    (void)state;
    planned x = {.params = 5, .blocks = 3};
    x.param[0] = (planned_param){8, 4, .block = 0};
    x.param[1] = (planned_param){8, 0, .block = 0};
    x.param[2] = (planned_param){8, 4, .block = 1};
    x.param[3] = (planned_param){8, 0, .block = 1};
    x.param[4] = (planned_param){8, 4, .block = 2};
    expect_buckets(&x, "a b | c d | e");
}

// On a stage of a pipeline, passes of other micro-batches run between the passes of one.
static void
test_one_pass_of_one_chunk_completes_a_bucket_that_each_micro_batch_reduces(void **state)
{
    (void)state;
    planned x = planned_blocks(6, 8, 4);
    x.bucket_bytes = 100 << 20;
    for (int i = 0; i < x.params; i++) x.param[i].writes = COMPUTES_WGRAD;
    x.param[3].writes = COMPUTES_DGRAD, x.param[5].writes = COMPUTES_FORWARD;
    x.pp = 2, x.rank = 2, x.micros = 2, x.shard = 2, x.inner = "zero2";
    x.split = (const int[]){3, 3};
    expect_buckets(&x, "f | d | e");
    x.micros = 1; // nothing runs between them
    expect_buckets(&x, "d e f");
    x.micros = 2, x.no_sync = true;
    expect_buckets(&x, "d e f");
    x.no_sync = false, x.chunks = 3, x.split = NULL; // its chunks are b, d and f
    for (int i = 0; i < x.params; i++) x.param[i].writes = COMPUTES_WGRAD;
    expect_buckets(&x, "b | d | f");
}

static void test_buckets_are_single_blocks_with_sharded_weights_or_files(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.bucket_bytes = 100 << 20;
    x.shard = 2;
    expect_buckets(&x, "a b c d");
    x.inner = "zero2"; // gradients in slots, weights replicated
    expect_buckets(&x, "a b c d");
    x.inner = "zero3";
    expect_buckets(&x, "a | b | c | d");
    x.inner = "zero1";
    expect_buckets(&x, "a b c d");
    x.tier[PLAN_OPTIMIZER_STATE] = TIER_FILE;
    expect_buckets(&x, "a | b | c | d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_are_a_small_first_one_then_up_to_the_cap),
        cmocka_unit_test(test_a_bucket_is_whole_blocks),
        cmocka_unit_test(
            test_one_pass_of_one_chunk_completes_a_bucket_that_each_micro_batch_reduces),
        cmocka_unit_test(test_buckets_are_single_blocks_with_sharded_weights_or_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
