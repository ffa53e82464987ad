// Tests of the choice of cores, on a folder that looks like /sys of a machine with two sockets of two NUMA nodes each. A
// node has two physical cores with two threads each: n and n + 8. Two nodes of a socket share no cache; the cores of
// a node share none either, except in node 0.
#include "launch/binding.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CORES = 16, HALF = 8 };

static char root[] = "/tmp/test_binding.XXXXXX";

static void write_file(const char *folder, const char *name, const char *format, ...)
{
    char path[256], file[320];
    err e = {.code = OK};
    va_list args;
    snprintf(path, sizeof path, "%s/sys/devices/system/%s", root, folder);
    if (file_make_directories(path, &e) != OK) fail_msg("%s", e.text);
    snprintf(file, sizeof file, "%s/%s", path, name);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

static int make_machine(void **state)
{
    (void)state;
    if (!mkdtemp(root)) return 1;
    for (int n = 0; n < 4; n++) {
        char folder[64];
        snprintf(folder, sizeof folder, "node/node%d", n);
        write_file(folder, "cpulist", "%d-%d,%d-%d\n", 2 * n, 2 * n + 1, 2 * n + HALF,
                   2 * n + 1 + HALF);
    }
    write_file("node/node4", "cpulist", "\n"); // memory only
    for (int c = 0; c < CORES; c++) {
        char folder[64];
        const int core = c % HALF, socket = core / 4 * 4;
        snprintf(folder, sizeof folder, "cpu/cpu%d/topology", c);
        write_file(folder, "thread_siblings_list", "%d,%d\n", core, core + HALF);
        write_file(folder, "core_siblings_list", "%d-%d,%d-%d\n", socket, socket + 3, socket + HALF,
                   socket + 3 + HALF);
        snprintf(folder, sizeof folder, "cpu/cpu%d/cache/index2", c);
        write_file(folder, "shared_cpu_list", "%d,%d\n", core, core + HALF);
        if (core >= 2) continue;
        snprintf(folder, sizeof folder, "cpu/cpu%d/cache/index3", c);
        write_file(folder, "shared_cpu_list", "0-1,8-9\n");
    }
    return 0;
}

static int remove_machine(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

// The first `cores` cores.
static binding_cores first_cores(int cores)
{
    binding_cores c = {{0}};
    c.bits[0] = (UINT64_C(1) << cores) - 1;
    return c;
}

static void expect_sets(const binding *b, int usable, int workers, const uint64_t *sets)
{
    binding_cores out[16];
    err e = {.code = OK};
    const binding_cores may = first_cores(usable);
    if (binding_choose(b, root, &may, workers, out, &e) != OK) fail_msg("%s", e.text);
    for (int w = 0; w < workers; w++) {
        assert_int_equal(out[w].bits[0], sets[w]);
        assert_int_equal(binding_count(&out[w]), __builtin_popcountll(sets[w]));
    }
}

#define SETS (const uint64_t[])

static void test_workers_are_divided_among_nodes(void **state)
{
    (void)state;
    const binding node = {.kind = BINDING_NODE};
    expect_sets(&node, CORES, 1, SETS{0x0303});
    expect_sets(&node, CORES, 2, SETS{0x0303, 0x3030});
    expect_sets(&node, CORES, 4, SETS{0x0303, 0x0c0c, 0x3030, 0xc0c0});
    expect_sets(&node, CORES, 6, SETS{0x0303, 0x0303, 0x0c0c, 0x3030, 0x3030, 0xc0c0});
    expect_sets(&node, 4, 2, SETS{0x0003, 0x000c}); // of a process that may use four cores
}

static void test_a_socket_has_the_cores_of_its_nodes(void **state)
{
    (void)state;
    expect_sets(&(binding){.kind = BINDING_SOCKET}, CORES, 4, SETS{0x0f0f, 0x0f0f, 0xf0f0, 0xf0f0});
}

static void test_exclusive_shares_have_whole_cores(void **state)
{
    (void)state;
    const binding exclusive = {.kind = BINDING_EXCLUSIVE};
    binding_cores out[16];
    err e = {.code = OK};
    const binding_cores may = first_cores(CORES);
    expect_sets(&exclusive, CORES, 4, SETS{0x0303, 0x0c0c, 0x3030, 0xc0c0});
    expect_sets(&exclusive, CORES, 8,
                SETS{0x0101, 0x0202, 0x0404, 0x0808, 0x1010, 0x2020, 0x4040, 0x8080});
    assert_int_equal(binding_choose(&exclusive, root, &may, 9, out, &e), E_USAGE);
    assert_string_equal(e.text, "--numa-binding exclusive: found 3 workers on a NUMA node with 2 "
                                "cores; valid are at most that many");
}

static void test_a_core_complex_is_what_shares_the_last_cache(void **state)
{
    (void)state;
    expect_sets(&(binding){.kind = BINDING_CORE_COMPLEX}, CORES, 8,
                SETS{0x0303, 0x0303, 0x0404, 0x0808, 0x1010, 0x2020, 0x4040, 0x8080});
}

static void test_a_list_is_shared_out(void **state)
{
    (void)state;
    expect_sets(&(binding){.kind = BINDING_LIST}, CORES, 2, SETS{0x000f, 0x00f0});
    expect_sets(&(binding){.kind = BINDING_LIST}, CORES, 3, SETS{0x0003, 0x000c, 0x0030});
    expect_sets(&(binding){.kind = BINDING_LIST, .list = "1-3,8,10"}, CORES, 2,
                SETS{0x0006, 0x0108});
    static const struct {
        const char *list;
        int workers;
        const char *line;
    } REFUSED[] = {
        {"1-", 1, "--bind-core-list: found 1-; valid are cores and ranges, such as 0-3,8"},
        {"3-1", 1, "--bind-core-list: found 3-1; valid are cores and ranges, such as 0-3,8"},
        {"9999", 1, "--bind-core-list: found 9999; valid are cores and ranges, such as 0-3,8"},
        {"0,16", 1, "--bind-core-list: core 16 is not one that this process may use"},
        {"0-1", 3, "--bind-cores-to-rank: found 2 cores for 3 workers; valid is one for each"},
    };
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const binding b = {.kind = BINDING_LIST, .list = REFUSED[i].list};
        const binding_cores may = first_cores(CORES);
        binding_cores out[4];
        err e = {.code = OK};
        assert_int_equal(binding_choose(&b, root, &may, REFUSED[i].workers, out, &e), E_USAGE);
        assert_string_equal(e.text, REFUSED[i].line);
    }
}

static void test_a_machine_that_names_no_nodes_is_one(void **state)
{
    (void)state;
    const binding_cores may = first_cores(3);
    binding_cores out[2], usable;
    err e = {.code = OK};
    assert_int_equal(binding_choose(&(binding){.kind = BINDING_NODE}, "/nowhere", &may, 2, out, &e),
                     OK);
    assert_int_equal(out[0].bits[0], 7);
    assert_int_equal(out[1].bits[0], 7);
    assert_int_equal(binding_usable(&usable, &e), OK);
    assert_true(binding_count(&usable) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_are_divided_among_nodes),
        cmocka_unit_test(test_a_socket_has_the_cores_of_its_nodes),
        cmocka_unit_test(test_exclusive_shares_have_whole_cores),
        cmocka_unit_test(test_a_core_complex_is_what_shares_the_last_cache),
        cmocka_unit_test(test_a_list_is_shared_out),
        cmocka_unit_test(test_a_machine_that_names_no_nodes_is_one),
    };
    return cmocka_run_group_tests(tests, make_machine, remove_machine);
}
