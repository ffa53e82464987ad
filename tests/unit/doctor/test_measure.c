// test_measure.c -- the checks that measure: with numbers in the place of measured ones, each of them finds its fault and is
// silent without one; and what really measures gives finite numbers on this machine.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor_rig.h"

#include "doctor/measure/measure.h"

#include <math.h>

// Four cores, two nodes, two GPUs, without a fault. Each test changes its own copy.
typedef struct numbers {
    double products[4], bf16[4], bits[4], copies[2], latency[3], back[3], gpu[2], gpu_copies[2],
        sustained[4];
    doctor_measured measured;
} numbers;

static int PLACES[] = {0, 1, 2, 3};

static void make(numbers *n)
{
    *n = (numbers){.products = {100, 101, 100, 100},
                   .bf16 = {200, 200, 200, 200},
                   .copies = {40, 41},
                   .latency = {90, 100, 110},
                   .gpu = {700000, 690000},
                   .gpu_copies = {3000, 2990},
                   .sustained = {1, 0.99, 1.01, 1}};
    n->measured = (doctor_measured){
        .products = {4, PLACES, n->products},
        .products_bf16 = {4, PLACES, n->bf16},
        .bits = {4, PLACES, n->bits},
        .copies = {2, PLACES, n->copies},
        .all_reduce = {.ranks = 4, .rate = 12, .wrong_rank = -1},
        .disk = {.write = 1.2, .read = 2.5, .fsync_ms = 0.8},
        .clock = {.latency = {3, PLACES + 1, n->latency},
                  .back = {3, PLACES + 1, n->back},
                  .drift_ppm = 12},
        .gpu_products = {2, PLACES, n->gpu},
        .gpu_copies = {2, PLACES, n->gpu_copies},
        .memory = {.bytes = 512.0 * 1024 * 1024},
        .sustained = {4, PLACES, n->sustained},
    };
}

static void open_rig(rig *r, numbers *n)
{
    make(n);
    rig_open(r);
    r->context.measured = &n->measured;
    r->context.folder = "/runs/a";
}

static void test_cores(void **state)
{
    (void)state;
    rig r;
    numbers n;
    open_rig(&r, &n);
    rig_expect_passed(&r, "core-matmul-rate");
    n.products[3] = 70;
    rig_expect_found(&r, "core-matmul-rate",
                     "core 3 computes products of fp32 at 70 GFLOP/s, 30 % below the median of 100 "
                     "GFLOP/s");
    n.products[3] = 100;
    n.bf16[1] = 159;
    rig_expect_found(&r, "core-matmul-rate",
                     "core 1 computes products of bf16 at 159 GFLOP/s, 20 % below the median of "
                     "200 GFLOP/s");
    n.bf16[1] = 160; // the limit itself
    rig_expect_passed(&r, "core-matmul-rate");
    n.products[0] = 0; // a core that did nothing does not move the median
    rig_expect_found(&r, "core-matmul-rate",
                     "core 0 computes products of fp32 at 0 GFLOP/s, 100 % below the median of 100 "
                     "GFLOP/s");
    rig_expect_passed(&r, "compute-bits");
    n.bits[2] = 3;
    rig_expect_found(&r, "compute-bits",
                     "core 2 computed 3 products with other bits than most cores");
    rig_expect_passed(&r, "sustained-rate");
    n.sustained[1] = 0.7;
    rig_expect_found(&r, "sustained-rate",
                     "core 1 computes 30 % slower after 60 s of products than at their begin");
    rig_close(&r);
}

static void test_memory(void **state)
{
    (void)state;
    rig r;
    numbers n;
    open_rig(&r, &n);
    rig_expect_passed(&r, "memory-bandwidth");
    n.copies[1] = 20;
    rig_expect_found(&r, "memory-bandwidth",
                     "NUMA node 1 copies 20 GB/s; it should be at least 24 GB/s");
    rig_expect_passed(&r, "memory-pattern");
    n.measured.memory.wrong = 2;
    rig_expect_found(&r, "memory-pattern",
                     "2 words of 64 bits of 512.00 MiB were read with another value than was "
                     "written");
    rig_close(&r);
}

static void test_clocks(void **state)
{
    (void)state;
    rig r;
    numbers n;
    open_rig(&r, &n);
    rig_expect_passed(&r, "clock-order");
    n.back[2] = 412;
    rig_expect_found(&r, "clock-order",
                     "The clock of core 3 is 412 ns behind that of the first core");
    n.measured.clock.back.count = n.measured.clock.latency.count = 0;
    rig_expect_skipped(&r, "clock-order", "this process may use one core only");
    rig_expect_passed(&r, "clock-drift");
    n.measured.clock.drift_ppm = -1500;
    rig_expect_found(&r, "clock-drift",
                     "The clock is corrected by -1500 parts per million; a sound one needs at most "
                     "600");
    rig_close(&r);
}

static void test_ranks(void **state)
{
    (void)state;
    rig r;
    numbers n;
    open_rig(&r, &n);
    rig_expect_passed(&r, "all-reduce-result");
    n.measured.all_reduce.wrong_rank = 2;
    n.measured.all_reduce.wrong = 17;
    rig_expect_found(&r, "all-reduce-result", "rank 2 received 17 wrong sums from an all-reduce");
    rig_expect_passed(&r, "all-reduce-rate");
    n.measured.all_reduce.rate = 0.05;
    rig_expect_found(&r, "all-reduce-rate",
                     "An all-reduce of 4 ranks reaches 0.05 GB/s; it should be at least 0.1 GB/s");
    rig_close(&r);
}

static void test_disk(void **state)
{
    (void)state;
    rig r;
    numbers n;
    open_rig(&r, &n);
    rig_expect_passed(&r, "disk-write-rate");
    n.measured.disk.write = 0.01;
    rig_expect_found(&r, "disk-write-rate",
                     "/runs/a takes 0.01 GB/s with an fsync; it should be at least 0.05 GB/s");
    rig_expect_passed(&r, "disk-read-rate");
    n.measured.disk.read = 0.02;
    rig_expect_found(&r, "disk-read-rate",
                     "/runs/a gives 0.02 GB/s; it should be at least 0.05 GB/s");
    rig_expect_passed(&r, "fsync-cost");
    n.measured.disk.fsync_ms = 340;
    rig_expect_found(&r, "fsync-cost",
                     "An fsync in /runs/a takes 340 ms; it should take at most 100 ms");
    r.context.measured = NULL; // it measures, and cannot
    r.context.folder = "/nosuch/folder";
    rig_expect_blind(&r, "fsync-cost",
                     "/nosuch/folder: cannot write there: No such file or directory");
    rig_close(&r);
}

static void test_gpus(void **state)
{
    (void)state;
    rig r;
    numbers n;
    open_rig(&r, &n);
    rig_expect_passed(&r, "gpu-matmul-rate");
    n.gpu[1] = 600000;
    rig_expect_found(&r, "gpu-matmul-rate",
                     "GPU 1 computes products of bf16 at 600 TFLOP/s; it should be at least 618 "
                     "TFLOP/s");
    rig_expect_passed(&r, "gpu-copy-rate");
    n.gpu_copies[0] = 2000;
    rig_expect_found(&r, "gpu-copy-rate",
                     "GPU 0 copies 2000 GB/s, 20 % below the median of 2495 GB/s");
    n.measured.gpu_products.count = n.measured.gpu_copies.count = 0;
    rig_expect_skipped(&r, "gpu-matmul-rate", "there is no GPU that Trireme can use");
    rig_expect_skipped(&r, "gpu-copy-rate", "there is no GPU that Trireme can use");
    rig_close(&r);
}

// The numbers that a machine's file gives stand in the place of the built-in ones.
static void test_thresholds(void **state)
{
    (void)state;
    rig r;
    numbers n;
    err e = {.code = OK};
    open_rig(&r, &n);
    doctor_machine *m = NULL;
    rig_write(&r, "/etc/machine.yaml",
              "name: a fast one\nthresholds: {copy_gb_per_s: 40.5, matmul_bf16_tflops: 720, "
              "fsync_ms: 0.5}\n");
    char *path = rig_full(&r, "/etc/machine.yaml");
    rig_must(doctor_machine_open(path, &m, &e), &e);
    r.context.machine = m;
    rig_expect_found(&r, "memory-bandwidth",
                     "NUMA node 0 copies 40 GB/s; it should be at least 40.5 GB/s");
    rig_expect_found(&r, "fsync-cost",
                     "An fsync in /runs/a takes 0.8 ms; it should take at most 0.5 ms");
    rig_expect_found_among(&r, "gpu-matmul-rate", 1, 2,
                           "GPU 1 computes products of bf16 at 690 TFLOP/s; it should be at least "
                           "720 TFLOP/s");
    doctor_machine_close(m);
    free(path);
    rig_close(&r);
}

// ---- What really measures

static void expect_positive(const measured_list *l)
{
    for (int i = 0; i < l->count; i++) assert_true(isfinite(l->value[i]) && l->value[i] > 0);
}

static void test_real(void **state)
{
    (void)state;
    rig r;
    err e = {.code = OK};
    doctor_measured m = {0};
    rig_open(&r);
    char *folder = rig_full(&r, "/tmp");
    const doctor_context c = {.root = "", .environment = r.variable, .folder = folder, .ranks = 3};
    rig_must(measure_products(&c, &m, &e), &e);
    assert_true(m.products.count >= 1);
    expect_positive(&m.products);
    expect_positive(&m.products_bf16);
    rig_must(measure_bits(&c, &m, &e), &e);
    assert_int_equal(m.bits.count, m.products.count);
    for (int i = 0; i < m.bits.count; i++) assert_true(m.bits.value[i] == 0);
    rig_must(measure_copies(&c, &m, &e), &e);
    assert_true(m.copies.count >= 1);
    expect_positive(&m.copies);
    rig_must(measure_clock_order(&c, &m, &e), &e);
    for (int i = 0; i < m.clock.back.count; i++) assert_true(m.clock.back.value[i] >= 0);
    rig_must(measure_clock_drift(&c, &m, &e), &e);
    assert_true(isfinite(m.clock.drift_ppm));
    rig_must(measure_all_reduce(&c, &m, &e), &e);
    assert_int_equal(m.all_reduce.ranks, 3);
    assert_int_equal(m.all_reduce.wrong_rank, -1);
    assert_true(isfinite(m.all_reduce.rate) && m.all_reduce.rate > 0);
    double link = 0;
    rig_must(measure_link("cpu", 0, 0, &link, &e), &e);
    assert_true(isfinite(link) && link > 0);
    doctor_measured_clear(&m);
    free(folder);
    rig_close(&r);
}

static void test_real_disk(void **state)
{
    (void)state;
    rig r;
    err e = {.code = OK};
    doctor_measured m = {0};
    rig_open(&r);
    char *folder = rig_full(&r, "/tmp");
    const doctor_context c = {.root = "", .environment = r.variable, .folder = folder};
    rig_must(measure_disk_write(&c, &m, &e), &e);
    rig_must(measure_fsync(&c, &m, &e), &e);
    rig_must(measure_disk_read(&c, &m, &e), &e);
    assert_true(m.disk.write > 0 && m.disk.read > 0 && m.disk.fsync_ms > 0);
    char **names = NULL;
    int left = 0;
    rig_must(doctor_names(&r.context, "/tmp", &names, &left, &e), &e);
    assert_int_equal(left, 0); // no file stays behind
    doctor_names_free(names, left);
    free(folder);
    rig_close(&r);
}

static void test_real_stress(void **state)
{
    (void)state;
    rig r;
    err e = {.code = OK};
    doctor_measured m = {0};
    doctor_machine *machine = NULL;
    rig_open(&r);
    rig_write(&r, "/etc/machine.yaml",
              "name: short\nthresholds: {stress_seconds: 0.3, stress_memory_mib: 8}\n");
    char *path = rig_full(&r, "/etc/machine.yaml");
    rig_must(doctor_machine_open(path, &machine, &e), &e);
    const doctor_context c = {.root = "", .environment = r.variable, .machine = machine};
    rig_must(measure_memory(&c, &m, &e), &e);
    assert_true(m.memory.bytes > 7e6 && m.memory.bytes <= 8.0 * 1024 * 1024);
    assert_true(m.memory.wrong == 0);
    rig_must(measure_sustained(&c, &m, &e), &e);
    expect_positive(&m.sustained);
    doctor_measured_clear(&m);
    doctor_machine_close(machine);
    free(path);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cores),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_clocks),     cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_disk),       cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_thresholds), cmocka_unit_test(test_real),
        cmocka_unit_test(test_real_disk),  cmocka_unit_test(test_real_stress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
