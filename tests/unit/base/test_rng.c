// Tests random numbers: the published test vector, the independence of streams, and the
// distribution of normal numbers.
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void philox_gives_the_published_vector(void **state)
{
    (void)state;
    uint32_t w[4];
    rng_philox((rng_key){{0, 0}}, 0, w);
    assert_true(w[0] == 0x6627e8d5 && w[1] == 0xe169c58d && w[2] == 0xbc57ac4c &&
                w[3] == 0x9b00dbd8);
}

static void the_word_of_an_element_does_not_depend_on_the_order_of_draws(void **state)
{
    (void)state;
    rng_key key = rng_key_make(7, RNG_DROPOUT, 1, 2);
    uint32_t w[4];
    for (uint64_t i = 40; i-- > 0;) {
        rng_philox(key, i / 4, w);
        assert_int_equal(rng_word(key, i), w[i % 4]);
    }
    // The upper 32 bits of the counter change the words, too.
    assert_int_not_equal(rng_word(key, 3), rng_word(key, 3 + (UINT64_C(1) << 34)));
}

static void keys_differ_in_every_argument(void **state)
{
    (void)state;
    rng_key keys[] = {rng_key_make(0, RNG_INIT, 0, 0), rng_key_make(1, RNG_INIT, 0, 0),
                      rng_key_make(0, RNG_MOCK, 0, 0), rng_key_make(0, RNG_INIT, 1, 0),
                      rng_key_make(0, RNG_INIT, 0, 1), rng_key_make(UINT64_MAX, RNG_INIT, 0, 0)};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            assert_false(keys[i].k[0] == keys[j].k[0] && keys[i].k[1] == keys[j].k[1]);
}

static void normal_numbers_have_mean_0_variance_1_and_finite_tails(void **state)
{
    (void)state;
    rng_key key = rng_key_make(3, RNG_INIT, 0, 0);
    enum { N = 200000 };
    double sum = 0, squares = 0, cubes = 0, lag = 0;
    int beyond = 0;
    float last = 0;
    for (int i = 0; i < N; i++) {
        float x = rng_normal(key, (uint64_t)i);
        assert_true(isfinite(x));
        sum += x, squares += x * x, cubes += x * x * x, lag += x * last;
        beyond += fabsf(x) > 1.959964f;
        last = x;
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(squares / N - 1) < 0.02);
    assert_true(fabs(cubes / N) < 0.04);
    assert_true(fabs(lag / N) < 0.01);
    assert_true(fabs((double)beyond / N - 0.05) < 0.003);
}

// These numbers must never change, because a seed must repeat a run. The tolerance allows for the
// last bits, which depend on the C library.
static void normal_numbers_are_the_same_in_every_version(void **state)
{
    (void)state;
    static const struct {
        uint64_t index;
        float value;
    } known[] = {{0, -0x1.320542p+0f},         {1, 0x1.8c94c2p-1f},  {2, -0x1.21f328p+0f},
                 {3, -0x1.d8a1c2p-3f},         {4, -0x1.c17f4ep-1f}, {1000003, 0x1.16ecap-1f},
                 {17179869189, 0x1.fe90dap+0f}};
    const rng_key key = rng_key_make(1234, RNG_INIT, 7, 0);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(fabsf(rng_normal(key, known[i].index) - known[i].value) <= 4e-7f);
}

static void a_range_of_normal_numbers_may_begin_and_end_anywhere(void **state)
{
    (void)state;
    const rng_key key = rng_key_make(3, RNG_INIT, 0, 0);
    for (uint64_t first = 0; first < 9; first++)
        for (size_t count = 0; count < 12; count++) {
            float out[13];
            out[count] = 99;
            rng_normals(key, first, count, out);
            for (size_t i = 0; i < count; i++) assert_true(out[i] == rng_normal(key, first + i));
            assert_true(out[count] == 99);
        }
}

static void uniform_numbers_stay_below_1(void **state)
{
    (void)state;
    assert_true(rng_uniform(0) == 0.0f);
    assert_true(rng_uniform(UINT32_MAX) < 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vector),
        cmocka_unit_test(the_word_of_an_element_does_not_depend_on_the_order_of_draws),
        cmocka_unit_test(keys_differ_in_every_argument),
        cmocka_unit_test(normal_numbers_have_mean_0_variance_1_and_finite_tails),
        cmocka_unit_test(normal_numbers_are_the_same_in_every_version),
        cmocka_unit_test(a_range_of_normal_numbers_may_begin_and_end_anywhere),
        cmocka_unit_test(uniform_numbers_stay_below_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
