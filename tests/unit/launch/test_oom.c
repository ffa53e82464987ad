// Tests that a process which the kernel killed for lack of memory is told from others, on folders that look like /proc
// and /sys of a machine.
#include "launch/oom.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char root[] = "/tmp/test_oom.XXXXXX";

static void write_file(const char *path, const char *content)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    char *name = strrchr(full, '/');
    *name = 0;
    assert_int_equal(file_make_directories(full, NULL), OK);
    *name = '/';
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_oom.XXXXXX");
    return mkdtemp(root) ? 0 : 1;
}

static int remove_root(void **state)
{
    (void)state;
    return file_remove_tree(root, NULL) == OK ? 0 : 1;
}

static void assert_says(oom_count before, const char *part)
{
    const char *line = oom_explain(before, root);
    if (!line || !strstr(line, part)) fail_msg("%s, not: %s", line ? line : "nothing", part);
}

// The counter of a group, at `path`, whose files may lie under it or, in a container, at the root of the mount.
static void check_group(const char *groups, const char *own, const char *file)
{
    char path[128];
    write_file("proc/self/cgroup", groups);
    write_file("proc/vmstat", "nr_free_pages 12\noom_kill 7\nnuma_hit 0\n");
    snprintf(path, sizeof path, "%s/%s", own, file);
    write_file(path, "low 0\noom 4\noom_kill 2\noom_group_kill 9\n");
    const oom_count before = oom_read(root);
    assert_int_equal(before.group, 2);
    assert_int_equal(before.machine, 7);
    assert_null(oom_explain(before, root));
    // A process of another group
    write_file("proc/vmstat", "nr_free_pages 12\noom_kill 8\nnuma_hit 0\n");
    assert_null(oom_explain(before, root));
    write_file(path, "low 0\noom 5\noom_kill 3\noom_group_kill 9\n");
    assert_says(before, "the memory limit of its control group was reached");
}

static void the_group_of_version_2_counts(void **state)
{
    (void)state;
    check_group("0::/pod/one\n", "sys/fs/cgroup/pod/one", "memory.events");
}

static void the_group_of_version_1_counts(void **state)
{
    (void)state;
    check_group("5:cpu:/other\n4:memory:/pod/one\n0::/\n", "sys/fs/cgroup/memory/pod/one",
                "memory.oom_control");
}

static void in_a_container_the_files_are_at_the_root(void **state)
{
    (void)state;
    check_group("0::/not/visible\n", "sys/fs/cgroup", "memory.events");
}

static void without_a_group_the_machine_counts(void **state)
{
    (void)state;
    const oom_count none = oom_read(root); // no file at all
    assert_null(oom_explain(none, root));
    write_file("proc/vmstat", "oom_kill 7\n");
    const oom_count before = oom_read(root);
    assert_null(oom_explain(before, root));
    write_file("proc/vmstat", "oom_kill 8\n");
    assert_says(before, "the machine had no memory left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_group_of_version_2_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_group_of_version_1_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(in_a_container_the_files_are_at_the_root, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(without_a_group_the_machine_counts, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
