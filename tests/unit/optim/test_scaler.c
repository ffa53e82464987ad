// test_scaler.c -- the loss scale of fp16 follows DeepSpeed's rules, for tables of events.
#include "optim/scaler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct trace {
    const char *claim;
    scaler_options o;
    const char *events; // 'o' overflow, '.' a good step
    double scale[16];   // after each event
} trace;

#define OPTIONS(power, w, h, each, least)                                                          \
    {                                                                                              \
        .initial_power = (power), .scale_window = (w), .hysteresis = (h),                          \
        .consecutive_hysteresis = (each), .min_scale = (least)                                     \
    }

static void run(const trace *t)
{
    scaler s;
    scaler_open(&s, &t->o, true);
    for (int i = 0; t->events[i]; i++) {
        err e = {.code = OK};
        if (scaler_update(&s, t->events[i] == 'o', &e) != OK) fail_msg("%s: %s", t->claim, e.text);
        if (s.scale != t->scale[i])
            fail_msg("%s: after event %d the scale is %g, not %g", t->claim, i, s.scale,
                     t->scale[i]);
    }
}

static void the_scale_follows_the_rules(void **state)
{
    (void)state;
    static const trace all[] = {
        {"hysteresis 1: every overflow halves", OPTIONS(4, 100, 1, false, 1), "ooo", {8, 4, 2}},
        {"hysteresis 2: the first overflow is tolerated, every later one halves",
         OPTIONS(4, 100, 2, false, 1),
         "oooo",
         {16, 8, 4, 2}},
        {"good steps do not refill hysteresis",
         OPTIONS(4, 100, 2, false, 1),
         "o..o",
         {16, 16, 16, 8}},
        {"consecutive: every good step refills hysteresis",
         OPTIONS(4, 100, 2, true, 1),
         "o.o.oo",
         {16, 16, 16, 16, 16, 8}},
        {"the first window is one step longer: it ends with iteration 3",
         OPTIONS(0, 3, 1, false, 1),
         ".......",
         {1, 1, 1, 2, 2, 2, 4}},
        {"an overflow starts the window again: the scale doubles after window + 1 good steps",
         OPTIONS(4, 2, 1, false, 1),
         "o....o...",
         {8, 8, 8, 16, 16, 8, 8, 8, 16}},
        {"a tolerated overflow starts the window again, too",
         OPTIONS(4, 2, 3, false, 1),
         "..o...",
         {16, 16, 16, 16, 16, 32}},
        {"doubling refills hysteresis",
         OPTIONS(4, 2, 2, false, 1),
         "o...oo",
         {16, 16, 16, 32, 32, 16}},
        {"the scale does not fall below the smallest", OPTIONS(4, 100, 1, false, 6), "oo", {8, 6}},
        {"window 1: every step doubles, but the first after an overflow",
         OPTIONS(0, 1, 1, false, 1),
         "...o..",
         {1, 2, 4, 2, 2, 4}},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) run(&all[i]);
}

static void an_overflow_at_the_smallest_scale_is_an_error(void **state)
{
    (void)state;
    const scaler_options o = OPTIONS(1, 100, 2, false, 1);
    scaler s;
    err e = {.code = OK};
    scaler_open(&s, &o, true);
    assert_int_equal(scaler_update(&s, true, &e), OK); // tolerated
    assert_int_equal(scaler_update(&s, false, &e), OK);
    assert_int_equal(scaler_update(&s, true, &e), OK); // 1
    assert_int_equal(scaler_update(&s, true, &e), E_NUMERIC);
    assert_string_equal(e.text, "step 4: Current loss scale already at minimum - cannot decrease "
                                "scale anymore. It is 1 (train.fp16.min_loss_scale)");
    assert_true(s.scale == 1);
}

static void at_the_smallest_scale_an_overflow_may_still_be_tolerated(void **state)
{
    (void)state;
    const scaler_options o = OPTIONS(0, 100, 2, false, 1);
    scaler s;
    scaler_open(&s, &o, true);
    assert_int_equal(scaler_update(&s, true, NULL), OK);
    assert_int_equal(scaler_update(&s, true, NULL), E_NUMERIC);
}

static void a_static_scale_stays(void **state)
{
    (void)state;
    scaler_options o;
    scaler s;
    scaler_defaults(&o);
    o.loss_scale = 128;
    scaler_open(&s, &o, true);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(scaler_update(&s, i % 3 == 0, NULL), OK);
        assert_true(s.scale == 128);
    }
}

static void without_fp16_the_scale_is_one(void **state)
{
    (void)state;
    scaler_options o;
    scaler s;
    scaler_defaults(&o);
    scaler_open(&s, &o, false);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(scaler_update(&s, i % 3 == 0, NULL), OK);
        assert_true(s.scale == 1);
    }
}

static void the_defaults_are_deepspeeds(void **state)
{
    (void)state;
    scaler_options o;
    scaler s;
    scaler_defaults(&o);
    scaler_open(&s, &o, true);
    assert_true(s.scale == 65536);
    for (int i = 0; i < 1000; i++) assert_int_equal(scaler_update(&s, false, NULL), OK);
    assert_true(s.scale == 65536);
    assert_int_equal(scaler_update(&s, false, NULL), OK);
    assert_true(s.scale == 131072);
    assert_int_equal(scaler_update(&s, true, NULL), OK);
    assert_true(s.scale == 131072);
    assert_int_equal(scaler_update(&s, true, NULL), OK);
    assert_true(s.scale == 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_follows_the_rules),
        cmocka_unit_test(an_overflow_at_the_smallest_scale_is_an_error),
        cmocka_unit_test(at_the_smallest_scale_an_overflow_may_still_be_tolerated),
        cmocka_unit_test(a_static_scale_stays),
        cmocka_unit_test(without_fp16_the_scale_is_one),
        cmocka_unit_test(the_defaults_are_deepspeeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
