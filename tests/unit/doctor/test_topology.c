// test_topology.c -- topologies that hwloc is given: the tree, the matrix of paths with NVLink, the picture and the JSON of a
// made-up machine with GPUs (tests/golden/topology/gpus.xml), and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/file.h"
#include "doctor/topology/topology.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN TESTS_DIR "/golden/topology/"

static void open_it(const topology_source *from, topology *t)
{
    err e = {.code = OK};
    if (topology_open(from, t, &e) != OK) fail_msg("%s", e.text);
}

// Where the variable is set, the golden file is written instead.
static void expect_golden(const text *found, const char *path)
{
    err e = {.code = OK};
    char *golden = NULL;
    if (getenv("TRIREME_WRITE_GOLDEN")) {
        assert_int_equal(file_replace(path, found->chars, found->bytes, &e), OK);
        return;
    }
    if (file_read(path, &golden, NULL, &e) != OK) fail_msg("%s", e.text);
    assert_string_equal(found->chars, golden);
    free(golden);
}

static void test_synthetic(void **state)
{
    (void)state;
    topology t;
    text out = {0};
    open_it(&(topology_source){.synthetic = "pack:2 [numa(memory=68719476736)] l3:2(size=33554432) "
                                            "l2:4(size=1048576) core:1 pu:2"},
            &t);
    topology_add_text(&out, &t);
    topology_add_matrix(&out, &t);
    assert_string_equal(out.chars,
                        "2 sockets, 2 NUMA nodes, 16 cores, 32 hardware threads\n"
                        "  socket 0\n"
                        "    NUMA node 0, 64 GiB (threads 0-15)\n"
                        "    L3 32 MiB\n"
                        "      4 cores, each: 2 hardware threads, L2 1 MiB (threads 0-7)\n"
                        "    L3 32 MiB\n"
                        "      4 cores, each: 2 hardware threads, L2 1 MiB (threads 8-15)\n"
                        "  socket 1\n"
                        "    NUMA node 1, 64 GiB (threads 16-31)\n"
                        "    L3 32 MiB\n"
                        "      4 cores, each: 2 hardware threads, L2 1 MiB (threads 16-23)\n"
                        "    L3 32 MiB\n"
                        "      4 cores, each: 2 hardware threads, L2 1 MiB (threads 24-31)\n");
    text_clear(&out);
    topology_close(&t);
}

static void test_one_core(void **state)
{
    (void)state;
    topology t;
    text out = {0};
    open_it(&(topology_source){.synthetic = "pack:1 core:1 pu:1"}, &t);
    topology_add_text(&out, &t);
    assert_non_null(strstr(out.chars, "1 core: 1 hardware thread (threads 0)\n"));
    assert_non_null(strstr(out.chars, "1 socket, 1 NUMA node, 1 core, 1 hardware thread\n"));
    text_clear(&out);
    topology_close(&t);
}

static void expect_path(const topology *t, int row, int column, const char *letters)
{
    char found[8];
    topology_path_text(t, row, column, found);
    assert_string_equal(found, letters);
}

static void test_paths(void **state)
{
    (void)state;
    topology t;
    open_it(&(topology_source){.xml = GOLDEN "gpus.xml"}, &t);
    assert_int_equal(t.devices, 6); // the display of the board is no GPU
    expect_path(&t, 0, 0, " X ");
    expect_path(&t, 0, 4, "PIX");  // behind one switch
    expect_path(&t, 2, 3, "PXB");  // behind two
    expect_path(&t, 0, 1, "PHB");  // of one host bridge
    expect_path(&t, 0, 5, "NODE"); // of one NUMA node
    expect_path(&t, 1, 2, "SYS");
    for (int i = 0; i < 36; i++) assert_int_equal(t.path[i], t.path[i % 6 * 6 + i / 6]);
    assert_string_equal(t.device[4].title, "mlx5_0, ib0");
    assert_int_equal(topology_find_gpu(&t, "00000000:9B:00.0"), 2);
    assert_int_equal(topology_find_gpu(&t, "0000:1b:00.0"), 1);
    assert_int_equal(topology_find_gpu(&t, "0000:1c:00.0"), -1);
    assert_int_equal(topology_find_gpu(&t, "1a:00.0"), -1);
    topology_set_nvlinks(&t, 0, 3, 18);
    expect_path(&t, 0, 3, "NV18");
    expect_path(&t, 3, 0, "NV18");
    topology_close(&t);
}

// Text, matrix, picture and JSON of the same machine with NVLink and numbers that were measured.
static void test_golden(void **state)
{
    (void)state;
    topology t;
    text out = {0};
    err e = {.code = OK};
    json_t *json = NULL;
    open_it(&(topology_source){.xml = GOLDEN "gpus.xml"}, &t);
    topology_set_nvlinks(&t, 0, 1, 4);
    topology_set_nvlinks(&t, 2, 3, 4);
    assert_int_equal(text_copy("copies 181.2 GB/s", &t.machine.part[0].part[0].rate, &e), OK);
    text_add(&t.note, "core 0 to core 4: 182 ns one way\ncuda 0 to cuda 1: 88.3 GB/s\n");
    topology_add_text(&out, &t);
    text_add(&out, "\n");
    topology_add_matrix(&out, &t);
    expect_golden(&out, GOLDEN "gpus.txt");
    text_clear(&out);
    assert_int_equal(topology_draw(&out, &t, "node <1> & more", &e), OK);
    expect_golden(&out, GOLDEN "gpus.svg");
    text_clear(&out);
    assert_int_equal(topology_to_json(&t, &json, &e), OK);
    char *chars = json_dumps(json, JSON_INDENT(1));
    text_addf(&out, "%s\n", chars);
    expect_golden(&out, GOLDEN "gpus.json");
    free(chars);
    json_decref(json);
    text_clear(&out);
    topology_close(&t);
}

// NVML says which GPUs are joined: two directly, two by a switch, to which one has fewer links.
static void test_nvlinks(void **state)
{
    (void)state;
    topology t;
    open_it(&(topology_source){.xml = GOLDEN "gpus.xml"}, &t);
    topology_read_nvlinks(&t, NVLINK_STAND_IN);
    expect_path(&t, 0, 1, "NV4");
    expect_path(&t, 2, 3, "NV12");
    expect_path(&t, 0, 2, "SYS");
    expect_path(&t, 0, 4, "PIX");
    topology_close(&t);
    open_it(&(topology_source){.xml = GOLDEN "gpus.xml"}, &t);
    topology_read_nvlinks(&t, "/nosuch/library.so");
    expect_path(&t, 0, 1, "PHB");
    topology_close(&t);
}

static void expect_refused(const topology_source *from, const char *words)
{
    topology t;
    err e = {.code = OK};
    assert_int_equal(topology_open(from, &t, &e), E_USAGE);
    assert_string_equal(e.text, words);
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused(&(topology_source){.xml = "/nosuch.xml"}, "/nosuch.xml: there is no such file");
    expect_refused(&(topology_source){.synthetic = "sockets of four"},
                   "'sockets of four': hwloc does not read it; valid: a description such as "
                   "pack:2 core:4 pu:2");
}

// Rates of interfaces come from /sys below a root.
static void test_speed(void **state)
{
    (void)state;
    topology t;
    text out = {0};
    err e = {.code = OK};
    char root[] = "/tmp/topology.XXXXXX", path[128];
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/sys/class/infiniband/mlx5_0/ports/1", root);
    assert_int_equal(file_make_directories(path, &e), OK);
    snprintf(path, sizeof path, "%s/sys/class/infiniband/mlx5_0/ports/1/rate", root);
    assert_int_equal(file_replace(path, "400 Gb/sec (4X NDR)\n", 20, &e), OK);
    snprintf(path, sizeof path, "%s/sys/class/net/eno1", root);
    assert_int_equal(file_make_directories(path, &e), OK);
    snprintf(path, sizeof path, "%s/sys/class/net/eno1/speed", root);
    assert_int_equal(file_replace(path, "10000\n", 6, &e), OK);
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus/0000:19:00.0", root);
    assert_int_equal(file_make_directories(path, &e), OK);
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus/0000:19:00.0/information", root);
    assert_int_equal(file_replace(path, "Model: \t\t NVIDIA H100\nIRQ: 5\n", 30, &e), OK);
    open_it(&(topology_source){.xml = GOLDEN "gpus.xml", .root = root}, &t);
    topology_add_text(&out, &t);
    assert_non_null(strstr(out.chars, "NIC0 mlx5_0, ib0, 0000:1a:00.0, 400 Gb/s, PCIe"));
    assert_non_null(strstr(out.chars, "NIC1 eno1, 0000:31:00.0, 10 Gb/s, PCIe"));
    assert_non_null(strstr(out.chars, "GPU0 NVIDIA H100, 0000:19:00.0, PCIe"));
    assert_non_null(strstr(out.chars, "GPU1 GH100 [H100 SXM5 80GB], 0000:1b:00.0, PCIe"));
    text_clear(&out);
    topology_close(&t);
    assert_int_equal(file_remove_tree(root, &e), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synthetic), cmocka_unit_test(test_one_core),
        cmocka_unit_test(test_paths),     cmocka_unit_test(test_golden),
        cmocka_unit_test(test_nvlinks),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
