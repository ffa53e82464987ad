// test_smoke.c -- the judgements of `trireme smoke`: losses that do not fall, and where weights first differ.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor/measure/smoke.h"

#include <math.h>
#include <string.h>

static void test_losses(void **state)
{
    (void)state;
    err e = {.code = OK};
    const double falls[] = {5.5, 5.6, 5.1}, rises[] = {5.5, 5.4, 5.5}, broken[] = {5.5, NAN, 5.1};
    assert_int_equal(smoke_check_losses("ddp", falls, 3, &e), OK);
    assert_int_equal(smoke_check_losses("ddp", rises, 3, &e), E_NUMERIC);
    assert_string_equal(e.text, "smoke: ddp: the loss does not fall: 5.5 in step 1, 5.5 in step 3");
    assert_int_equal(smoke_check_losses("zero3", broken, 3, &e), E_NUMERIC);
    assert_string_equal(e.text, "smoke: zero3: the loss of step 2 is nan");
    assert_int_equal(smoke_check_first("tp 2", 5.52, "ddp", 5.5, &e), OK);
    assert_int_equal(smoke_check_first("tp 2", 5.6, "ddp", 5.5, &e), E_NUMERIC);
    assert_string_equal(
        e.text,
        "smoke: tp 2: the loss of step 1 is 5.6; it is 5.5 with ddp, and may differ by 1 %");
}

// Rows of a parameter are cut as torch.chunk cuts them: 10 rows of 4 ranks are 3, 3, 3 and 1.
static void test_difference(void **state)
{
    (void)state;
    float a[40], b[40];
    for (int i = 0; i < 40; i++) a[i] = b[i] = (float)i;
    assert_int_equal(smoke_compare(a, b, 40, 10, 4).elements, 0);
    b[4 * 9 + 1] = 0; // row 9
    smoke_difference d = smoke_compare(a, b, 40, 10, 4);
    assert_int_equal(d.elements, 1);
    assert_int_equal(d.first, 37);
    assert_int_equal(d.rank, 3);
    b[4 * 3] = 0; // row 3
    d = smoke_compare(a, b, 40, 10, 4);
    assert_int_equal(d.elements, 2);
    assert_int_equal(d.first, 12);
    assert_int_equal(d.rank, 1);
    memcpy(b, a, sizeof a);
    b[0] = -0.0F; // equal as a number, but not in its bits
    assert_int_equal(smoke_compare(a, b, 40, 10, 4).elements, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses),
                                       cmocka_unit_test(test_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
