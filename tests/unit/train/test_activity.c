// Tests the number that holds a rank's current instruction: its text must be the schedule's text.
#include "train/trainer_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect_words(const schedule_instr *x)
{
    text words = {0};
    char out[96];
    instr_print(x, &words);
    assert_true(activity_pack(x) != 0);
    activity_describe(activity_pack(x), out, sizeof out);
    assert_string_equal(out, words.chars);
    text_clear(&words);
}

static void every_instruction_has_the_text_of_the_schedule(void **state)
{
    (void)state;
    for (int kind = 0; kind < INSTRS; kind++)
        for (int big = 0; big < 2; big++) {
            schedule_instr x = {.kind = (schedule_instr_kind)kind,
                                .micro = big ? 65536 : 3,
                                .index = big ? 10001 : 5,
                                .peer = big ? 255 : 1,
                                .slot = big ? 200 : 2,
                                .post_forward = big,
                                .last = !big,
                                .what = big ? (plan_state)(PLAN_STATES - 1) : (plan_state)0};
            expect_words(&x);
        }
}

static void numbers_that_are_too_large_do_not_spill(void **state)
{
    (void)state;
    char out[96];
    const schedule_instr x = {.kind = FORWARD, .micro = INT32_MAX, .index = INT32_MAX, .peer = -1};
    activity_describe(activity_pack(&x), out, sizeof out);
    assert_string_equal(out, "FORWARD micro 1048575 block 65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_has_the_text_of_the_schedule),
        cmocka_unit_test(numbers_that_are_too_large_do_not_spill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
