// scratch.h -- what the data tests share: a temporary folder, files in it, and checks of messages.
#ifndef TRIREME_TESTS_DATA_SCRATCH_H
#define TRIREME_TESTS_DATA_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Makes a new folder for a test; scratch_remove removes it.
static inline int scratch_make(void **state)
{
    char name[] = "/tmp/trireme-data-XXXXXX";
    if (!mkdtemp(name)) return -1;
    *state = strdup(name);
    return 0;
}

static inline int scratch_remove(void **state)
{
    err e = {0};
    int failed = file_remove_tree(*state, &e) != OK;
    free(*state);
    return failed;
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

// Returns FOLDER/NAME in a static buffer that the eighth call after this one reuses.
static inline const char *in_folder(void **state, const char *name)
{
    static char path[8][512];
    static int turn;
    char *out = path[turn++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", (const char *)*state, name);
    return out;
}

static inline void put_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static inline void put_text(const char *path, const char *s)
{
    put_file(path, s, strlen(s));
}

static inline int files_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

static inline void assert_says(const err *e, const char *expected)
{
    if (!strstr(e->text, expected))
        fail_msg("the error \"%s\" does not say \"%s\"", e->text, expected);
    if (strchr(e->text, '\n')) fail_msg("the error is more than one line: %s", e->text);
}

#endif
