// test_normal.c -- the logarithm, sine and cosine of base/normal.h are the exact values rounded to float, for
// every word that there is. So every program that rounds so draws the same normal numbers.
#include "base/normal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WORDS = 1 << 24 };

// The library's double is the exact value but for its last bits. Where they could decide the rounding, the
// function in long double does.
static float rounded(double near, long double (*exact)(long double), double x)
{
    const double error = fabs(near) * 0x1p-50;
    const float low = (float)(near - error), high = (float)(near + error);
    return low == high ? low : (float)exact((long double)x);
}

static void logarithms_are_exact(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < WORDS; k++) {
        const double x = (double)(k + 1) * 0x1p-24;
        assert_true(normal_log(k) == rounded(log(x), logl, x));
    }
}

static void sines_and_cosines_are_exact(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < WORDS; k++) {
        const float angle = normal_angle(k << 8);
        float sine, cosine;
        normal_sincos(angle, &sine, &cosine);
        assert_true(sine == rounded(sin(angle), sinl, angle));
        assert_true(cosine == rounded(cos(angle), cosl, angle));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_are_exact),
        cmocka_unit_test(sines_and_cosines_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
