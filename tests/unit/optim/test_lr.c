// test_lr.c -- every schedule gives the rates of tests/golden/lr.txt, which
// tests/golden/make_optim_golden.py computes from the formulas.
#include "optim/lr.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct lr_field {
    const char *key;
    size_t offset;
    char type; // i: int64, d: double, b: bool, e: an enum
} lr_field;

#define FIELD(key, member, type)                                                                   \
    {                                                                                              \
#key, offsetof(lr_config, member), type                                                    \
    }

static const lr_field fields[] = {
    FIELD(warmup_steps, warmup_steps, 'i'),
    FIELD(min_ratio, min_ratio, 'd'),
    FIELD(decay_steps, decay_steps, 'i'),
    FIELD(total_steps, total_steps, 'i'),
    FIELD(warmup_min_lr, warmup.min_lr, 'd'),
    FIELD(warmup_max_lr, warmup.max_lr, 'd'),
    FIELD(warmup_num_steps, warmup.num_steps, 'i'),
    FIELD(total_num_steps, warmup.total_num_steps, 'i'),
    FIELD(warmup_linear, warmup.linear, 'b'),
    FIELD(warmup_min_ratio, warmup.min_ratio, 'd'),
    FIELD(cos_min_ratio, warmup.cos_min_ratio, 'd'),
    FIELD(lr_range_test_min_lr, range_test.min_lr, 'd'),
    FIELD(lr_range_test_step_rate, range_test.step_rate, 'd'),
    FIELD(lr_range_test_step_size, range_test.step_size, 'i'),
    FIELD(lr_range_test_staircase, range_test.staircase, 'b'),
    FIELD(cycle_min_lr, cycle.min_lr, 'd'),
    FIELD(cycle_max_lr, cycle.max_lr, 'd'),
    FIELD(decay_lr_rate, cycle.decay_lr_rate, 'd'),
    FIELD(cycle_first_step_size, cycle.first_step_size, 'i'),
    FIELD(cycle_second_step_size, cycle.second_step_size, 'i'),
    FIELD(decay_step_size, cycle.decay_step_size, 'i'),
    FIELD(cycle_first_stair_count, cycle.first_stair_count, 'i'),
    FIELD(cycle_second_stair_count, cycle.second_stair_count, 'i'),
    FIELD(cycle_momentum, cycle.moves_momentum, 'b'),
    FIELD(cycle_min_mom, cycle.min_mom, 'd'),
    FIELD(cycle_max_mom, cycle.max_mom, 'd'),
    FIELD(decay_mom_rate, cycle.decay_mom_rate, 'd'),
    FIELD(lr_decay_style, megatron.style, 'e'),
    FIELD(lr_wsd_decay_style, megatron.wsd_style, 'e'),
    FIELD(init_lr, megatron.init_lr, 'd'),
    FIELD(min_lr, megatron.min_lr, 'd'),
    FIELD(lr_warmup_steps, megatron.warmup_steps, 'd'),
    FIELD(lr_decay_steps, megatron.decay_steps, 'd'),
    FIELD(wsd_decay_steps, megatron.wsd_decay_steps, 'd'),
    FIELD(global_batch, global_batch, 'i'),
};

static void set_field(lr_config *c, const char *key, double value)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].key, key) != 0) continue;
        char *member = (char *)c + fields[i].offset;
        if (fields[i].type == 'i') *(int64_t *)(void *)member = (int64_t)value;
        if (fields[i].type == 'd') *(double *)(void *)member = value;
        if (fields[i].type == 'e') *(unsigned *)(void *)member = (unsigned)value;
        if (fields[i].type == 'b') *(bool *)(void *)member = value != 0.0;
        return;
    }
    fail_msg("no field %s", key);
}

// Parses "case NAME BASE key value ..."; returns the base rate.
static double start_case(char *line, lr_config *c)
{
    char *save = NULL, *word;
    double base;

    strtok_r(line, " \n", &save);
    lr_defaults(c);
    c->warmup_steps = 0;
    c->min_ratio = 0.0;
    word = strtok_r(NULL, " \n", &save);
    for (int i = 0; i < LR_NAMES; i++)
        if (strcmp(word, LR_LABELS[i]) == 0) c->name = (lr_name)i;
    assert_string_equal(word, LR_LABELS[c->name]);
    base = strtod(strtok_r(NULL, " \n", &save), NULL);
    while ((word = strtok_r(NULL, " \n", &save)) != NULL)
        set_field(c, word, strtod(strtok_r(NULL, " \n", &save), NULL));
    return base;
}

static void every_schedule_equals_its_formula(void **state)
{
    FILE *f = fopen(TESTS_DIR "/golden/lr.txt", "r");
    char line[1024], shown[1024] = "";
    lr_config c;
    double base = 0.0, lr, beta1;
    long done;
    int checked = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "case ", 5) == 0) {
            strcpy(shown, line);
            base = start_case(line, &c);
            continue;
        }
        assert_int_equal(sscanf(line, "%ld %lf %lf", &done, &lr, &beta1), 3);
        double got = lr_at(&c, base, done), got_beta1 = lr_momentum_at(&c, 0.85, done);
        if (fabs(got - lr) > 1e-14 * fabs(lr) + 1e-19 || fabs(got_beta1 - beta1) > 1e-14)
            fail_msg("%sstep %ld: lr %.17g, not %.17g; beta1 %.17g, not %.17g", shown, done, got,
                     lr, got_beta1, beta1);
        checked++;
    }
    fclose(f);
    assert_true(checked > 500);
}

static void one_cycle_without_momentum_and_other_schedules_leave_beta1_alone(void **state)
{
    lr_config c;

    (void)state;
    lr_defaults(&c);
    assert_true(lr_momentum_at(&c, 0.9, 3) == 0.9);
    c.name = LR_ONE_CYCLE;
    assert_true(lr_momentum_at(&c, 0.5, 3) != 0.5);
    c.cycle.moves_momentum = false;
    assert_true(lr_momentum_at(&c, 0.5, 3) == 0.5);
}

static void the_last_step_of_linear_cosine_and_wsd_has_the_lowest_rate(void **state)
{
    static const lr_name names[] = {LR_LINEAR, LR_COSINE, LR_WSD};

    (void)state;
    for (int i = 0; i < 3; i++) {
        lr_config c;
        lr_defaults(&c);
        c.name = names[i];
        c.warmup_steps = 10;
        c.total_steps = 57;
        assert_true(lr_at(&c, 1.0, 9) == 1.0);
        assert_true(lr_at(&c, 1.0, 10) == 1.0);
        assert_true(fabs(lr_at(&c, 1.0, 56) - 0.1) < 1e-15);
        assert_true(lr_at(&c, 1.0, 55) > 0.1);
    }
}

static void scaling_with_ranks_is_none_linear_or_the_square_root(void **state)
{
    (void)state;
    assert_true(lr_scale(3e-4, LR_SCALE_NONE, 4) == 3e-4);
    assert_true(lr_scale(3e-4, LR_SCALE_LINEAR, 4) == 4 * 3e-4);
    assert_true(lr_scale(3e-4, LR_SCALE_SQRT, 4) == 2 * 3e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_equals_its_formula),
        cmocka_unit_test(one_cycle_without_momentum_and_other_schedules_leave_beta1_alone),
        cmocka_unit_test(the_last_step_of_linear_cosine_and_wsd_has_the_lowest_rate),
        cmocka_unit_test(scaling_with_ranks_is_none_linear_or_the_square_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
