// Tests PowerSGD: it equals PyTorch's hook (tests/golden/make_powersgd.py) and gives the same bits
// under every policy. Before its first step, sums are exact. It handles matrices whose rank is below
// the number of factors.
#include "train/compress/powersgd.h"

#include "parallel/hook.h"

#include "summing.h"

#include <math.h>

enum { START = 2, GOLDEN_STEPS = 5 };

static strategy_hook hook_of(int rank, bool warm_start, bool error_feedback, double epsilon)
{
    return (strategy_hook){.kind = HOOK_POWERSGD,
                           .rank = rank,
                           .start_step = START,
                           .min_compression_rate = 1,
                           .epsilon = epsilon,
                           .warm_start = warm_start,
                           .error_feedback = error_feedback};
}

static double worst(const float *found, const float *expected, double factor, int64_t count)
{
    double most = 0;
    for (int64_t k = 0; k < count; k++)
        most = fmax(most, fabs((double)found[k] - factor * (double)expected[k]));
    return most;
}

// ---- Against PyTorch

static void read_means(FILE *f, float *out)
{
    for (int k = 0; k < SUM_ELEMENTS; k++) assert_int_equal(fscanf(f, "%f", &out[k]), 1);
}

static void test_means_equal_those_of_pytorch(void **state)
{
    (void)state;
    FILE *f = fopen(TESTS_DIR "/golden/powersgd_torch.txt", "r");
    int rank, warm, feedback, cases = 0;
    double epsilon;
    assert_non_null(f);
    for (; fscanf(f, " case %d %d %d %lf", &rank, &warm, &feedback, &epsilon) == 4; cases++) {
        const strategy_hook hook = hook_of(rank, warm, feedback, epsilon);
        summing *x = sum_new((summing){.shard = 2, .steps = GOLDEN_STEPS, .hook = hook});
        for (int t = START; t < GOLDEN_STEPS; t++) {
            float mean[SUM_ELEMENTS];
            read_means(f, mean);
            for (int r = 0; r < 2; r++) {
                const double off = worst(x->sum[r][t], mean, 2, SUM_ELEMENTS);
                if (!(off < 2e-5)) fail_msg("case %d, step %d: off by %g", cases, t, off);
            }
        }
        free(x);
    }
    assert_int_equal(cases, 7);
    fclose(f);
}

// ---- Against itself

static void test_every_policy_gives_the_same_bits(void **state)
{
    (void)state;
    const strategy_hook hook = hook_of(2, true, true, 0);
    summing *whole = sum_new((summing){.shard = 4, .steps = 5, .hook = hook});
    const summing cases[] = {
        {.shard = 4, .inner = "zero1"},
        {.shard = 4, .inner = "zero2"},
        {.shard = 4, .inner = "zero3"},
        {.replicate = 4},
        {.replicate = 2, .shard = 2, .inner = "zero3"},
        {.replicate = 2, .shard = 2, .inner = "zero2", .outer = "zero1"},
        {.replicate = 2, .shard = 2, .inner = "zero3", .outer = "zero3"},
        {.shard = 4, .second = "zero3"},
        {.shard = 4, .inner = "zero3", .second = "zero2"},
        {.shard = 2, .cp = 2, .inner = "zero3"},
        {.replicate = 2, .cp = 2, .inner = "zero2", .second = "ddp"},
    };
    expect_same_bits(whole, whole);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        summing x = cases[i];
        x.hook = hook, x.steps = 5;
        summing *found = sum_new(x);
        expect_same_bits(found, whole);
        free(found);
    }
    free(whole);
}

static void test_workspaces_are_counted_and_change_no_bits(void **state)
{
    (void)state;
    const strategy_hook hook = hook_of(2, true, true, 0);
    summing *plain = sum_new((summing){.shard = 2, .steps = 5, .hook = hook}),
            *spied = sum_new((summing){.shard = 2, .steps = 5, .hook = hook, .spied = true});
    expect_same_bits(spied, plain);
    assert_true(spied->counted > plain->counted);
    assert_int_equal(spied->counted, spied->allocated);
    free(plain);
    free(spied);
}

static void test_frozen_parameters_are_not_factored(void **state)
{
    (void)state;
    const strategy_hook hook = hook_of(2, true, true, 0);
    summing *whole = sum_new((summing){.shard = 2, .steps = 5, .hook = hook}),
            *found = sum_new((summing){.shard = 2, .second = "frozen", .steps = 5, .hook = hook});
    expect_same_bits(found, whole);
    for (int i = 0; i < SUM_PARAMS; i++)
        for (int64_t k = sum_first(i); k < sum_first(i + 1); k++)
            assert_int_equal(found->own[0][k], i % 2 == 0);
    // What parameter b had: its error of 16 * 5 elements, and three times a Q of 5 * 2. The P of both
    // buckets' parameters lie in the same memory.
    assert_int_equal(whole->counted - found->counted, 4 * (16 * 5 + 3 * 5 * 2) + 4 * 2 * 16);
    free(whole);
    free(found);
}

static void test_sums_are_plain_before_it_starts(void **state)
{
    (void)state;
    const strategy_hook hook = hook_of(1, true, true, 0);
    summing *plain = sum_new((summing){.shard = 2, .steps = START}),
            *found = sum_new((summing){.shard = 2, .steps = START + 1, .hook = hook});
    found->steps = START;
    expect_same_bits(found, plain);
    free(plain);
    free(found);
}

static void test_other_parameters_are_summed_exactly(void **state)
{
    (void)state;
    const int64_t c = sum_first(2), elements = SUM_ELEMENTS - c; // the parameters c and d
    const dtype types[] = {F32, BF16};
    for (int i = 0; i < 2; i++) {
        const strategy_hook hook = hook_of(2, false, false, 0);
        summing *plain = sum_new((summing){.shard = 2, .steps = 3, .reduce = types[i]}),
                *found =
                    sum_new((summing){.shard = 2, .steps = 3, .reduce = types[i], .hook = hook});
        for (int r = 0; r < 2; r++)
            assert_memory_equal(found->sum[r][2] + c, plain->sum[0][2] + c,
                                sizeof(float) * (size_t)elements);
        assert_memory_not_equal(found->sum[0][2], plain->sum[0][2], sizeof(float) * (size_t)c);
        free(plain);
        free(found);
    }
}

static void test_a_full_rank_approximation_gives_the_sum(void **state)
{
    (void)state;
    strategy_hook hook = hook_of(16, true, true, 0);
    hook.min_compression_rate = 0;
    summing *plain = sum_new((summing){.shard = 2, .steps = 5}),
            *found = sum_new((summing){.shard = 2, .steps = 5, .hook = hook});
    for (int t = START; t < 5; t++)
        assert_true(worst(found->sum[1][t], plain->sum[0][t], 1, SUM_ELEMENTS) < 1e-5);
    free(plain);
    free(found);
}

static void test_factors_in_a_shorter_type_are_near_and_the_same_on_every_rank(void **state)
{
    (void)state;
    const strategy_hook hook = hook_of(2, false, true, 0);
    summing *exact = sum_new((summing){.shard = 4, .steps = 4, .hook = hook}),
            *found = sum_new((summing){.shard = 4, .steps = 4, .reduce = BF16, .hook = hook});
    expect_same_bits(found, found);
    for (int t = START; t < 4; t++) {
        const double off = worst(found->sum[0][t], exact->sum[0][t], 1, SUM_ELEMENTS);
        assert_true(off > 0 && off < 0.3);
    }
    free(exact);
    free(found);
}

static void constant_summand(uint64_t step, int index, float *out)
{
    (void)step;
    random_summand(0, index, out);
}

static void test_error_feedback_recovers_lost_gradients_over_steps(void **state)
{
    (void)state;
    const strategy_hook with = hook_of(3, true, true, 0), without = hook_of(3, true, false, 0);
    summing x = {.shard = 2, .steps = SUM_STEPS, .summand = constant_summand};
    summing *plain = sum_new(x);
    x.hook = with;
    summing *fed = sum_new(x);
    x.hook = without;
    summing *lossy = sum_new(x);
    double off[2] = {0, 0};
    for (int k = 0; k < 80; k++) {
        double means[2] = {0, 0};
        for (int t = START; t < SUM_STEPS; t++) {
            means[0] += (double)fed->sum[0][t][k] / (SUM_STEPS - START);
            means[1] += (double)lossy->sum[0][t][k] / (SUM_STEPS - START);
        }
        for (int i = 0; i < 2; i++) off[i] += pow(means[i] - (double)plain->sum[0][0][k], 2);
    }
    if (!(off[0] < 0.5 * off[1])) fail_msg("%g; without: %g", off[0], off[1]);
    free(plain);
    free(fed);
    free(lossy);
}

static void test_every_reduced_micro_batch_is_compressed(void **state)
{
    (void)state;
    strategy_hook hook = hook_of(16, true, true, 0); // exact, so that sums can be compared
    hook.min_compression_rate = 0;
    const summing x = {.replicate = 2, .shard = 2, .inner = "zero3", .micros = 3, .steps = 3};
    for (int no_sync = 0; no_sync < 2; no_sync++) {
        summing plain = x, packed = x;
        plain.no_sync = packed.no_sync = no_sync, packed.hook = hook;
        summing *a = sum_new(plain), *b = sum_new(packed);
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < SUM_ELEMENTS; k++)
                if (b->own[r][k]) assert_true(fabsf(a->sum[r][2][k] - b->sum[r][2][k]) < 5e-5f);
        free(a);
        free(b);
    }
}

// ---- Matrices of low rank

// Matrices of rank one. In step START, parameter b is zero.
static void poor_summand(uint64_t step, int index, float *out)
{
    random_summand(step, index, out);
    for (int i = 0; i < 10 * 8; i++) out[i] = (float)(1 + i / 8) * (float)(i % 8 - 3);
    if (step == START) memset(out + sum_first(1), 0, sizeof(float) * 16 * 5);
}

static void test_more_factors_than_the_rank_count_nothing_twice(void **state)
{
    (void)state;
    for (int rank = 2; rank <= 4; rank++) {
        summing x = {.shard = 2, .steps = 5, .summand = poor_summand};
        summing *plain = sum_new(x);
        x.hook = hook_of(rank, true, false, 0);
        summing *found = sum_new(x);
        for (int t = START; t < 5; t++) {
            const double off = worst(found->sum[0][t], plain->sum[0][t], 1, 80);
            if (!(off < 1e-4)) fail_msg("rank %d, step %d: off by %g", rank, t, off);
        }
        free(plain);
        free(found);
    }
}

static void test_a_matrix_of_zeros_stays_zero_and_starts_again(void **state)
{
    (void)state;
    const double epsilons[] = {0, 1e-8};
    for (int i = 0; i < 2; i++) {
        summing x = {.shard = 2, .steps = 8, .summand = poor_summand};
        x.hook = hook_of(2, true, true, epsilons[i]);
        summing *found = sum_new(x);
        const float *b = found->sum[0][START] + sum_first(1);
        for (int k = 0; k < 80; k++) assert_true(b[k] == 0);
        double size = 0;
        for (int k = 0; k < 80; k++) size = fmax(size, fabsf(found->sum[0][7][sum_first(1) + k]));
        assert_true(size > 0.5);
        free(found);
    }
}

static void broken_summand(uint64_t step, int index, float *out)
{
    random_summand(step, index, out);
    if (step == START + 1 && index == 1) out[3] = INFINITY;
}

static void test_a_restart_drops_values_that_are_not_finite(void **state)
{
    (void)state;
    summing x = {.shard = 2, .steps = 6, .summand = broken_summand};
    x.hook = hook_of(2, true, true, 0);
    summing *spoilt = sum_new(x);
    x.restart = START + 2;
    summing *found = sum_new(x);
    assert_true(isnan(spoilt->sum[0][5][0]));
    for (int t = START + 2; t < 6; t++)
        for (int k = 0; k < SUM_ELEMENTS; k++) assert_true(isfinite(found->sum[0][t][k]));
    free(spoilt);
    free(found);
}

static void test_only_matrices_that_compress_well_are_compressed(void **state)
{
    (void)state;
    plan_group groups[2] = {{.representative = 0}, {.o.frozen = true}};
    plan p = {.o.strategy.hook = hook_of(2, true, true, 0), .groups = 2, .group = groups};
    const plan_row wide = {.rows = 10, .cols = 8, .count = 80},
                   frozen = {.rows = 10, .cols = 8, .count = 80, .group = 1},
                   small = {.rows = 4, .cols = 4, .count = 16},
                   vector = {.rows = 4096, .cols = 1, .count = 4096};
    assert_true(hook_factors_row(&p, &wide)); // 36 < 80
    assert_false(hook_factors_row(&p, &frozen));
    assert_false(hook_factors_row(&p, &small)); // 16 < 16
    assert_false(hook_factors_row(&p, &vector));
    p.o.strategy.hook.min_compression_rate = 80. / 36;
    assert_false(hook_factors_row(&p, &wide));
    p.o.strategy.hook = (strategy_hook){.kind = HOOK_BF16, .rank = 1};
    assert_false(hook_factors_row(&p, &wide));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means_equal_those_of_pytorch),
        cmocka_unit_test(test_every_policy_gives_the_same_bits),
        cmocka_unit_test(test_workspaces_are_counted_and_change_no_bits),
        cmocka_unit_test(test_frozen_parameters_are_not_factored),
        cmocka_unit_test(test_sums_are_plain_before_it_starts),
        cmocka_unit_test(test_other_parameters_are_summed_exactly),
        cmocka_unit_test(test_a_full_rank_approximation_gives_the_sum),
        cmocka_unit_test(test_factors_in_a_shorter_type_are_near_and_the_same_on_every_rank),
        cmocka_unit_test(test_error_feedback_recovers_lost_gradients_over_steps),
        cmocka_unit_test(test_every_reduced_micro_batch_is_compressed),
        cmocka_unit_test(test_more_factors_than_the_rank_count_nothing_twice),
        cmocka_unit_test(test_a_matrix_of_zeros_stays_zero_and_starts_again),
        cmocka_unit_test(test_a_restart_drops_values_that_are_not_finite),
        cmocka_unit_test(test_only_matrices_that_compress_well_are_compressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
