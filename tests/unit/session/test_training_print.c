// test_training_print.c -- from a step to a training: what is known is printed, and what is not known is left out.
#include "session/plan/effective_print.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const planner_machine KNOWN = {.watts = 1000,
                                      .price_per_hour = 2,
                                      .failures_per_hour = 2e-5,
                                      .checkpoint_bytes_per_s = 1e8,
                                      .restart_s = 600,
                                      .straggler_sigma = 0.01};

// 1,024 ranks train a model of 1e9 parameters with adamw in fp32 and steps of 1 s.
static session_training train(const planner_machine *m, double tokens)
{
    job j = {.train = {.global_batch = 1000, .steps = 5000}};
    const session_inputs in = {.seq_len = 1000};
    const prediction p = {.step_s = 1, .compute_s = 0.5, .tokens_per_s = 1e6};
    j.optimizer.rule = UPDATE_ADAMW;
    return session_training_of(&j, &in, 1024, 1e9, tokens, m, &p);
}

static void expect_has(const text *t, const char *part)
{
    if (!strstr(t->chars, part)) fail_msg("no '%s' in:\n%s", part, t->chars);
}

static void all_that_is_known_is_printed(void **state)
{
    (void)state;
    const session_training t = train(&KNOWN, 1e12);
    text out = {0};
    session_training_print(&t, false, &out);
    expect_has(&out,
               "stragglers: the slowest of 1024 ranks computes 3.3 % longer than the median; a "
               "step takes 1016.5 ms\n");
    expect_has(&out, "failures: 0.02 in 1,000 hours of a rank, one in 2.035 days on 1024 ranks; a "
                     "restart takes 10 min\n");
    expect_has(&out, "checkpoints: 11.18 GiB, written in 0.117 s; the best interval is 3.38 min "
                     "(Young 3.38 min, Daly 3.38 min): train.save_every 200\n");
    expect_has(&out, "useful time: 99.5 %\n");
    expect_has(&out, "to 1e+12 tokens: 11.82 days, without failures 11.77 days; energy 2.905e+05 "
                     "kWh; price 5.809e+05\n");
    text_clear(&out);
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    const session_training t = train(&(planner_machine){.watts = 0}, 0);
    text out = {0};
    session_training_print(&t, false, &out);
    assert_string_equal(out.chars, "to 5e+09 tokens: 83.3 min\n");
    text_clear(&out);
}

static void json_has_null_for_what_is_not_known(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        const session_training t = train(known ? &KNOWN : &(planner_machine){.watts = 0}, 1e12);
        text out = {0};
        text_add(&out, "{\"a\":1");
        session_training_print(&t, true, &out);
        text_add(&out, "}");
        json_t *all = json_loads(out.chars, JSON_REJECT_DUPLICATES, NULL);
        const json_t *o = json_object_get(all, "training");
        assert_int_equal(json_is_null(json_object_get(o, "price")), !known);
        assert_int_equal(json_is_null(json_object_get(o, "checkpoint_interval_s")), !known);
        assert_true(json_is_number(json_object_get(o, "days")));
        json_decref(all);
        text_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_is_known_is_printed),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(json_has_null_for_what_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
