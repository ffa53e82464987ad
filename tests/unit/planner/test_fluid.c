// test_fluid.c -- work that shares resources, against speeds that follow from max-min fairness by hand.
#include "planner/fluid.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static planner_claim claim(double seconds, double compute, double memory)
{
    planner_claim c = {.seconds = seconds};
    c.share[RESOURCE_COMPUTE] = compute;
    c.share[RESOURCE_MEMORY] = memory;
    return c;
}

static void assert_near(double found, double expected)
{
    if (fabs(found - expected) > 1e-9) fail_msg("found %.12g, expected %.12g", found, expected);
}

static void expect_speeds(const planner_claim *c, int count, const double *expected)
{
    const planner_claim *of[PLANNER_THREADS] = {NULL};
    double speed[PLANNER_THREADS];
    for (int i = 0; i < count; i++) of[i] = &c[i];
    planner_fluid_speeds(of, count, speed);
    for (int i = 0; i < count; i++) assert_near(speed[i], expected[i]);
}

static void test_what_fits_has_its_full_speed(void **state)
{
    (void)state;
    expect_speeds((planner_claim[]){claim(1, 0.5, 0.2), claim(1, 0.5, 0.8)}, 2, (double[]){1, 1});
    expect_speeds((planner_claim[]){claim(1, 0, 0)}, 1, (double[]){1});
}

static void test_a_resource_is_shared_by_max_min(void **state)
{
    (void)state;
    // Both want all of it.
    expect_speeds((planner_claim[]){claim(1, 1, 0), claim(1, 1, 0)}, 2, (double[]){0.5, 0.5});
    // One wants little: equal speeds of 1 / 1.4.
    expect_speeds((planner_claim[]){claim(1, 0, 1), claim(1, 0, 0.4)}, 2,
                  (double[]){1 / 1.4, 1 / 1.4});
    // The third one shares another resource with the first, and takes what that leaves.
    expect_speeds((planner_claim[]){claim(1, 1, 0.5), claim(1, 1, 0), claim(1, 0, 0.8)}, 3,
                  (double[]){0.5, 0.5, 0.75 / 0.8});
}

// ---- Pieces

static void run(const planner_piece *p, int pieces, int ranks, const int *other, planner_run *out)
{
    err e;
    const planner_work w = {p, pieces, ranks, other};
    if (planner_fluid_run(&w, out, NULL, &e) != OK) fail_msg("%s", e.text);
}

// Beside each other both take twice as long; when the short one has ended, the other one has all.
static void test_the_rest_runs_alone(void **state)
{
    (void)state;
    const planner_piece p[] = {{.thread = 0, .claim = claim(3, 1, 0)},
                               {.thread = 1, .claim = claim(1, 1, 0)}};
    planner_run out[2];
    run(p, 2, 1, NULL, out);
    assert_near(out[1].end, 2);
    assert_near(out[0].end, 4);
}

static void test_threads_follow_their_order_and_waits(void **state)
{
    (void)state;
    const int other[] = {0};
    const planner_piece p[] = {{.thread = 0, .claim = claim(1, 0, 0)},
                               {.thread = 0, .claim = claim(2, 0, 0)},
                               {.thread = 1, .claim = claim(1, 0, 0), .waits = 1}};
    planner_run out[3];
    run(p, 3, 1, other, out);
    assert_near(out[1].begin, 1);
    assert_near(out[2].begin, 1);
    assert_near(out[1].end, 3);
    assert_int_equal(out[2].cause, 0);
}

// A collective runs when its last rank has come.
static void test_partners_run_together(void **state)
{
    (void)state;
    const int other[] = {3, 1};
    const planner_piece p[] = {
        {.rank = 0, .claim = claim(1, 0, 0)},
        {.rank = 0, .claim = claim(0.5, 0, 0), .partners = 1},
        {.rank = 1, .claim = claim(4, 0, 0)},
        {.rank = 1, .claim = claim(0.5, 0, 0), .first_partner = 1, .partners = 1}};
    planner_run out[4];
    run(p, 4, 2, other, out);
    assert_near(out[1].begin, 1);
    assert_near(out[1].run, 4);
    assert_near(out[1].end, 4.5);
    assert_near(out[3].run, 4);
    assert_int_equal(out[1].last, 3);
    assert_int_equal(out[3].last, -1);
}

static void test_a_circle_is_refused(void **state)
{
    (void)state;
    err e;
    int stuck = 7;
    const int other[] = {1, 0};
    const planner_piece p[] = {{.thread = 0, .claim = claim(1, 0, 0), .waits = 1},
                               {.thread = 1, .claim = claim(1, 0, 0), .first_wait = 1, .waits = 1}};
    planner_run out[2];
    const planner_work w = {p, 2, 1, other};
    assert_int_equal(planner_fluid_run(&w, out, &stuck, &e), E_INTERNAL);
    assert_int_equal(stuck, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_has_its_full_speed),
        cmocka_unit_test(test_a_resource_is_shared_by_max_min),
        cmocka_unit_test(test_the_rest_runs_alone),
        cmocka_unit_test(test_threads_follow_their_order_and_waits),
        cmocka_unit_test(test_partners_run_together),
        cmocka_unit_test(test_a_circle_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
