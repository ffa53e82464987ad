// test_step_numbers.c -- the numbers that every step takes to the device: under OneCycle they have the learning rate and
// the momentum of the step, and SGD's momentum stays. unit/optim tests the formulas.
#include "golden.h"

#include "optim/lr.h"
#include "train/results.h"

enum { STEPS = 6 };

static trainer_options one_cycle(golden *g, kernel_update_rule rule)
{
    golden_open(g, "mlp_classes", 1);
    trainer_options o = golden_options(g, rule, F32, 16);
    o.lr.name = LR_ONE_CYCLE;
    o.lr.cycle.min_lr = 1e-4;
    o.lr.cycle.max_lr = 1e-3;
    o.lr.cycle.first_step_size = 3;
    o.lr.cycle.min_mom = 0.5;
    o.lr.cycle.max_mom = 0.8;
    o.lr.cycle.moves_momentum = true;
    return o;
}

// The device is the cpu, so that the test can read what a kernel reads.
static void expect_momentum(kernel_update_rule rule, bool moves)
{
    golden g = {0};
    trainer *t = NULL;
    trainer_options o = one_cycle(&g, rule);
    CHECK(trainer_open(&o, &t, e));
    for (int s = 0; s < STEPS; s++) {
        trainer_step_result r;
        const double own = o.optimizer.beta1, cycled = lr_momentum_at(&o.lr, own, s);
        CHECK(trainer_step(t, false, &r, e));
        const kernel_step_group *now = results_step_group(t, 0);
        assert_true(cycled != own);
        assert_true(now->beta1 == (float)(moves ? cycled : own));
        assert_true(now->lr == (float)lr_at(&o.lr, o.optimizer.lr, s));
        assert_true(r.lr == lr_at(&o.lr, o.optimizer.lr, s));
    }
    trainer_close(t);
    golden_close(&g);
}

static void one_cycle_moves_the_momentum_of_adam_and_not_of_sgd(void **state)
{
    (void)state;
    expect_momentum(UPDATE_ADAMW, true);
    expect_momentum(UPDATE_SGD, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cycle_moves_the_momentum_of_adam_and_not_of_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
