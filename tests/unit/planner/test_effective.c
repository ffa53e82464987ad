// Effective time of a training, and stragglers: against closed forms and against random draws of a fixed seed.
#include "planner/effective.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_near(double found, double expected, double share)
{
    if (!(fabs(found - expected) <= share * fabs(expected)))
        fail_msg("found %.9g, expected %.9g to within %g", found, expected, share);
}

// ---- Random numbers

typedef struct draws {
    uint64_t state;
} draws;

// splitmix64 (Steele, Lea and Flood, OOPSLA 2014): above 0, up to 1.
static double uniform(draws *d)
{
    uint64_t z = (d->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53 + 0x1p-54;
}

static double normal(draws *d)
{
    const double radius = sqrt(-2 * log(uniform(d)));
    return radius * cos(2 * M_PI * uniform(d));
}

// ---- Failures

// 1024 ranks that fail once in 50,000 hours each, as a rule.
static const planner_failures MANY = {
    .per_hour = 1.0 / 50000, .ranks = 1024, .checkpoint_s = 120, .restart_s = 600};

// Seconds that `intervals` intervals take, where failures come at random.
static double take(const planner_failures *f, double interval, int intervals, draws *d)
{
    const double mean = 3600 / (f->per_hour * f->ranks), needed = interval + f->checkpoint_s;
    double now = 0;
    for (int i = 0; i < intervals;) {
        double next = -mean * log(uniform(d));
        if (next >= needed) {
            now += needed, i++;
            continue;
        }
        // A restart that fails is begun again.
        for (now += next; (next = -mean * log(uniform(d))) < f->restart_s; now += next) continue;
        now += f->restart_s;
    }
    return now;
}

static void the_useful_share_is_that_of_a_simulated_job(void **state)
{
    enum { INTERVALS = 200000 };
    static const double rates[] = {1e-6, 2e-5, 2e-4, 1e-3};
    (void)state;
    for (int i = 0; i < 4; i++) {
        planner_failures f = MANY;
        draws d = {.state = 28};
        f.per_hour = rates[i];
        const planner_effective x = planner_effective_of(&f);
        const double took = take(&f, x.interval_s, INTERVALS, &d);
        assert_near(x.useful, x.interval_s * INTERVALS / took, 0.01);
        assert_near(x.between_failures_s, 3600 / (rates[i] * 1024), 1e-12);
    }
}

static void the_interval_is_the_optimum(void **state)
{
    (void)state;
    for (double d = 0.5; d < 1e6; d *= 3) {
        planner_failures f = MANY;
        f.checkpoint_s = d;
        const planner_effective x = planner_effective_of(&f);
        for (int k = -1; k <= 1; k += 2)
            assert_true(planner_useful_share(&f, x.interval_s * (1 + 0.01 * k)) < x.useful);
        assert_true(x.useful > 0 && x.useful < 1);
    }
}

// Where a checkpoint is short beside the time between failures, all three agree; Daly's formula stays near the optimum
// for longer than Young's.
static void the_formulas_agree_where_they_should(void **state)
{
    planner_failures f = MANY;
    (void)state;
    f.checkpoint_s = 0.01;
    planner_effective x = planner_effective_of(&f);
    assert_near(x.young_s, x.interval_s, 2e-3);
    assert_near(x.daly_s, x.interval_s, 1e-6);
    f.checkpoint_s = 0.2 * x.between_failures_s;
    x = planner_effective_of(&f);
    assert_near(x.daly_s, x.interval_s, 5e-3);
    assert_true(fabs(x.young_s - x.interval_s) > 0.1 * x.interval_s);
    f.checkpoint_s = 3 * x.between_failures_s;
    x = planner_effective_of(&f);
    assert_near(x.daly_s, x.between_failures_s, 1e-12);
}

static void no_failures_and_free_checkpoints(void **state)
{
    planner_failures f = MANY;
    (void)state;
    f.per_hour = 0;
    planner_effective x = planner_effective_of(&f);
    assert_true(isinf(x.interval_s) && isinf(x.young_s) && isinf(x.between_failures_s));
    assert_near(x.useful, 1, 0);
    assert_near(planner_useful_share(&f, 880), 0.88, 1e-12);
    f = MANY;
    f.checkpoint_s = 0;
    x = planner_effective_of(&f);
    assert_near(x.useful, exp(-600 / x.between_failures_s), 1e-6);
}

// ---- Stragglers

static double largest_of(draws *d, double sigma, int ranks)
{
    double most = 0;
    for (int i = 0; i < ranks; i++) most = fmax(most, exp(sigma * normal(d)));
    return most;
}

static void lognormal_stragglers(void **state)
{
    draws d = {.state = 7};
    (void)state;
    for (double sigma = 0.01; sigma < 1; sigma *= 3) {
        const planner_stragglers s = {.sigma = sigma};
        const double mean = exp(sigma * sigma / 2), root = sigma * M_SQRT1_2;
        // Of one and of two ranks there are closed forms.
        assert_near(planner_straggler_factor(&s, 1), mean, 1e-9);
        assert_near(planner_straggler_factor(&s, 2), mean * erfc(-root * M_SQRT1_2), 1e-9);
        double sum = 0;
        for (int i = 0; i < 4000; i++) sum += largest_of(&d, sigma, 64);
        assert_near(planner_straggler_factor(&s, 64), sum / 4000, 0.02);
    }
    // The expected largest of 16,384 normal numbers is 3.96 or so, and factors of small sigma are 1 + sigma times that.
    assert_near((planner_straggler_factor(&(planner_stragglers){.sigma = 1e-6}, 16384) - 1) / 1e-6,
                3.96, 0.01);
    assert_near(planner_straggler_factor(&(planner_stragglers){.sigma = 0}, 16384), 1, 0);
}

static void measured_stragglers(void **state)
{
    static const double factors[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1.5};
    const planner_stragglers s = {.factor = factors, .factors = 10};
    (void)state;
    assert_near(planner_straggler_factor(&s, 1), 1.05, 1e-12);
    assert_near(planner_straggler_factor(&s, 3), 1 + 0.5 * (1 - 0.729), 1e-12);
    assert_near(planner_straggler_factor(&s, 1e6), 1.5, 1e-12);
}

// ---- A training

static void the_bill_of_a_training(void **state)
{
    planner_training t = {.tokens = 1e12,
                          .tokens_per_s = 1e6,
                          .ranks = 1000,
                          .useful = 0.8,
                          .watts = 1200,
                          .price_per_hour = 2.5};
    planner_bill b = planner_bill_of(&t);
    (void)state;
    assert_near(b.days_without_failures, 1e6 / 86400, 1e-12);
    assert_near(b.days, 1.25e6 / 86400, 1e-12);
    assert_near(b.kilowatt_hours, 1200 * 1.25e6 / 3600, 1e-12);
    assert_near(b.price, 2500 * 1.25e6 / 3600, 1e-12);
    t.watts = t.price_per_hour = 0;
    b = planner_bill_of(&t);
    assert_true(isnan(b.kilowatt_hours) && isnan(b.price));
    assert_near(planner_joules(700, 8, 0.5), 2800, 1e-12);
    assert_near(planner_price(3.6, 8, 0.5), 0.004, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_useful_share_is_that_of_a_simulated_job),
        cmocka_unit_test(the_interval_is_the_optimum),
        cmocka_unit_test(the_formulas_agree_where_they_should),
        cmocka_unit_test(no_failures_and_free_checkpoints),
        cmocka_unit_test(lognormal_stragglers),
        cmocka_unit_test(measured_stragglers),
        cmocka_unit_test(the_bill_of_a_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
