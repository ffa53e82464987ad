// vec_math_cases.h -- the functions of vec_math.h on arrays of one vector, for the level that the
// test file selects by VEC_BYTES. vec_math_checks.h compares them with libm.
#ifndef TRIREME_TESTS_DEVICE_VEC_MATH_CASES_H
#define TRIREME_TESTS_DEVICE_VEC_MATH_CASES_H

typedef void (*math_fn)(const float *x, float *y);

static void run_exp(const float *x, float *y)
{
    v_store(y, 0, F32, v_exp(v_load(x, 0, F32)));
}

static void run_exp_negative(const float *x, float *y)
{
    v_store(y, 0, F32, v_exp_negative(v_load(x, 0, F32)));
}

static void run_tanh(const float *x, float *y)
{
    v_store(y, 0, F32, v_tanh(v_load(x, 0, F32)));
}

static void run_logistic(const float *x, float *y)
{
    vf left;
    v_store(y, 0, F32, v_logistic(v_load(x, 0, F32), &left));
}

static void run_logistic_left(const float *x, float *y)
{
    vf left;
    v_logistic(v_load(x, 0, F32), &left);
    v_store(y, 0, F32, left);
}

static void run_normal(const float *x, float *y)
{
    vf density;
    v_store(y, 0, F32, v_normal(v_load(x, 0, F32), &density));
}

static void run_density(const float *x, float *y)
{
    vf density;
    v_normal(v_load(x, 0, F32), &density);
    v_store(y, 0, F32, density);
}
#endif
