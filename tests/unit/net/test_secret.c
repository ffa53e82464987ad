// test_secret.c -- the secret of a meeting: that of the user, which all processes of this user read and nobody else, that of
// a file, and an address of the network, which needs one.
#include "base/file.h"
#include "net/user_secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROCESSES = 16, OTHER_USER = 65534 };

static char scratch[64], folder[96], file[128];

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/trireme-secret-XXXXXX");
    if (!mkdtemp(scratch)) return -1;
    snprintf(folder, sizeof folder, "%s/own", scratch);
    snprintf(file, sizeof file, "%s/secret", folder);
    unsetenv("TRIREME_SECRET_FILE");
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    return file_remove_tree(scratch, NULL) == OK ? 0 : -1;
}

static net_secret read_folder(void)
{
    net_secret s;
    err e;
    if (net_secret_in_folder(folder, &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

static void test_processes_of_a_user_have_one_secret(void **state)
{
    (void)state;
    struct stat info;
    net_secret *read = mmap(NULL, PROCESSES * sizeof *read, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(read != MAP_FAILED);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) _exit(net_secret_in_folder(folder, &read[i], NULL) == OK ? 0 : 1);
    for (int i = 0, how = 0; i < PROCESSES; i++) {
        assert_true(wait(&how) > 0);
        assert_int_equal(how, 0);
    }
    const net_secret zeros = {.key = {0}}, now = read_folder();
    assert_memory_not_equal(&now, &zeros, sizeof zeros);
    for (int i = 0; i < PROCESSES; i++) assert_memory_equal(&read[i], &now, sizeof now);
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    munmap(read, PROCESSES * sizeof *read);
}

static void expect_refused(const char *text)
{
    net_secret s;
    err e;
    assert_int_equal(net_secret_in_folder(folder, &s, &e), E_IO);
    if (!strstr(e.text, text)) fail_msg("it says: %s", e.text);
}

static void test_what_others_may_use_is_refused(void **state)
{
    (void)state;
    (void)read_folder();
    assert_int_equal(chmod(file, 0640), 0);
    expect_refused("/own/secret belongs to user");
    assert_int_equal(chmod(file, 0600), 0);
    assert_int_equal(chmod(folder, 0750), 0);
    expect_refused("/own belongs to user");
    expect_refused("has mode 750; valid: this user's");
    assert_int_equal(chmod(folder, 0700), 0);
    (void)read_folder();
}

static void test_links_are_not_followed(void **state)
{
    (void)state;
    char other[96];
    const net_secret before = read_folder();
    snprintf(other, sizeof other, "%s/other", scratch);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(symlink(other, folder), 0);
    expect_refused("/own: ");
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    char target[128];
    snprintf(target, sizeof target, "%s/secret", other);
    assert_int_equal(symlink(target, file), 0);
    expect_refused("/own/secret: ");
    assert_int_equal(unlink(file), 0);
    const net_secret now = read_folder();
    assert_memory_not_equal(&now, &before, sizeof now);
}

static void test_the_folder_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) skip(); // only root can give a folder away
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chown(folder, OTHER_USER, OTHER_USER), 0);
    expect_refused(
        "/own belongs to user 65534 and has mode 700; valid: this user's (0), for itself only");
}

static net_secret find(const char *given, const char *host)
{
    net_secret s;
    net_address a;
    err e;
    assert_int_equal(net_address_resolve(host, 29500, &a, &e), OK);
    if (net_secret_find(given, &a, "a store", &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

static void expect_none(const char *given, const char *host, const char *text)
{
    net_secret s;
    net_address a;
    err e;
    assert_int_equal(net_address_resolve(host, 29500, &a, &e), OK);
    assert_int_equal(net_secret_find(given, &a, "a store", &s, &e), E_USAGE);
    if (!strstr(e.text, text)) fail_msg("it says: %s", e.text);
}

static void test_a_meeting_finds_its_secret(void **state)
{
    (void)state;
    net_secret own, of_file;
    char path[96];
    snprintf(path, sizeof path, "%s/file", scratch);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("a secret of sufficient length\n", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(net_secret_of_user(&own, NULL), OK);
    net_secret found = find(NULL, "127.0.0.1");
    assert_memory_equal(&found, &own, sizeof own);
    found = find("", "::1");
    assert_memory_equal(&found, &own, sizeof own);
    expect_none(NULL, "192.0.2.1",
                "a store on 192.0.2.1:29500, which other hosts reach, needs a secret");
    expect_none(NULL, "0.0.0.0", "which other hosts reach, needs a secret; valid: --secret-file");
    assert_int_equal(net_secret_read(path, &of_file, NULL), OK);
    found = find(path, "0.0.0.0");
    assert_memory_equal(&found, &of_file, sizeof own);
    assert_int_equal(setenv("TRIREME_SECRET_FILE", path, 1), 0);
    found = find(NULL, "127.0.0.1");
    assert_memory_equal(&found, &of_file, sizeof own);
    assert_int_equal(chmod(path, 0644), 0);
    expect_none(NULL, "127.0.0.1", "others may use it");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)
    const struct CMUnitTest tests[] = {
        CASE(test_processes_of_a_user_have_one_secret),
        CASE(test_what_others_may_use_is_refused),
        CASE(test_links_are_not_followed),
        CASE(test_the_folder_of_another_user_is_refused),
        CASE(test_a_meeting_finds_its_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
