// test_save_copy.c -- bytes that are copied for a thread land where they belong, those beyond the space are written at
// once, and a failed write is told when the thread is waited for.
#include "train/save/save_copy.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int make_file(char path[64])
{
    strcpy(path, "/tmp/trireme-save-copy.XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    return fd;
}

static void expect_content(const char *path, const char *want)
{
    char have[64] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    have[fread(have, 1, sizeof have - 1, f)] = 0;
    fclose(f);
    assert_string_equal(have, want);
}

static void pieces_land_where_they_belong(void **state)
{
    (void)state;
    char space[8], path[2][64];
    save_copy *c = NULL;
    err e = {0};
    int file[2];
    assert_int_equal(save_copy_open(space, sizeof space, &c, &e), OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(save_copy_add_file(c, make_file(path[i]), path[i], &file[i], &e), OK);
    assert_int_equal(save_copy_put(c, file[0], "ab", 2, 0, &e), OK);
    assert_int_equal(save_copy_put(c, file[0], "cd", 2, 2, &e), OK); // joins the one before
    assert_int_equal(save_copy_put(c, file[1], "xy", 2, 0, &e), OK);
    assert_int_equal(save_copy_put(c, file[0], "gh", 2, 6, &e), OK);
    expect_content(path[0], "");
    assert_int_equal(save_copy_put(c, file[1], "z", 1, 2, &e), OK); // the space is full
    assert_int_equal(save_copy_put(c, file[0], "ef", 2, 4, &e), OK);
    assert_int_equal(save_copy_start(c, &e), OK);
    assert_int_equal(save_copy_wait(c, &e), OK);
    assert_true(save_copy_ended(c));
    expect_content(path[0], "abcdefgh");
    expect_content(path[1], "xyz");
    save_copy_close(c);
    for (int i = 0; i < 2; i++) unlink(path[i]);
}

static void a_failed_write_is_told(void **state)
{
    (void)state;
    char space[8], path[64];
    save_copy *c = NULL;
    err e = {0};
    int file;
    close(make_file(path));
    const int fd = open(path, O_RDONLY);
    assert_int_equal(save_copy_open(space, sizeof space, &c, &e), OK);
    assert_int_equal(save_copy_add_file(c, fd, path, &file, &e), OK);
    assert_int_equal(save_copy_put(c, file, "ab", 2, 0, &e), OK);
    assert_int_equal(save_copy_start(c, &e), OK);
    assert_int_equal(save_copy_wait(c, &e), E_IO);
    assert_non_null(strstr(e.text, path));
    save_copy_close(c);
    unlink(path);
}

static void a_copy_that_was_never_started_writes_nothing(void **state)
{
    (void)state;
    char space[8], path[64];
    save_copy *c = NULL;
    err e = {0};
    int file;
    assert_int_equal(save_copy_open(space, sizeof space, &c, &e), OK);
    assert_int_equal(save_copy_add_file(c, make_file(path), path, &file, &e), OK);
    assert_int_equal(save_copy_put(c, file, "ab", 2, 0, &e), OK);
    save_copy_close(c);
    expect_content(path, "");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_land_where_they_belong),
        cmocka_unit_test(a_failed_write_is_told),
        cmocka_unit_test(a_copy_that_was_never_started_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
