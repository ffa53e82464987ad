// test_device.c -- opening a cpu device, its levels, its counts of memory, and the failure of a
// stream that the next sync returns.
#include "unit/device/harness.h"

static device *open_cpu(void)
{
    device *d = NULL;
    err e = {0};
    if (device_open("cpu", &(device_options){.threads = 1}, &d, &e) != OK) fail_msg("%s", e.text);
    return d;
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    device *d = NULL;
    err e = {0};
    assert_int_equal(device_open("tpu", NULL, &d, &e), E_USAGE);
    assert_non_null(strstr(e.text, "tpu"));
    assert_null(d);
    assert_int_equal(device_open("cpu", &(device_options){.isa = "sse9"}, &d, &e), E_USAGE);
    assert_non_null(strstr(e.text, "sse9"));
    assert_non_null(strstr(e.text, "avx512"));
    assert_int_equal(device_open("cpu", &(device_options){.threads = -1}, &d, &e), E_USAGE);
    assert_null(d);
}

static void the_environment_forces_a_level(void **state)
{
    (void)state;
    char kept[32] = "";
    if (getenv("TRIREME_CPU")) snprintf(kept, sizeof kept, "%s", getenv("TRIREME_CPU"));
    cpu_level level;
    err e = {0};
    setenv("TRIREME_CPU", "generic", 1);
    assert_int_equal(cpu_level_choose(NULL, &level, &e), OK);
    assert_int_equal(level, CPU_GENERIC);
    setenv("TRIREME_CPU", "fast", 1);
    assert_int_equal(cpu_level_choose("auto", &level, &e), E_USAGE);
    assert_non_null(strstr(e.text, "TRIREME_CPU=fast"));
    assert_int_equal(cpu_level_choose("generic", &level, &e), OK); // the option wins
    cpu_features features;
    cpu_features_read(&features);
    if (features.best < CPU_AMX) {
        assert_int_equal(cpu_level_choose("amx", &level, &e), E_USAGE);
        assert_non_null(strstr(e.text, cpu_level_name(features.best)));
    }
    if (*kept) setenv("TRIREME_CPU", kept, 1);
    if (!*kept) unsetenv("TRIREME_CPU");
}

static void memory_is_aligned_and_counted(void **state)
{
    (void)state;
    device *d = open_cpu();
    const size_t own = d->bytes_now; // the scratch memory of its kernels
    assert_true(own > 0);
    void *small = NULL, *big = NULL;
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, 100, &small, NULL), OK);
    assert_int_equal(device_alloc(d, MEMORY_HOST, 5 << 20, &big, NULL), OK);
    assert_int_equal((uintptr_t)small % DEVICE_ALIGN, 0);
    assert_int_equal((uintptr_t)big % DEVICE_ALIGN, 0);
    memset(big, 1, 5 << 20);
    assert_int_equal(d->bytes_now, own + 100 + (5 << 20));
    device_release(d, MEMORY_HOST, big, 5 << 20);
    assert_int_equal(d->bytes_now, own + 100);
    assert_int_equal(d->bytes_peak, own + 100 + (5 << 20));
    assert_int_equal(d->allocations, 2);
    device_release(d, MEMORY_DEVICE, small, 100);
    err e = {0};
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, SIZE_MAX - 64, &big, &e), E_FIT);
    assert_int_equal(d->bytes_now, own);
    device_close(d);
    device_close(NULL);
}

// Zeroed memory is zero also where an earlier block was used and released.
static void zeroed_memory_is_zero_aligned_and_counted(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 4096, 3 << 20};
    device *d = open_cpu();
    const size_t own = d->bytes_now;
    for (int i = 0; i < 8; i++) {
        const size_t bytes = sizes[i % 4];
        void *p = NULL;
        assert_int_equal(device_alloc(d, MEMORY_ZEROED, bytes, &p, NULL), OK);
        assert_int_equal((uintptr_t)p % DEVICE_ALIGN, 0);
        assert_int_equal(d->bytes_now, own + bytes);
        const unsigned char *at = p;
        for (size_t b = 0; b < bytes; b++) assert_int_equal(at[b], 0);
        memset(p, 7, bytes);
        device_release(d, MEMORY_ZEROED, p, bytes);
        assert_int_equal(d->bytes_now, own);
    }
    void *never = NULL;
    assert_int_equal(device_alloc(d, MEMORY_ZEROED, SIZE_MAX - 64, &never, NULL), E_FIT);
    device_release(d, MEMORY_ZEROED, NULL, 0);
    device_close(d);
}

static status add_one(void *arg, err *e)
{
    (void)e;
    int *at;
    memcpy(&at, arg, sizeof at);
    ++*at;
    return OK;
}

static status refuse(void *arg, err *e)
{
    return err_set(e, E_PEER, "rank %d is lost", *(int *)arg);
}

static void a_failure_is_kept_for_the_next_sync(void **state)
{
    (void)state;
    device *d = open_cpu();
    device_stream *s = NULL;
    err e = {0};
    assert_int_equal(d->ops->stream_open(d, STREAM_COMM, false, &s, &e), OK);
    int count = 0, *at = &count, first = 3, second = 4;
    d->ops->call(s, refuse, &first, sizeof first);
    d->ops->call(s, refuse, &second, sizeof second);
    d->ops->call(s, add_one, &at, sizeof at);
    assert_int_equal(d->ops->sync(s, &e), E_PEER);
    assert_string_equal(e.text, "rank 3 is lost");
    assert_int_equal(d->ops->sync(s, &e), OK);
    assert_int_equal(count, 1);
    d->ops->stream_close(s);
    d->ops->stream_close(NULL);
    device_close(d);
}

static void the_rate_of_products_is_measured_and_leaves_no_memory(void **state)
{
    (void)state;
    device *d = open_cpu();
    const size_t own = d->bytes_now;
    assert_true(device_matmul_rate(d, F32, 0) > 1e8);
    assert_true(device_matmul_rate(d, BF16, 0) > 1e8);
    assert_true(device_matmul_rate(d, F16, 0) > 1e8);
    assert_int_equal(d->bytes_peak, own);
    assert_int_equal(d->allocations, 0);
    device_close(d);
}

static void every_kernel_has_a_name_and_a_form(void **state)
{
    (void)state;
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = 0; level <= features.best; level++) {
        cpu_kernels k;
        cpu_kernels_fill(&k, level);
        for (kernel_kind kind = 0; kind < KERNELS; kind++) {
            assert_non_null(k.run[kind]);
            assert_string_not_equal(kernel_name(kind), "unknown");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(the_environment_forces_a_level),
        cmocka_unit_test(memory_is_aligned_and_counted),
        cmocka_unit_test(zeroed_memory_is_zero_aligned_and_counted),
        cmocka_unit_test(a_failure_is_kept_for_the_next_sync),
        cmocka_unit_test(the_rate_of_products_is_measured_and_leaves_no_memory),
        cmocka_unit_test(every_kernel_has_a_name_and_a_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
