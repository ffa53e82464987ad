// Tests that a size that is too large stays too large in every further sum and product.
#include "base/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void results_that_fit_are_exact(void **state)
{
    (void)state;
    assert_true(size_mul(1u << 30, 1u << 30) == UINT64_C(1) << 60);
    assert_true(size_add(UINT64_C(1) << 60, 5) == (UINT64_C(1) << 60) + 5);
    assert_true(size_align(0, 64) == 0 && size_align(1, 64) == 64 && size_align(64, 64) == 64);
    assert_true(size_mul(SIZE_TOO_LARGE, 0) == 0 && size_fits(SIZE_MOST));
}

static void results_that_overflow_saturate(void **state)
{
    (void)state;
    assert_true(size_mul(UINT64_C(1) << 32, UINT64_C(1) << 32) == SIZE_TOO_LARGE);
    assert_true(size_mul(UINT64_C(1) << 32, UINT64_C(1) << 31) == SIZE_TOO_LARGE);
    assert_true(size_add(SIZE_TOO_LARGE, SIZE_TOO_LARGE) == SIZE_TOO_LARGE);
    assert_true(size_add(UINT64_MAX, UINT64_MAX) == SIZE_TOO_LARGE);
    assert_true(size_align(SIZE_TOO_LARGE, 64) == SIZE_TOO_LARGE);
    assert_true(size_align(SIZE_TOO_LARGE - 1, 4096) == SIZE_TOO_LARGE);
    assert_false(size_fits(SIZE_TOO_LARGE) || size_fits(SIZE_MOST + 1));
    assert_true((int64_t)SIZE_TOO_LARGE > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_that_fit_are_exact),
        cmocka_unit_test(results_that_overflow_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
