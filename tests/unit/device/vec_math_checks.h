// vec_math_checks.h -- compares the functions of vec_math_cases.h with libm over their full range.
// Errors are relative. Include it after vec_math_cases.h, outside the instruction set of that file.
#ifndef TRIREME_TESTS_DEVICE_VEC_MATH_CHECKS_H
#define TRIREME_TESTS_DEVICE_VEC_MATH_CHECKS_H

#include "harness.h"

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double logistic_left(double x)
{
    return 1 / (1 + exp(x));
}

static double normal(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

static double density(double x)
{
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}

static void check_range(const char *name, math_fn fast, double (*exact)(double), double from,
                        double to, double allowed)
{
    enum { POINTS = 100000 };
    for (int i = 0; i < POINTS; i += VL) {
        float x[VL], y[VL];
        for (int l = 0; l < VL; l++) x[l] = (float)(from + (to - from) * (i + l) / POINTS);
        fast(x, y);
        for (int l = 0; l < VL; l++) {
            double want = exact(x[l]), off = fabs(y[l] - want);
            if (!(off <= allowed * fabs(want) + 1e-44))
                fail_msg("%s(%.9g) = %.9g, exact %.9g: off by %.2g, allowed %.2g", name, x[l], y[l],
                         want, off / fabs(want), allowed);
        }
    }
}

static bool level_missing(void)
{
    cpu_features features;
    cpu_features_read(&features);
    return features.best < (VEC_BYTES == 64 ? CPU_AVX512 : CPU_AVX2);
}

static void functions_are_within_their_stated_errors(void **state)
{
    (void)state;
    if (level_missing()) skip();
    check_range("exp", run_exp, exp, -87, 88, 1.3e-7);
    check_range("exp", run_exp, exp, -1, 1, 1.0e-7);
    check_range("exp_negative", run_exp_negative, exp, -86.9, 0, 1.3e-7);
    check_range("tanh", run_tanh, tanh, -10, 10, 3e-7);
    check_range("tanh", run_tanh, tanh, -1e-3, 1e-3, 3e-7);
    check_range("logistic", run_logistic, logistic, -80, 80, 3e-7);
    check_range("logistic_left", run_logistic_left, logistic_left, -80, 80, 4e-7);
    check_range("normal", run_normal, normal, -3, 13, 8e-7);
    check_range("normal", run_normal, normal, -12, -3, 72 * 1.3e-7);
    check_range("density", run_density, density, -3, 3, 8e-7);
}

static float one_of(math_fn fast, float x)
{
    float in[VL], out[VL];
    for (int l = 0; l < VL; l++) in[l] = x;
    fast(in, out);
    return out[VL - 1];
}

static void limits_and_special_values_are_exact(void **state)
{
    (void)state;
    if (level_missing()) skip();
    assert_true(one_of(run_exp, 0) == 1);
    assert_true(one_of(run_exp, -INFINITY) == 0);
    assert_true(one_of(run_exp, INFINITY) == INFINITY);
    assert_true(one_of(run_exp, 89.5f) == INFINITY);
    assert_true(fabsf(one_of(run_exp, -95) / 5.5211e-42f - 1) < 1e-3f); // below the normal range
    assert_true(one_of(run_exp_negative, -INFINITY) == 0);
    assert_true(one_of(run_exp_negative, -3e38f) == 0);
    assert_true(one_of(run_exp_negative, 0) == 1);
    assert_true(one_of(run_tanh, INFINITY) == 1);
    assert_true(one_of(run_tanh, -INFINITY) == -1);
    assert_true(one_of(run_tanh, 0) == 0);
    assert_true(one_of(run_normal, -INFINITY) == 0);
    assert_true(one_of(run_normal, INFINITY) == 1);
    const math_fn all[] = {run_exp,           run_exp_negative, run_tanh,   run_logistic,
                           run_logistic_left, run_normal,       run_density};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_true(isnan(one_of(all[i], NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_within_their_stated_errors),
        cmocka_unit_test(limits_and_special_values_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
