// test_calibrated.c -- a machine file that was written: it is read with the same numbers, and its rates are scaled to other
// numbers of ranks and threads.
#include "planner/calibrated.h"
#include "planner/calibrated_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// Two ranks of one thread on four cores: 10 GFLOP/s and 1 GB/s each.
static void write_file(const char *path)
{
    calibrated_file f = {.host = "here",
                         .cpu = "made up",
                         .version = "0",
                         .date = "today",
                         .ranks = 2,
                         .threads = 1,
                         .cores = 4};
    const comm_point call = {.communicator = "local",
                             .kind = CALL_ALL_REDUCE,
                             .group = {2, 2, 1, 1},
                             .bytes = 1e6,
                             .seconds = 1e-3};
    err e;
    f.does = (calibrated_host){.step_s = 1e-3,
                               .factor = 1.25,
                               .copy_bytes_per_s = 1e9,
                               .read_bytes_per_s = 4e9,
                               .write_bytes_per_s = 2e9};
    f.kernels.memory_bytes_per_s = 1e9;
    f.kernels.product_flops[F32] = 10e9;
    f.kernels.points = f.calls.points = 1;
    f.kernels.point = calloc(1, sizeof *f.kernels.point);
    f.kernels.point[0] = (kernel_point){K_MATMUL, F32, 1, {64, 64, 64}, 0.5};
    f.calls.point = calloc(1, sizeof *f.calls.point);
    f.calls.point[0] = call;
    f.calls.threads = 1;
    assert_int_equal(kernel_rates_fit(&f.kernels, &e), OK);
    if (calibrated_file_write(&f, path, &e) != OK) fail_msg("%s", e.text);
    calibrated_file_clear(&f);
}

static void open_machine(const char *path, int threads, int ranks, planner_machine *m)
{
    err e;
    if (calibrated_open(path, threads, ranks, "local", m, &e) != OK) fail_msg("%s", e.text);
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * expected))
        fail_msg("found %.12g, expected %.12g", found, expected);
}

static double product_seconds(const planner_machine *m)
{
    const kernel_cost k = {
        .kind = K_MATMUL, .type = F32, .form = 1, .flops = 1e9, .size = {64, 64, 64}};
    return m->costs.kernel(m->costs.given, &k).seconds;
}

static void expect_scaled(const char *path, int threads, int ranks, double flops, double memory)
{
    planner_machine m;
    open_machine(path, threads, ranks, &m);
    assert_near(m.peak_flops[F32], flops);
    assert_near(product_seconds(&m), 1e9 / flops / 0.5);
    const planner_claim copy = m.costs.transfer(m.costs.given, TRANSFER_TO_DEVICE, 1e6);
    assert_near(copy.seconds, 2e6 / memory);
    assert_int_equal(m.ranks_per_host, ranks);
    planner_machine_close(&m);
}

static void test_rates(void **state)
{
    const char *path = *state;
    planner_machine m;
    open_machine(path, 1, 2, &m);
    assert_near(m.costs.step_s, 1e-3);
    assert_near(m.costs.factor, 1.25);
    assert_false(m.costs.streams_apart); // local: the thread that computes moves the bytes
    assert_string_equal(m.communicator, "local");
    assert_string_equal(m.name, "here");
    // Two ranks share the disk.
    assert_near(m.costs.transfer(m.costs.given, TRANSFER_READ, 1e9).seconds, 0.5);
    assert_near(m.costs.transfer(m.costs.given, TRANSFER_WRITE, 1e9).seconds, 1);
    assert_non_null(strstr(m.assumptions.chars, "measured today on here (made up, 4 cores)"));
    assert_null(strstr(m.assumptions.chars, "scaled"));
    planner_machine_close(&m);
}

static void test_other_ranks_and_threads(void **state)
{
    const char *path = *state;
    planner_machine m;
    expect_scaled(path, 1, 2, 10e9, 1e9);
    expect_scaled(path, 2, 2, 20e9, 1e9);   // the ranks have the memory that they had
    expect_scaled(path, 1, 4, 10e9, 0.5e9); // four share what two had
    expect_scaled(path, 1, 1, 10e9, 1e9);   // one core takes no more of it
    expect_scaled(path, 1, 8, 5e9, 0.25e9); // two threads on a core
    open_machine(path, 2, 2, &m);
    assert_non_null(strstr(m.assumptions.chars, "scaled to 2 ranks of 2 threads"));
    planner_machine_close(&m);
}

static void test_calls_that_were_not_measured(void **state)
{
    planner_machine m;
    err e;
    assert_int_equal(calibrated_open(*state, 1, 2, "tls", &m, &e), E_USAGE);
    assert_non_null(strstr(e.text, "calls.rows: found none of communicator tls"));
    assert_int_equal(calibrated_open(*state, 1, 1, "solo", &m, &e), OK);
    planner_machine_close(&m);
    assert_int_equal(calibrated_open(*state, 1, 1, "smoke", &m, &e), E_USAGE);
}

static int make_file(void **state)
{
    static char path[] = "/tmp/trireme-calibrated.XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    write_file(path);
    *state = path;
    return 0;
}

static int remove_file(void **state)
{
    return unlink(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_other_ranks_and_threads),
        cmocka_unit_test(test_calls_that_were_not_measured),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
