// npy_header writes the bytes that numpy.save writes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/npy.h"

#include <string.h>

// The literals come from python3 -c 'import numpy; numpy.save("a.npy", numpy.zeros(SHAPE, TYPE))'.
static void check(dtype type, int dims, const int64_t *dim, const char *literal)
{
    text out = {0};
    assert_int_equal(npy_header(type, dims, dim, &out, NULL), OK);
    assert_int_equal(out.bytes % 64, 0);
    assert_memory_equal(out.chars, "\x93NUMPY\x01\x00", 8);
    const size_t length =
        (size_t)(unsigned char)out.chars[8] + 256 * (size_t)(unsigned char)out.chars[9];
    assert_int_equal(length, out.bytes - 10);
    assert_memory_equal(out.chars + 10, literal, strlen(literal));
    for (size_t i = 10 + strlen(literal); i + 1 < out.bytes; i++)
        assert_int_equal(out.chars[i], ' ');
    assert_int_equal(out.chars[out.bytes - 1], '\n');
    text_clear(&out);
}

static void heads_equal_those_of_numpy(void **state)
{
    (void)state;
    check(F32, 3, (int64_t[]){2, 3, 4},
          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }");
    check(I32, 1, (int64_t[]){7}, "{'descr': '<i4', 'fortran_order': False, 'shape': (7,), }");
    check(F64, 2, (int64_t[]){1000000000000, 1},
          "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1), }");
    check(U8, 2, (int64_t[]){0, 5}, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }");
}

static void types_that_numpy_lacks_are_refused(void **state)
{
    (void)state;
    text out = {0};
    assert_int_equal(npy_header(BF16, 1, (int64_t[]){7}, &out, NULL), E_INTERNAL);
    assert_int_equal(out.bytes, 0);
}

static void a_text_that_failed_is_an_error(void **state)
{
    (void)state;
    text out = {0};
    text_fail(&out);
    assert_int_equal(npy_header(F32, 1, (int64_t[]){7}, &out, NULL), E_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_equal_those_of_numpy),
        cmocka_unit_test(types_that_numpy_lacks_are_refused),
        cmocka_unit_test(a_text_that_failed_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
