// Tests gradient reduction in a 16-bit type: the sums are close to those in fp32 and equal on all
// ranks and under all policies, and the plan states the bytes that the reduction allocates.
#include "summing.h"

#include <math.h>

static const strategy_hook FP16 = {.kind = HOOK_FP16}, BF16_HOOK = {.kind = HOOK_BF16};

// The gradients are standard normal numbers. Rounding changes each gradient and their sum by at most
// half a unit in the last place.
static void expect_near(const summing *found, const summing *exact, double unit)
{
    const double most = unit * 4 * sum_ranks(found);
    for (int r = 0; r < sum_ranks(found); r++)
        for (int t = 0; t < found->steps; t++)
            for (int k = 0; k < SUM_ELEMENTS; k++)
                if (found->own[r][k])
                    assert_true(fabs((double)found->sum[r][t][k] - (double)exact->sum[0][t][k]) <=
                                most);
}

static bool differs(const summing *a, const summing *b)
{
    return memcmp(a->sum[0], b->sum[0], sizeof a->sum[0][0] * (size_t)a->steps) != 0;
}

static void check_short(dtype reduce, const strategy_hook *hook, double unit)
{
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        summing *exact = sum_new((summing){.shard = ranks, .steps = 2}),
                *found =
                    sum_new((summing){.shard = ranks, .steps = 2, .reduce = reduce, .hook = *hook});
        assert_true(found->was_opened);
        expect_near(found, exact, unit);
        expect_same_bits(found, found);
        assert_true(differs(found, exact));
        free(exact);
        free(found);
    }
}

static void test_sums_in_a_shorter_type_are_near_and_the_same_on_every_rank(void **state)
{
    (void)state;
    const strategy_hook none = {.kind = HOOK_NONE};
    check_short(BF16, &none, 0x1p-8);
    check_short(F16, &none, 0x1p-11);
    check_short(F32, &BF16_HOOK, 0x1p-8);
    check_short(F32, &FP16, 0x1p-11);
}

static void test_a_hook_and_a_reduce_type_are_the_same(void **state)
{
    (void)state;
    summing *type = sum_new((summing){.shard = 2, .steps = 2, .reduce = BF16}),
            *hook = sum_new((summing){.shard = 2, .steps = 2, .hook = BF16_HOOK});
    expect_same_bits(type, hook);
    free(type);
    free(hook);
}

static void test_shards_equal_those_of_full_sums(void **state)
{
    (void)state;
    static const char *const words[] = {"zero1", "zero2", "zero3"};
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        summing *whole = sum_new((summing){.shard = ranks, .steps = 2, .hook = FP16});
        for (int i = 0; i < 3; i++) {
            summing *part =
                sum_new((summing){.shard = ranks, .inner = words[i], .steps = 2, .hook = FP16});
            expect_same_bits(part, whole);
            free(part);
        }
        summing *groups = sum_new(
            (summing){.shard = ranks, .inner = "zero3", .second = "ddp", .steps = 2, .hook = FP16});
        expect_same_bits(groups, whole);
        free(groups);
        free(whole);
    }
}

static void test_two_axes_round_twice_and_agree(void **state)
{
    (void)state;
    const summing hybrid = {
        .replicate = 2, .shard = 2, .inner = "zero3", .steps = 2, .reduce = BF16};
    summing *exact = sum_new((summing){.shard = 4, .steps = 2}), *found = sum_new(hybrid);
    expect_near(found, exact, 0x1p-7);
    for (int r = 0; r < 2; r++) // ranks r and r + 2 have the same shard
        for (int k = 0; k < SUM_ELEMENTS; k++)
            if (found->own[r][k])
                assert_memory_equal(&found->sum[r][1][k], &found->sum[r + 2][1][k], sizeof(float));
    free(exact);
    free(found);
}

static void test_several_micro_batches_are_summed_in_both_ways(void **state)
{
    (void)state;
    const summing x = {.shard = 2, .inner = "zero2", .micros = 3, .steps = 1};
    summing late = x, each = x, whole = x;
    late.no_sync = true, late.reduce = each.reduce = BF16;
    whole.inner = "ddp";
    summing *exact = sum_new(whole), *a = sum_new(late), *b = sum_new(each);
    expect_near(a, exact, 0x1p-6);
    expect_near(b, exact, 0x1p-6);
    free(exact);
    free(a);
    free(b);
}

static void large_summand(uint64_t step, int index, float *out)
{
    (void)step, (void)index;
    for (int k = 0; k < SUM_ELEMENTS; k++) out[k] = 40000;
}

static void test_a_scale_keeps_large_sums_finite_in_fp16(void **state)
{
    (void)state;
    summing x = {.shard = 4, .steps = 1, .hook = FP16, .summand = large_summand};
    summing *lost = sum_new(x);
    x.scale = 0.125;
    summing *kept = sum_new(x);
    for (int k = 0; k < SUM_ELEMENTS; k++) {
        assert_true(isinf(lost->sum[0][0][k]));
        assert_true(kept->sum[0][0][k] == 160000);
    }
    free(lost);
    free(kept);
}

static void test_fp32_or_one_rank_needs_no_compressor(void **state)
{
    (void)state;
    const summing cases[] = {{.shard = 2, .steps = 1},
                             {.steps = 1, .reduce = BF16},
                             {.steps = 1, .hook = FP16},
                             {.steps = 1, .hook = {.kind = HOOK_POWERSGD, .rank = 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        summing *x = sum_new(cases[i]);
        assert_false(x->was_opened);
        assert_int_equal(x->counted, 0);
        assert_int_equal(x->allocated, 0);
        free(x);
    }
}

static void test_the_plan_states_the_bytes(void **state)
{
    (void)state;
    const strategy_hook low_rank = {.kind = HOOK_POWERSGD, .rank = 2, .min_compression_rate = 1};
    strategy_hook all = low_rank;
    all.error_feedback = all.warm_start = true;
    const summing cases[] = {
        {.shard = 2, .reduce = BF16},
        {.shard = 4, .inner = "zero2", .micros = 2, .hook = FP16},
        {.replicate = 2, .shard = 2, .inner = "zero3", .micros = 2, .reduce = BF16},
        {.shard = 2, .cp = 2, .inner = "zero3", .second = "ddp", .reduce = BF16},
        {.shard = 2, .second = "frozen", .reduce = BF16},
        {.shard = 2, .hook = low_rank},
        {.shard = 2, .hook = all},
        {.shard = 2, .inner = "zero2", .reduce = F16, .hook = all},
        {.shard = 2, .inner = "zero2", .second = "frozen", .micros = 2, .hook = all}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        summing *x = sum_new(cases[i]);
        assert_true(x->allocated > 0);
        assert_int_equal(x->counted, x->allocated);
        free(x);
    }
}

static void test_fp16_without_a_scale_is_refused(void **state)
{
    (void)state;
    plan_group g = {.redistribute.reduce_micro_batch = {.count = 1}};
    plan p = {.o = {.strategy = {.reduce_dtype = F16}}, .groups = 1, .group = &g};
    compressor *c;
    err e = {0};
    assert_int_equal(compress_open(&(compress_options){.plan = &p}, &c, &e), E_INTERNAL);
    assert_null(c);
    assert_non_null(strstr(e.text, "scale 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_in_a_shorter_type_are_near_and_the_same_on_every_rank),
        cmocka_unit_test(test_a_hook_and_a_reduce_type_are_the_same),
        cmocka_unit_test(test_shards_equal_those_of_full_sums),
        cmocka_unit_test(test_two_axes_round_twice_and_agree),
        cmocka_unit_test(test_several_micro_batches_are_summed_in_both_ways),
        cmocka_unit_test(test_a_scale_keeps_large_sums_finite_in_fp16),
        cmocka_unit_test(test_fp32_or_one_rank_needs_no_compressor),
        cmocka_unit_test(test_the_plan_states_the_bytes),
        cmocka_unit_test(test_fp16_without_a_scale_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
