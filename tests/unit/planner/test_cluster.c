// test_cluster.c -- cluster files: all that ship are read, mistakes are named, and the costs keep what must hold for any
// machine: no kernel is faster than its data sheet, and more work never takes less time.
#include "planner/cluster.h"

#include "base/file.h"

#include <dirent.h>
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

static kernel_cost product(dtype type, double m, double n, double k)
{
    return (kernel_cost){.kind = K_MATMUL,
                         .type = type,
                         .flops = 2 * m * n * k,
                         .bytes = (m * k + k * n + m * n) * (double)dtype_bytes(type),
                         .size = {m, n, k}};
}

static kernel_cost elements(double count)
{
    return (kernel_cost){.kind = K_ADD, .type = BF16, .bytes = 6 * count, .size = {count, 1, 1}};
}

static double seconds(const planner_machine *m, kernel_cost k)
{
    return m->costs.kernel(m->costs.given, &k).seconds;
}

static void check_costs(const planner_machine *m)
{
    const double peak = m->peak_flops[BF16];
    for (double n = 64; n <= 16384; n *= 2) {
        const kernel_cost k = product(BF16, n, 4096, 4096);
        assert_true(seconds(m, k) >= k.flops / peak);
        assert_true(seconds(m, product(BF16, 2 * n, 4096, 4096)) >= seconds(m, k));
        assert_true(seconds(m, elements(2 * n)) > seconds(m, elements(n)));
    }
    const comm_call c = {.kind = CALL_ALL_GATHER, .type = BF16};
    const planner_group one = {1, 1, 1, 8}, host = {2, 2, 1, 1}, far = {2, 1, 2, 1};
    assert_true(m->costs.call(m->costs.given, &one, &c, 1e9).seconds == 0);
    const double near_s = m->costs.call(m->costs.given, &host, &c, 1e9).seconds;
    assert_true(near_s > 0 && isfinite(near_s));
    assert_true(m->costs.call(m->costs.given, &far, &c, 1e9).seconds > near_s);
    assert_true(m->costs.transfer(m->costs.given, TRANSFER_READ, 1e9).seconds > 0);
}

static void test_shipped(void **state)
{
    (void)state;
    int files = 0;
    DIR *d = opendir(TESTS_DIR "/../examples/clusters");
    assert_non_null(d);
    for (struct dirent *f = readdir(d); f; f = readdir(d)) {
        if (!strstr(f->d_name, ".yaml")) continue;
        err e = {0};
        planner_machine m;
        char *path;
        assert_int_equal(file_join(TESTS_DIR "/../examples/clusters", f->d_name, &path, &e), OK);
        if (cluster_open(path, &m, &e) != OK) fail_msg("%s", e.text);
        assert_true(m.ranks_per_host > 0 && m.peak_flops[BF16] > m.peak_flops[F32] / 2);
        assert_true(m.device.free_bytes > 0);
        assert_non_null(strstr(m.assumptions.chars, "source: "));
        check_costs(&m);
        planner_machine_close(&m);
        free(path);
        files++;
    }
    closedir(d);
    assert_true(files >= 10);
}

// Opens a file with this content. The caller closes *m where it succeeds.
static status open_text(const char *content, planner_machine *m, err *e)
{
    char path[] = "cluster-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
    *e = (err){0};
    const status result = cluster_open(path, m, e);
    unlink(path);
    return result;
}

static void refused(const char *content, const char *says)
{
    planner_machine m;
    err e;
    assert_int_equal(open_text(content, &m, &e), E_USAGE);
    if (!strstr(e.text, says)) fail_msg("%s\ndoes not say: %s", e.text, says);
    assert_null(m.name);
}

static void test_mistakes(void **state)
{
    (void)state;
    refused("name: a\ngpu: h100-sxn\n", ":2: gpu: found h100-sxn; valid: a100-40-sxm");
    refused("name: a\ngpu: h100-sxn\n", "did you mean h100-sxm?");
    refused("name: a\ngpu: h200\ngpus_per_nodes: 4\n",
            ":3: unknown key gpus_per_nodes; did you mean gpus_per_node?");
    refused("name: a\ngpu: {base: h200, wats: 500}\n", "did you mean gpu.watts?");
    refused("name: a\ngpu: h200\nnics: {count: none}\n", ":3: nics.count: found none");
    refused("name: a\ngpu: h200\noversubscription: 0.5\n", "valid: a number from 1 to 1000");
    refused("name: a\n", "one of gpu");
    refused("gpu: h200\n", "name: found nothing");
    refused("name: a\ncpu: {memory: 64Gi}\n", "cpu lacks fp32_tflops");
    refused("name: a\ngpu: {watts: 500}\n", "one of gpu");
}

static void test_overrides(void **state)
{
    (void)state;
    planner_machine whole, capped;
    err e;
    assert_int_equal(open_text("name: a\ngpu: h100-sxm\n", &whole, &e), OK);
    assert_int_equal(
        open_text("name: a\ngpu: {memory: 95Gi, watts: 500, base: h100-sxm}\n", &capped, &e), OK);
    assert_true(capped.device.free_bytes > whole.device.free_bytes);
    assert_true(capped.watts < whole.watts);
    assert_true(seconds(&capped, product(BF16, 8192, 8192, 8192)) >
                1.1 * seconds(&whole, product(BF16, 8192, 8192, 8192)));
    assert_true(seconds(&capped, elements(1e8)) == seconds(&whole, elements(1e8)));
    planner_machine_close(&whole);
    planner_machine_close(&capped);
}

// An H100 multiplies large bf16 matrices at 650 to 800 TFLOP/s, and a product with one tile more than a wave of SMs wastes
// most of the next.
static void test_products(void **state)
{
    (void)state;
    planner_machine m;
    err e;
    assert_int_equal(open_text("name: a\ngpu: h100-sxm\n", &m, &e), OK);
    const kernel_cost large = product(BF16, 8192, 8192, 8192);
    const double rate = large.flops / seconds(&m, large);
    assert_true(rate > 650e12 && rate < 800e12);
    const double few = seconds(&m, product(BF16, 128 * 132, 256, 512)),
                 more = seconds(&m, product(BF16, 128 * 133, 256, 512));
    assert_true(more > 1.1 * few);
    planner_machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
