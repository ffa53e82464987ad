// test_batch_split.c -- the sequences of a step over ranks of equal and unequal speed, and which split is
// chosen for measured speeds.
#include "data/batch_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

static void runs_follow_each_other(void **state)
{
    (void)state;
    static const int of[] = {1, 3, 2};
    const batch_split even = {.ranks = 3, .each = 4}, uneven = {.ranks = 3, .of = of, .each = 9};
    assert_int_equal(batch_split_of(&even, 2), 4);
    assert_int_equal(batch_split_before(&even, 2), 8);
    assert_int_equal(batch_split_before(&even, 3), 12);
    assert_int_equal(batch_split_largest(&even), 0);
    assert_int_equal(batch_split_of(&uneven, 1), 3);
    assert_int_equal(batch_split_before(&uneven, 0), 0);
    assert_int_equal(batch_split_before(&uneven, 2), 4);
    assert_int_equal(batch_split_before(&uneven, 3), 6);
    assert_int_equal(batch_split_largest(&uneven), 1);
    assert_int_equal(batch_split_smallest(&uneven), 0);
}

static void a_split_is_proportional_to_speed(void **state)
{
    (void)state;
    static const struct {
        double speed[3];
        int ranks;
        int64_t batch, most;
        int multiple, of[3];
        double time; // by that of an even split
    } all[] = {
        {{1, 1}, 2, 24, 4, 1, {4, 4}, 1},
        {{2, 1}, 2, 24, 4, 1, {4, 2}, 2.0 / 3},
        {{1, 3}, 2, 8, 3, 1, {1, 3}, 0.5},
        {{3, 1}, 2, 8, 2, 1, {2, 2}, 1},       // 2 + 1 divides no 8
        {{3, 1}, 2, 9, 2, 1, {2, 1}, 2.0 / 3}, // even [1, 1] and [2, 2] do not divide 9
        {{1, 2, 1}, 3, 16, 4, 1, {2, 4, 2}, 0.75},
        {{1e12, 1}, 2, 4, 3, 1, {3, 1}, 0.5}, // every rank has one
        {{2, 1}, 2, 24, 4, 3, {3, 1}, 0.75},  // 24 / 6 is no multiple of 3, 24 / 4 is
        {{1.001, 1, 0.999}, 3, 24, 8, 1, {8, 8, 8}, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int of[3] = {0};
        const batch_split_choice c = {.speed = all[i].speed,
                                      .ranks = all[i].ranks,
                                      .global_batch = all[i].batch,
                                      .most = all[i].most,
                                      .multiple = all[i].multiple};
        const double time = batch_split_choose(&c, of);
        for (int r = 0; r < all[i].ranks; r++) assert_int_equal(of[r], all[i].of[r]);
        assert_true(time > all[i].time - 1e-9 && time < all[i].time + 1e-9);
    }
}

// The time of the slowest rank by the sum.
static double time_of(const double *speed, const int *of, int ranks, int64_t *sum)
{
    double slowest = 0;
    *sum = 0;
    for (int i = 0; i < ranks; i++) {
        *sum += of[i];
        if (of[i] / speed[i] > slowest) slowest = of[i] / speed[i];
    }
    return slowest / (double)*sum;
}

// No split of three ranks is better than the chosen one.
static void the_chosen_split_is_the_best(void **state)
{
    (void)state;
    enum { MOST = 5, TRIES = 200 };
    unsigned random = 7;
    for (int i = 0; i < TRIES; i++) {
        double speed[3];
        int chosen[3], of[3];
        int64_t sum;
        for (int r = 0; r < 3; r++) {
            random = random * 1103515245u + 12345u;
            speed[r] = 0.05 + (random >> 16 & 1023) / 1024.0;
        }
        const batch_split_choice c = {
            .speed = speed, .ranks = 3, .global_batch = 360, .most = MOST, .multiple = 1};
        assert_true(batch_split_choose(&c, chosen) > 0);
        const double time = time_of(speed, chosen, 3, &sum);
        assert_int_equal(360 % sum, 0);
        for (of[0] = 1; of[0] <= MOST; of[0]++)
            for (of[1] = 1; of[1] <= MOST; of[1]++)
                for (of[2] = 1; of[2] <= MOST; of[2]++) {
                    const double other = time_of(speed, of, 3, &sum);
                    if (360 % sum == 0) assert_true(time <= other * (1 + 1e-8));
                }
    }
}

static void no_sum_that_divides_gives_none(void **state)
{
    (void)state;
    static const double speed[] = {1, 1, 1};
    int of[3];
    const batch_split_choice c = {
        .speed = speed, .ranks = 3, .global_batch = 7, .most = 2, .multiple = 1};
    assert_true(batch_split_choose(&c, of) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(a_split_is_proportional_to_speed),
        cmocka_unit_test(the_chosen_split_is_the_best),
        cmocka_unit_test(no_sum_that_divides_gives_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
