// The error record: one line, a trail, the exit codes.
#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static status inner(err *e)
{
    status result = OK;
    FAIL(E_NUMERIC, "rank %d: NaN", 3);
done:
    return result;
}

static status outer(err *e)
{
    status result = OK;
    TRY(inner(e));
done:
    return result;
}

static void a_failure_carries_its_text_and_the_calls_it_came_through(void **state)
{
    (void)state;
    err e;
    assert_int_equal(outer(&e), E_NUMERIC);
    assert_int_equal(e.code, E_NUMERIC);
    assert_string_equal(e.text, "rank 3: NaN");
    assert_int_equal(e.depth, 1);
    assert_string_equal(e.trail[0].call, "inner(e)");
}

static void no_record_is_needed(void **state)
{
    (void)state;
    assert_int_equal(outer(NULL), E_NUMERIC);
    err_prefix(NULL, "x");
    errno = ENOENT;
    assert_int_equal(err_errno(NULL, "x"), E_IO);
}

static void errno_is_appended_and_prefixes_go_before(void **state)
{
    (void)state;
    err e;
    errno = ENOENT;
    assert_int_equal(err_errno(&e, "cannot open %s", "a"), E_IO);
    err_prefix(&e, "job.yaml:%d: ", 4);
    assert_string_equal(e.text, "job.yaml:4: cannot open a: No such file or directory");
}

static void a_text_may_be_made_from_itself_and_is_cut_at_its_room(void **state)
{
    (void)state;
    static char longer[3000];
    err e;
    memset(longer, 'a', sizeof longer - 1);
    err_set(&e, E_IO, "first");
    err_set(&e, E_IO, "second after %s", e.text);
    assert_string_equal(e.text, "second after first");
    err_set(&e, E_IO, "%s", longer);
    assert_int_equal(strlen(e.text), ERR_TEXT_BYTES - 1);
    err_prefix(&e, "%s", longer);
    errno = EIO;
    err_errno(&e, "%s", longer);
    assert_int_equal(strlen(e.text), ERR_TEXT_BYTES - 1);
}

static void a_line_that_is_too_long_ends_at_a_character(void **state)
{
    (void)state;
    char euros[3 * ERR_TEXT_BYTES + 1] = {0};
    err e;
    size_t bad;
    for (size_t i = 0; i < ERR_TEXT_BYTES; i++) memcpy(euros + 3 * i, "\xe2\x82\xac", 3);
    for (int shift = 0; shift < 3; shift++) {
        err_set(&e, E_IO, "%.*s%s", shift, "ab", euros);
        assert_true(text_is_utf8(e.text, strlen(e.text), &bad));
        assert_string_equal(e.text + strlen(e.text) - 6, "\xe2\x82\xac...");
        assert_in_range(strlen(e.text), ERR_TEXT_BYTES - 4, ERR_TEXT_BYTES - 1);
        err_prefix(&e, "%.*s: ", shift, "ab");
        assert_true(text_is_utf8(e.text, strlen(e.text), &bad));
        errno = EIO;
        err_errno(&e, "%.*s%s", shift, "ab", euros);
        assert_true(text_is_utf8(e.text, strlen(e.text), &bad));
    }
}

static void the_trail_keeps_the_deepest_frames(void **state)
{
    (void)state;
    err e;
    err_set(&e, E_IO, "x");
    for (int i = 0; i < 20; i++) err_note(&e, "f", i, "call");
    assert_int_equal(e.depth, ERR_TRAIL);
    assert_int_equal(e.trail[0].line, 0);
}

static void exit_codes_are_the_documented_ones(void **state)
{
    (void)state;
    assert_int_equal(status_exit_code(OK), 0);
    assert_int_equal(status_exit_code(E_USAGE), 2);
    assert_int_equal(status_exit_code(E_FIT), 3);
    assert_int_equal(status_exit_code(E_INTERRUPTED), 130);
    assert_int_equal(status_exit_code(E_IO), 1);
    assert_int_equal(status_exit_code(E_PEER), 1);
    assert_int_equal(status_exit_code(E_NUMERIC), 1);
    assert_int_equal(status_exit_code(E_INTERNAL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_carries_its_text_and_the_calls_it_came_through),
        cmocka_unit_test(no_record_is_needed),
        cmocka_unit_test(errno_is_appended_and_prefixes_go_before),
        cmocka_unit_test(a_text_may_be_made_from_itself_and_is_cut_at_its_room),
        cmocka_unit_test(a_line_that_is_too_long_ends_at_a_character),
        cmocka_unit_test(the_trail_keeps_the_deepest_frames),
        cmocka_unit_test(exit_codes_are_the_documented_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
