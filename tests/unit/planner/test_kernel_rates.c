// test_kernel_rates.c -- curves through made-up points: exact at the points, lines between them, never faster than the
// roofline beyond them; what has no points takes those of the nearest kernel; a file gives back what was written.
#include "planner/kernel_rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 64 };

// 1 GB/s of memory, 10 GFLOP/s of products in fp32, 40 in bf16.
static kernel_rates rates_of(const kernel_point *point, size_t points)
{
    kernel_rates r = {.memory_bytes_per_s = 1e9, .cache_bytes = 1e6, .points = points};
    err e;
    r.product_flops[F32] = 10e9, r.product_flops[BF16] = 40e9;
    r.point = calloc(points, sizeof *r.point);
    for (size_t i = 0; i < points; i++) r.point[i] = point[i];
    if (kernel_rates_fit(&r, &e) != OK) fail_msg("%s", e.text);
    return r;
}

static kernel_cost product(dtype type, int form, double m, double n, double k)
{
    return (kernel_cost){.kind = K_MATMUL,
                         .type = type,
                         .form = form,
                         .flops = 2 * m * n * k,
                         .bytes = 4 * (m * k + k * n + m * n),
                         .size = {m, n, k}};
}

static kernel_cost elements(kernel_kind kind, double count)
{
    return (kernel_cost){.kind = kind, .type = F32, .bytes = 4 * count, .size = {count, 1, 1}};
}

static void expect_seconds(const kernel_rates *r, kernel_cost k, double expected)
{
    const double found = kernel_rates_claim(r, &k).seconds;
    if (!(fabs(found - expected) <= 1e-9 * expected))
        fail_msg("%s: %.12g seconds, expected %.12g", kernel_name(k.kind), found, expected);
}

static void test_lines_between_points_of_one_size(void **state)
{
    (void)state;
    const kernel_point points[] = {{K_ADD, F32, 0, {1e6, 1, 1}, 0.5},
                                   {K_ADD, F32, 0, {1e4, 1, 1}, 2},
                                   {K_ADD, F32, 0, {1e8, 1, 1}, 0.8}};
    kernel_rates r = rates_of(points, 3);
    expect_seconds(&r, elements(K_ADD, 1e4), 4e4 / 1e9 / 2);
    expect_seconds(&r, elements(K_ADD, 1e6), 4e6 / 1e9 / 0.5);
    expect_seconds(&r, elements(K_ADD, 1e8), 4e8 / 1e9 / 0.8);
    // Halfway in the logarithm: the mean of the times per element.
    expect_seconds(&r, elements(K_ADD, 1e5), 4e5 / 1e9 * (1 / 2. + 1 / 0.5) / 2);
    expect_seconds(&r, elements(K_ADD, 1e7), 4e7 / 1e9 * (1 / 0.5 + 1 / 0.8) / 2);
    // Beyond the ends: those of the ends.
    expect_seconds(&r, elements(K_ADD, 10), 40 / 1e9 / 2);
    expect_seconds(&r, elements(K_ADD, 1e10), 4e10 / 1e9 / 0.8);
    kernel_rates_clear(&r);
}

static void test_never_faster_than_the_roofline_beyond_the_points(void **state)
{
    (void)state;
    const kernel_point points[] = {{K_ADD, F32, 0, {1e4, 1, 1}, 2},
                                   {K_ADD, F32, 0, {1e6, 1, 1}, 1.5}};
    kernel_rates r = rates_of(points, 2);
    expect_seconds(&r, elements(K_ADD, 1e6), 4e6 / 1e9 / 1.5);
    expect_seconds(&r, elements(K_ADD, 1.01e6), 4.04e6 / 1e9);
    kernel_rates_clear(&r);
}

// An efficiency that rises with each size, as packing and the ends of loops make it.
static double made_up(double m, double n, double k)
{
    return 1 / (1 + 30 / m + 20 / n + 40 / k);
}

static kernel_rates products(void)
{
    kernel_point points[MOST];
    size_t count = 0;
    for (double m = 64; m <= 4096; m *= 4)
        for (double n = 64; n <= 4096; n *= 4)
            for (double k = 64; k <= 4096; k *= 4)
                points[count++] = (kernel_point){K_MATMUL, F32, 1, {m, n, k}, made_up(m, n, k)};
    return rates_of(points, count);
}

static void test_products(void **state)
{
    (void)state;
    kernel_rates r = products();
    double worst = 0;
    for (double m = 64; m <= 4096; m *= 2)
        for (double n = 64; n <= 4096; n *= 2)
            for (double k = 64; k <= 4096; k *= 2) {
                const kernel_cost c = product(F32, 1, m, n, k),
                                  wider = product(F32, 1, m, 2 * n, k);
                const double limit = kernel_rates_roofline(&r, &c);
                const double true_s = limit / made_up(m, n, k),
                             found = kernel_rates_claim(&r, &c).seconds;
                assert_true(found >= limit);
                assert_true(kernel_rates_claim(&r, &wider).seconds > found);
                worst = fmax(worst, fabs(found / true_s - 1));
                const bool is_point =
                    fmod(log2(m * n * k), 2) == 0 && fmod(log2(m), 2) == 0 && fmod(log2(n), 2) == 0;
                if (is_point) assert_true(fabs(found / true_s - 1) < 1e-9);
            }
    if (worst > 1e-6) fail_msg("between points a product is %.1f %% off", worst * 100);
    kernel_rates_clear(&r);
}

static void test_what_has_no_points(void **state)
{
    (void)state;
    const kernel_point points[] = {{K_MATMUL, F32, 1, {64, 64, 64}, 0.5},
                                   {K_MATMUL, BF16, 1, {64, 64, 64}, 0.25},
                                   {K_MATMUL, F32, 2, {64, 64, 64}, 0.4},
                                   {K_ADD, F32, 0, {1e4, 1, 1}, 0.8},
                                   {K_ATTENTION, F32, 0, {8, 64, 64}, 0.1}};
    kernel_rates r = rates_of(points, 5);
    const double flops = 2. * 64 * 64 * 64;
    r.memory_bytes_per_s = 1e10;
    expect_seconds(&r, product(F32, 1, 64, 64, 64), flops / 10e9 / 0.5);
    expect_seconds(&r, product(BF16, 1, 64, 64, 64), flops / 40e9 / 0.25);
    // A form before a type; an activation among the sums before other factors; a rate of products that is not known.
    expect_seconds(&r, product(BF16, 2, 64, 64, 64), flops / 40e9 / 0.4);
    expect_seconds(&r, product(F32, 1 + 4, 64, 64, 64), flops / 10e9 / 0.5);
    expect_seconds(&r, product(F16, 1, 64, 64, 64), flops / 40e9 / 0.5);
    // Kernels of elements as sums, products as attention.
    expect_seconds(&r, elements(K_DROPOUT, 1e4), 4e4 / 1e10 / 0.8);
    kernel_cost delta = product(F32, 0, 8, 64, 64);
    delta.kind = K_DELTA_RULE, delta.bytes = 0;
    expect_seconds(&r, delta, 2. * 8 * 64 * 64 / 10e9 / 0.1);
    kernel_rates_clear(&r);
    r = rates_of(points, 0);
    expect_seconds(&r, product(F32, 1, 64, 64, 64), flops / 10e9);
    kernel_rates_clear(&r);
}

static void test_claims(void **state)
{
    (void)state;
    const kernel_point points[] = {{K_ADD, F32, 0, {1e4, 1, 1}, 1},
                                   {K_ADD, F32, 0, {1e8, 1, 1}, 1}};
    kernel_rates r = rates_of(points, 2);
    const kernel_cost small = elements(K_ADD, 1e4), large = elements(K_ADD, 1e8),
                      none = elements(K_ADD, 0);
    const planner_claim s = kernel_rates_claim(&r, &small), l = kernel_rates_claim(&r, &large);
    assert_true(s.share[RESOURCE_COMPUTE] == 1 && l.share[RESOURCE_COMPUTE] == 1);
    assert_true(s.share[RESOURCE_MEMORY] < 0.05); // 40 kB of a cache of 1 MB
    assert_true(l.share[RESOURCE_MEMORY] > 0.99 && l.share[RESOURCE_MEMORY] <= 1);
    assert_true(kernel_rates_claim(&r, &none).seconds == 0);
    kernel_rates_clear(&r);
}

static void test_a_file_gives_back_what_was_written(void **state)
{
    (void)state;
    kernel_rates r = products(), again;
    err e;
    json_t *written = kernel_rates_write(&r);
    if (kernel_rates_read(written, &again, &e) != OK) fail_msg("%s", e.text);
    const kernel_cost c = product(F32, 1, 100, 200, 300);
    assert_true(kernel_rates_claim(&r, &c).seconds == kernel_rates_claim(&again, &c).seconds);
    assert_true(again.points == r.points && again.cache_bytes == r.cache_bytes);
    kernel_rates_clear(&again);
    kernel_rates_clear(&r);
    json_decref(written);
}

static void expect_refused(const char *text, const char *why)
{
    kernel_rates r;
    err e = {0};
    json_t *section = json_loads(text, 0, NULL);
    assert_int_equal(kernel_rates_read(section, &r, &e), E_USAGE);
    assert_string_equal(e.text, why);
    json_decref(section);
}

#define HEAD "{\"memory_bytes_per_s\":1e9,\"product_flops\":{\"fp32\":1e9},\"rows\":["

static void test_bad_sections(void **state)
{
    (void)state;
    expect_refused("[]", "kernels: valid is an object with rows");
    expect_refused("{\"memory_bytes_per_s\":0}",
                   "kernels.memory_bytes_per_s: valid is a number above 0");
    expect_refused("{\"memory_bytes_per_s\":1e9,\"product_flops\":{\"int4\":1}}",
                   "kernels.product_flops: found int4; valid is a type, such as fp32");
    expect_refused(HEAD "]}", "kernels.rows: valid is a list of rows");
    expect_refused(HEAD "{\"kernel\":\"matmull\"}]}",
                   "kernels.rows[0].kernel: found matmull; valid is the name of a kernel, such as "
                   "matmul");
    expect_refused(
        HEAD "{\"kernel\":\"add\",\"type\":\"fp32\",\"form\":0,\"points\":[[1,1,1]]}]}",
        "kernels.rows[0].points[0]: valid are three sizes and an efficiency, all above 0");
    expect_refused(HEAD "{\"kernel\":\"add\",\"type\":\"fp32\",\"form\":0,\"points\":[[1,1,1,0.5],"
                        "[1,1,1,0.6]]}]}",
                   "kernels.points: found two of add of fp32 with sizes 1, 1, 1; valid: one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_between_points_of_one_size),
        cmocka_unit_test(test_never_faster_than_the_roofline_beyond_the_points),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_what_has_no_points),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_a_file_gives_back_what_was_written),
        cmocka_unit_test(test_bad_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
