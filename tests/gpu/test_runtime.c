// test_runtime.c -- streams, events and host functions of the stand-in's CUDA runtime: work runs late, in every
// order that is legal, and no order that is not.
#include "kernels.h"

#include <time.h>

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
}

// ---- Work runs late, and in the order of its stream

static int ran;

static void note_run(void *state)
{
    (void)state;
    __atomic_add_fetch(&ran, 1, __ATOMIC_RELEASE);
}

static void runs_late(void)
{
    cudaStream_t s = kernel_stream();
    CUDA(stand_in_issue(s, (stand_in_work){.name = "note", .run = note_run}));
    CHECK(__atomic_load_n(&ran, __ATOMIC_ACQUIRE) == 0);
    CUDA(cudaStreamSynchronize(s));
    CHECK(ran == 1);
    CUDA(cudaStreamSynchronize(s));
    CHECK(ran == 1);
}

static void runs_if_nobody_waits(void)
{
    cudaStream_t s = kernel_stream();
    CUDA(stand_in_issue(s, (stand_in_work){.name = "note", .run = note_run}));
    for (int i = 0; i < 5000 && !__atomic_load_n(&ran, __ATOMIC_ACQUIRE); i++) sleep_ms(10);
    CHECK(__atomic_load_n(&ran, __ATOMIC_ACQUIRE) == 1);
}

static void runs_in_order(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    int32_t *a = kernel_int(0), *b = kernel_int(0);
    for (int32_t n = 1; n < 9; n++) {
        CUDA(kernel_append(s, a, n));
        CUDA(kernel_append(t, b, 9 - n));
    }
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaDeviceSynchronize());
    CHECK(kernel_value(a) == 12345678 && kernel_value(b) == 87654321);
}

static void runs_in_query(void)
{
    cudaStream_t s = kernel_stream();
    cudaEvent_t v = kernel_event();
    int queries = 0;
    CUDA(cudaStreamQuery(s));
    CUDA(cudaEventQuery(v)); // never recorded
    for (int i = 0; i < 4; i++)
        CUDA(stand_in_issue(s, (stand_in_work){.name = "note", .run = note_run}));
    CUDA(cudaEventRecord(v, s));
    while (cudaEventQuery(v) == cudaErrorNotReady) queries++;
    CHECK(queries >= 1 && ran == 4);
    CHECK_IS(cudaErrorNotReady, cudaGetLastError());
    CUDA(cudaGetLastError());
}

static void test_late(void **state)
{
    (void)state;
    child_passes_in_all_orders(runs_late);
    child_passes_in_all_orders(runs_if_nobody_waits);
    child_passes_in_all_orders(runs_in_order);
    child_passes_in_all_orders(runs_in_query);
}

// ---- Events

// b = a + 1 on another stream, after a = 5; and then a = 7 after that.
static void chain(int first_wait, int second_wait)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    cudaEvent_t written = kernel_event(), read = kernel_event();
    int32_t *a = kernel_int(0), *b = kernel_int(0);
    CUDA(kernel_store(s, a, 5));
    CUDA(cudaEventRecord(written, s));
    if (first_wait) CUDA(cudaStreamWaitEvent(t, written, 0));
    CUDA(kernel_add(t, b, a, 1));
    CUDA(cudaEventRecord(read, t));
    if (second_wait) CUDA(cudaStreamWaitEvent(s, read, 0));
    CUDA(kernel_store(s, a, 7));
    CUDA(cudaEventDestroy(read)); // waits hold on to the record
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaStreamSynchronize(t));
    CHECK(kernel_value(a) == 7);
    CHECK(kernel_value(b) == 6);
}

static void chain_with_waits(void)
{
    chain(1, 1);
}

static void chain_without_first_wait(void)
{
    chain(0, 1);
}

static void chain_without_second_wait(void)
{
    chain(1, 0);
}

static void waits_for_latest_record(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    cudaEvent_t v = kernel_event();
    int32_t *a = kernel_int(0), *b = kernel_int(0);
    CUDA(cudaStreamWaitEvent(t, v, 0)); // never recorded: no wait
    for (int32_t n = 1; n < 4; n++) {
        CUDA(kernel_store(s, a, n));
        CUDA(cudaEventRecord(v, s));
    }
    CUDA(cudaStreamWaitEvent(t, v, 0));
    CUDA(kernel_add(t, b, a, 0));
    CUDA(cudaEventRecord(v, t));
    CUDA(cudaEventSynchronize(v));
    CHECK(kernel_value(b) == 3);
}

static void events_of_devices(void)
{
    cudaStream_t s = kernel_stream();
    CUDA(cudaSetDevice(1));
    cudaStream_t other = kernel_stream();
    cudaEvent_t v = kernel_event();
    int32_t *b = kernel_int(0);
    CHECK_IS(cudaErrorInvalidResourceHandle, cudaEventRecord(v, s)); // of another device
    CHECK_IS(cudaErrorInvalidResourceHandle, kernel_store(s, b, 1));
    CUDA(kernel_store(other, b, 1));
    CUDA(cudaEventRecord(v, other));
    CUDA(cudaStreamWaitEvent(s, v, 0));
    CUDA(cudaStreamSynchronize(s)); // runs the other device's work
    CUDA(cudaEventQuery(v));
    CUDA(cudaStreamDestroy(s));
    CHECK_IS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
}

static void times(void)
{
    cudaStream_t s = kernel_stream();
    cudaEvent_t start, end, untimed = kernel_event();
    float ms = -1;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    CHECK_IS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, end));
    CUDA(cudaEventRecord(start, s));
    CUDA(cudaEventRecord(end, s));
    CUDA(cudaEventRecord(untimed, s));
    CHECK_IS(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0);
    CHECK_IS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, untimed));
}

static void test_events(void **state)
{
    (void)state;
    child_passes_in_all_orders(chain_with_waits);
    child_fails_in_some_order(chain_without_first_wait);
    child_fails_in_some_order(chain_without_second_wait);
    child_passes_in_all_orders(waits_for_latest_record);
    child_passes_in_all_orders(events_of_devices);
    child_passes("", times);
}

// ---- The legacy stream

static void legacy(unsigned flags)
{
    cudaStream_t s;
    int32_t *a = kernel_int(0), *b = kernel_int(0), *c = kernel_int(0);
    CUDA(cudaStreamCreateWithFlags(&s, flags));
    CUDA(kernel_store(s, a, 1));
    CUDA(kernel_add(NULL, b, a, 1));
    CUDA(kernel_add(s, c, b, 1));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaStreamSynchronize(NULL));
    CHECK(kernel_value(b) == 2 && kernel_value(c) == 3);
}

static void legacy_with_blocking(void)
{
    legacy(cudaStreamDefault);
}

static void legacy_with_non_blocking(void)
{
    legacy(cudaStreamNonBlocking);
}

static void test_legacy(void **state)
{
    (void)state;
    child_passes_in_all_orders(legacy_with_blocking);
    child_fails_in_some_order(legacy_with_non_blocking);
}

// ---- Host functions, and work that waits for other work

static void note_host(void *out)
{
    int count;
    int32_t *host = out;
    host[1] = cudaStreamSynchronize(NULL) == cudaErrorNotPermitted;
    host[2] = cudaGetDeviceCount(&count) == cudaSuccess;
    host[0] = 1;
}

static void host_functions(void)
{
    cudaStream_t s = kernel_stream();
    int32_t *pinned, *a = kernel_int(3);
    CUDA(cudaHostAlloc((void **)&pinned, 4 * sizeof *pinned, cudaHostAllocDefault));
    memset(pinned, 0, 4 * sizeof *pinned);
    CUDA(cudaMemcpyAsync(pinned + 3, a, sizeof *a, cudaMemcpyDeviceToHost, s));
    CUDA(cudaLaunchHostFunc(s, note_host, pinned));
    CUDA(kernel_add(s, a, pinned, 10)); // pinned memory is a kernel's, too
    CHECK(pinned[0] == 0);
    CUDA(cudaStreamSynchronize(s));
    CHECK(pinned[0] == 1 && pinned[1] == 1 && pinned[3] == 3);
    CHECK(kernel_value(a) == 11);
}

// Each of two kernels waits for what the other has written, twice.
static void run_meet(void *state)
{
    const kernel_args *a = state;
    for (int32_t phase = 1; phase <= 2; phase++) {
        __atomic_store_n(a->out, phase, __ATOMIC_RELEASE);
        while (__atomic_load_n(a->in, __ATOMIC_ACQUIRE) < phase) stand_in_pause();
    }
}

static void kernels_that_meet(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream(), u = kernel_stream();
    int32_t *a = kernel_int(0), *b = kernel_int(0), *c = kernel_int(0);
    CUDA(kernel_start(s, "meet", run_meet, a, b, 0));
    CUDA(kernel_start(t, "meet", run_meet, b, a, 0));
    CUDA(kernel_start(u, "meet", run_meet, c, a, 0));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaDeviceSynchronize());
    CHECK(kernel_value(a) == 2 && kernel_value(b) == 2 && kernel_value(c) == 2);
}

static int released;

static void note_release(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE)) sleep_ms(1);
}

static void set_release(void *state)
{
    (void)state;
    __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
}

static void host_function_that_blocks(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    CUDA(cudaLaunchHostFunc(s, note_release, NULL));
    CUDA(stand_in_issue(t, (stand_in_work){.name = "release", .run = set_release}));
    CUDA(cudaStreamSynchronize(s));
}

static void test_waiting_work(void **state)
{
    (void)state;
    child_passes_in_all_orders(host_functions);
    child_passes_in_all_orders(kernels_that_meet);
    child_passes_in_all_orders(host_function_that_blocks);
}

// ---- Launches

static void launches(void)
{
    const stand_in_work work = {.name = "note", .run = note_run};
    const void *func = (const void *)(uintptr_t)&ran;
    const dim3 one = {1, 1, 1}, thousand = {1024, 1, 1}, many = {1024, 2, 1}, none = {0, 1, 1};
    const dim3 tall = {1, 65536, 1};
    struct cudaFuncAttributes attributes;
    cudaStream_t s = kernel_stream();
    int most;
    CUDA(stand_in_launch(func, one, thousand, 48 * 1024, s, work));
    CHECK_IS(cudaErrorInvalidConfiguration, stand_in_launch(func, one, many, 0, s, work));
    CHECK_IS(cudaErrorInvalidConfiguration, stand_in_launch(func, none, one, 0, s, work));
    CHECK_IS(cudaErrorInvalidConfiguration, stand_in_launch(func, tall, one, 0, s, work));
    CHECK_IS(cudaErrorInvalidValue, stand_in_launch(func, one, one, 48 * 1024 + 1, s, work));
    CHECK_IS(cudaErrorInvalidValue, cudaGetLastError());
    CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK_IS(cudaErrorInvalidValue,
             cudaFuncSetAttribute(func, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1));
    CUDA(cudaFuncSetAttribute(func, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    CUDA(cudaFuncGetAttributes(&attributes, func));
    CHECK(attributes.maxDynamicSharedSizeBytes == most);
    CUDA(stand_in_launch(func, one, one, (size_t)most, s, work));
    CUDA(cudaStreamSynchronize(s));
    CHECK(ran == 2);
}

static void test_launches(void **state)
{
    (void)state;
    child_passes("", launches);
    child_passes("TRIREME_STAND_IN_ARCH=80", launches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),     cmocka_unit_test(test_events),
        cmocka_unit_test(test_legacy),   cmocka_unit_test(test_waiting_work),
        cmocka_unit_test(test_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
