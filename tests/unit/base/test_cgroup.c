// Tests of the memory that control groups leave, on folders that look like /proc and /sys of a machine.
#include "base/cgroup.h"

#include "base/file.h"
#include "base/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static char root[] = "/tmp/test_cgroup.XXXXXX";

static void write_file(const char *path, const char *content)
{
    char full[256];
    err e = {.code = OK};
    snprintf(full, sizeof full, "%s/%s", root, path);
    char *name = strrchr(full, '/');
    *name = 0;
    if (file_make_directories(full, &e) != OK) fail_msg("%s", e.text);
    *name = '/';
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

static void write_bytes(const char *path, uint64_t mib)
{
    char number[32];
    snprintf(number, sizeof number, "%llu\n", (unsigned long long)(mib * MIB));
    write_file(path, number);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_cgroup.XXXXXX");
    return mkdtemp(root) ? 0 : 1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void a_process_without_limits_has_all_memory(void **state)
{
    (void)state;
    assert_true(cgroup_memory_left(root) == UINT64_MAX); // a machine without control groups
    write_file("proc/self/cgroup", "0::/user/session\n");
    write_file("sys/fs/cgroup/user/session/memory.max", "max\n");
    write_file("sys/fs/cgroup/user/session/memory.high", "max\n");
    write_bytes("sys/fs/cgroup/user/session/memory.current", 10);
    assert_true(cgroup_memory_left(root) == UINT64_MAX);
}

static void the_smallest_limit_of_version_2_counts_and_files_in_memory_do_not(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/pod/container\n");
    write_bytes("sys/fs/cgroup/pod/container/memory.max", 1000);
    write_bytes("sys/fs/cgroup/pod/container/memory.current", 300);
    assert_int_equal(cgroup_memory_left(root) / MIB, 700);
    write_file("sys/fs/cgroup/pod/container/memory.stat",
               "anon 1048576\nfile 9\ninactive_file 104857600\nactive_file 52428800\nslab 7\n");
    assert_int_equal(cgroup_memory_left(root) / MIB, 850);
    write_bytes("sys/fs/cgroup/pod/container/memory.high", 400);
    assert_int_equal(cgroup_memory_left(root) / MIB, 250);
    // The pod has other containers.
    write_bytes("sys/fs/cgroup/pod/memory.max", 2000);
    write_bytes("sys/fs/cgroup/pod/memory.current", 1990);
    assert_int_equal(cgroup_memory_left(root) / MIB, 10);
    write_bytes("sys/fs/cgroup/pod/memory.current", 2001);
    assert_int_equal(cgroup_memory_left(root), 0);
}

static void limits_of_version_1_are_read_also_at_the_root_of_a_container(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "5:cpu:/\n4:memory:/docker/0123\n0::/\n");
    write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_bytes("sys/fs/cgroup/memory/memory.usage_in_bytes", 5);
    assert_true(cgroup_memory_left(root) > UINT64_C(1) << 62);
    write_bytes("sys/fs/cgroup/memory/memory.limit_in_bytes", 512);
    write_bytes("sys/fs/cgroup/memory/memory.usage_in_bytes", 112);
    write_file(
        "sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 0\n");
    assert_int_equal(cgroup_memory_left(root) / MIB, 401);
    write_bytes("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", 64);
    write_bytes("sys/fs/cgroup/memory/docker/0123/memory.usage_in_bytes", 4);
    assert_int_equal(cgroup_memory_left(root) / MIB, 60);
}

static void this_machine_leaves_no_more_than_it_has(void **state)
{
    (void)state;
    const uint64_t all = proc_bytes("/proc/meminfo", "MemTotal:");
    assert_true(all > 0);
    assert_in_range(proc_available_bytes(), 0, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_without_limits_has_all_memory, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(
            the_smallest_limit_of_version_2_counts_and_files_in_memory_do_not, make_root,
            remove_root),
        cmocka_unit_test_setup_teardown(
            limits_of_version_1_are_read_also_at_the_root_of_a_container, make_root, remove_root),
        cmocka_unit_test(this_machine_leaves_no_more_than_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
