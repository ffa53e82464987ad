// test_hostfile.c -- the lists of hosts and slots that DeepSpeed's launcher and mpirun read: what a line may hold, and
// the slots that filters leave. cli/deepspeed runs them.
#include "launch/hostfile.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// Reads a file of these bytes; errors name it "hosts".
static status read_hosts(const char *content, hostfile *f, err *e)
{
    FILE *file = fopen("hosts", "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    return hostfile_read("hosts", f, e);
}

static void refuse(const char *content, const char *because)
{
    hostfile f;
    err e = {0};
    assert_int_equal(read_hosts(content, &f, &e), E_USAGE);
    assert_string_equal(e.text, because);
    hostfile_close(&f);
}

static void a_line_is_a_host_and_its_slots(void **state)
{
    (void)state;
    hostfile f;
    err e = {0};
    assert_int_equal(
        read_hosts("# all hosts\n\n a-1.lan slots=1 # one\n\tb\tslots=1024\r\nc slots=3", &f, &e),
        OK);
    assert_int_equal(f.count, 3);
    assert_string_equal(f.hosts[0].name, "a-1.lan");
    assert_string_equal(f.hosts[1].name, "b");
    assert_string_equal(f.hosts[2].name, "c");
    assert_int_equal(hostfile_taken(&f.hosts[0]), 1);
    assert_int_equal(hostfile_taken(&f.hosts[1]), HOSTFILE_SLOTS);
    assert_int_equal(hostfile_taken(&f.hosts[2]), 3);
    assert_false(f.hosts[2].takes[3]);
    hostfile_close(&f);
}

static void other_lines_are_refused_by_their_number(void **state)
{
    (void)state;
    static const char *const LINES[] = {"b",          "b slots=",      "b slots=0", "b slots=1025",
                                        "b slots=-1", "b slots=2 GPU", "b 4",       "b slot=4"};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        char content[64];
        snprintf(content, sizeof content, "a slots=1\n\n%s\n", LINES[i]);
        refuse(content, "hosts: line 3: valid is \"HOST slots=N\", N from 1 to 1024");
    }
    refuse("a slots=1\nb slots=1\na slots=2", "hosts: line 3: host a is there twice");
    refuse("-o slots=2", "hosts: line 1: \"-o\" is no name of a host");
    refuse("# none\n", "hosts: no host; valid are lines \"HOST slots=N\"");
}

static void a_name_has_at_most_255_characters(void **state)
{
    (void)state;
    char name[NET_HOST_BYTES + 1], content[NET_HOST_BYTES + 32];
    hostfile f;
    err e = {0};
    memset(name, 'n', sizeof name);
    name[NET_HOST_BYTES] = 0;
    snprintf(content, sizeof content, "%s slots=2\n", name);
    refuse(content, "hosts: line 1: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\" is no name of a host");
    name[NET_HOST_BYTES - 1] = 0;
    snprintf(content, sizeof content, "%s slots=2\n", name);
    assert_int_equal(read_hosts(content, &f, &e), OK);
    assert_string_equal(f.hosts[0].name, name);
    hostfile_close(&f);
}

static void at_most_4096_hosts_are_read(void **state)
{
    (void)state;
    char *content = malloc((HOSTFILE_HOSTS + 1) * 16);
    size_t bytes = 0;
    hostfile f;
    err e = {0};
    assert_non_null(content);
    for (int i = 0; i < HOSTFILE_HOSTS; i++)
        bytes += (size_t)sprintf(content + bytes, "n%d slots=1\n", i);
    assert_int_equal(read_hosts(content, &f, &e), OK);
    assert_int_equal(f.count, HOSTFILE_HOSTS);
    hostfile_close(&f);
    strcpy(content + bytes, "more slots=1\n");
    refuse(content, "hosts: more than 4096 hosts");
    free(content);
}

// Each filter, and the slots of hosts a and b that it leaves of 2 and 3.
static void filters_leave_the_slots_that_they_name(void **state)
{
    (void)state;
    static const struct {
        bool keeps;
        const char *words;
        int hosts;
        const char *first; // the first host that is left
        int taken;         // its slots
        bool last;         // slot 2 of b
    } cases[] = {{true, "a", 1, "a", 2, false},        {true, "a:1@b", 2, "a", 1, true},
                 {true, "b:0,2", 1, "b", 2, true},     {false, "a", 1, "b", 3, true},
                 {false, "a:0@b:2", 2, "a", 1, false}, {false, "b:0,1", 2, "a", 2, true},
                 {false, "a:0,1", 1, "b", 3, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hostfile f;
        err e = {0};
        assert_int_equal(read_hosts("a slots=2\nb slots=3\n", &f, &e), OK);
        if (cases[i].keeps)
            assert_int_equal(hostfile_include(&f, cases[i].words, &e), OK);
        else
            assert_int_equal(hostfile_exclude(&f, cases[i].words, &e), OK);
        const hostfile_host *last = &f.hosts[f.count - 1];
        assert_int_equal(f.count, cases[i].hosts);
        assert_string_equal(f.hosts[0].name, cases[i].first);
        assert_int_equal(hostfile_taken(&f.hosts[0]), cases[i].taken);
        assert_int_equal(strcmp(last->name, "b") == 0 && last->takes[2], cases[i].last);
        hostfile_close(&f);
    }
}

static void filters_and_numbers_beyond_the_list_are_refused(void **state)
{
    (void)state;
    hostfile f;
    err e = {0};
    assert_int_equal(read_hosts("a slots=2\nb slots=3\n", &f, &e), OK);
    assert_int_equal(hostfile_include(&f, "a@d", &e), E_USAGE);
    assert_string_equal(e.text, "host \"d\" of the filter is not in the list of hosts");
    assert_int_equal(hostfile_include(&f, "b:3", &e), E_USAGE);
    assert_string_equal(e.text, "host b has no slot \"3\"; valid are 0 to 2");
    assert_int_equal(hostfile_keep_first(&f, 3, -1, &e), E_USAGE);
    assert_string_equal(e.text, "--num-nodes: found 3; the list has 2 hosts");
    assert_int_equal(hostfile_keep_first(&f, 0, -1, &e), E_USAGE);
    assert_int_equal(hostfile_keep_first(&f, -1, 3, &e), E_USAGE);
    assert_string_equal(e.text, "--num-gpus: found 3; host a has 2 slots");
    assert_int_equal(hostfile_keep_first(&f, -1, 0, &e), E_USAGE);
    assert_int_equal(hostfile_keep_first(&f, 2, 1, &e), OK);
    assert_int_equal(f.count, 2);
    assert_true(f.hosts[1].takes[0]);
    assert_int_equal(hostfile_taken(&f.hosts[1]), 1);
    assert_int_equal(hostfile_keep_first(&f, 1, -1, &e), OK);
    assert_int_equal(f.count, 1);
    assert_int_equal(hostfile_exclude(&f, "a", &e), E_USAGE);
    assert_string_equal(e.text, "the filter \"a\" leaves no slot");
    hostfile_close(&f);
}

static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/trireme-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    const int failed = chdir("/") || file_remove_tree(*state, NULL) != OK;
    free(*state);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_host_and_its_slots),
        cmocka_unit_test(other_lines_are_refused_by_their_number),
        cmocka_unit_test(a_name_has_at_most_255_characters),
        cmocka_unit_test(at_most_4096_hosts_are_read),
        cmocka_unit_test(filters_leave_the_slots_that_they_name),
        cmocka_unit_test(filters_and_numbers_beyond_the_list_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
