// test_optim.c -- the table of optimizers and the constants of a step.
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void every_rule_has_a_name_and_defaults(void **state)
{
    (void)state;
    for (int i = 0; i < UPDATE_RULES; i++) {
        const optim_config c = {.rule = (kernel_update_rule)i};
        assert_non_null(OPTIM_NAMES[i]);
        assert_true(optim_rule_of(&c)->beta1 > 0);
    }
    assert_null(OPTIM_NAMES[UPDATE_RULES]);
}

static void state_per_weight_is_two_one_or_none(void **state)
{
    optim_config c = {.rule = UPDATE_ADAMW, .beta1 = 0.9};

    (void)state;
    assert_int_equal(optim_state_tensors(&c), 2);
    c.rule = UPDATE_ADAM;
    assert_int_equal(optim_state_tensors(&c), 2);
    c.rule = UPDATE_LION;
    assert_int_equal(optim_state_tensors(&c), 1);
    c.rule = UPDATE_SGD;
    assert_int_equal(optim_state_tensors(&c), 1);
    c.beta1 = 0.0;
    assert_int_equal(optim_state_tensors(&c), 0);
}

static void decay_spares_vectors_unless_told_otherwise(void **state)
{
    optim_config c = {.rule = UPDATE_ADAMW};

    (void)state;
    assert_true(optim_decays(&c, 2));
    assert_false(optim_decays(&c, 1));
    c.decay_all = true;
    assert_true(optim_decays(&c, 1));
}

static void bias_corrections_are_exact_from_the_first_step_on(void **state)
{
    optim_config c = {.rule = UPDATE_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

    (void)state;
    kernel_step_group g = optim_step(&c, 1, 3e-4);
    assert_true(g.c1 == 0.1f);
    assert_true(g.c2 == (float)(1.0 - 0.999));
    assert_true(g.first);
    assert_true(g.lr == 3e-4f && g.beta1 == 0.9f);
    g = optim_step(&c, 1000000, 3e-4);
    assert_true(g.c1 == 1.0f && g.c2 == 1.0f);
    assert_false(g.first);
    c.beta1 = 0.0;
    assert_true(optim_step(&c, 7, 3e-4).c1 == 1.0f);
    c.rule = UPDATE_LION;
    g = optim_step(&c, 2, 1e-4);
    assert_true(g.c1 == 1.0f && g.c2 == 1.0f);
}

static void fill_leaves_pointers_alone(void **state)
{
    optim_config c = {.rule = UPDATE_LION, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
    float w = 0.0f, m = 0.0f;
    kernel_update_args u = {.count = 1, .w = &w, .m = &m, .low_type = BF16};

    (void)state;
    optim_fill(&c, &u);
    assert_true(u.weight_decay == 0.1f && u.beta2 == 0.99f);
    assert_true(u.count == 1 && u.w == &w && u.m == &m && u.v == NULL && u.low_type == BF16);
    assert_int_equal(u.rule, UPDATE_LION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_a_name_and_defaults),
        cmocka_unit_test(state_per_weight_is_two_one_or_none),
        cmocka_unit_test(decay_spares_vectors_unless_told_otherwise),
        cmocka_unit_test(bias_corrections_are_exact_from_the_first_step_on),
        cmocka_unit_test(fill_leaves_pointers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
