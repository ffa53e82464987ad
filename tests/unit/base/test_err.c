// Tests the error record: its text, its trail and the exit codes.
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

static void an_error_holds_its_text_and_the_trail_of_calls(void **state)
{
    (void)state;
    err e;
    assert_int_equal(outer(&e), E_NUMERIC);
    assert_int_equal(e.code, E_NUMERIC);
    assert_string_equal(e.text, "rank 3: NaN");
    assert_int_equal(e.depth, 1);
    assert_string_equal(e.trail[0].call, "inner(e)");
}

static void the_error_record_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(outer(NULL), E_NUMERIC);
    err_prefix(NULL, "x");
    errno = ENOENT;
    assert_int_equal(err_errno(NULL, "x"), E_IO);
}

static void err_errno_appends_the_reason_and_err_prefix_prepends_text(void **state)
{
    (void)state;
    err e;
    errno = ENOENT;
    assert_int_equal(err_errno(&e, "cannot open %s", "a"), E_IO);
    err_prefix(&e, "job.yaml:%d: ", 4);
    assert_string_equal(e.text, "job.yaml:4: cannot open a: No such file or directory");
}

static void a_text_may_contain_the_old_text_and_is_truncated_to_its_room(void **state)
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

static void a_truncated_line_ends_with_a_complete_character(void **state)
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

static void every_status_has_its_documented_exit_code(void **state)
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
        cmocka_unit_test(an_error_holds_its_text_and_the_trail_of_calls),
        cmocka_unit_test(the_error_record_may_be_null),
        cmocka_unit_test(err_errno_appends_the_reason_and_err_prefix_prepends_text),
        cmocka_unit_test(a_text_may_contain_the_old_text_and_is_truncated_to_its_room),
        cmocka_unit_test(a_truncated_line_ends_with_a_complete_character),
        cmocka_unit_test(the_trail_keeps_the_deepest_frames),
        cmocka_unit_test(every_status_has_its_documented_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
