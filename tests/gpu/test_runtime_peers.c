// test_runtime_peers.c -- several devices and several processes with the stand-in's CUDA runtime: memory of other
// processes, waits for values in memory, the choice of visible devices, machines without a driver, and NVML.
#include "kernels.h"

#include <cuda.h>
#include <nvml.h>
#include <signal.h>
#include <sys/prctl.h>

typedef CUresult (*value_fn)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

static value_fn find_function(const char *name)
{
    void *out;
    enum cudaDriverEntryPointQueryResult found;
    CUDA(cudaGetDriverEntryPointByVersion(name, &out, 12000, cudaEnableDefault, &found));
    CHECK(found == cudaDriverEntryPointSuccess && out);
    return (value_fn)out;
}

// ---- Values in memory

static void values(void)
{
    const value_fn wait = find_function("cuStreamWaitValue32"),
                   write = find_function("cuStreamWriteValue32");
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    int32_t *flag = kernel_int(0), *a = kernel_int(0), *b = kernel_int(0);
    uint32_t *host;
    const CUdeviceptr there = (CUdeviceptr)flag;
    CHECK(wait(s, there, 2, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    CUDA(kernel_add(s, b, a, 1));
    CUDA(kernel_store(t, a, 5));
    CHECK(write(t, there, 1, 0) == CUDA_SUCCESS);
    CUDA(kernel_store(t, a, 6));
    CHECK(write(t, there, 2, 0) == CUDA_SUCCESS);
    CUDA(cudaStreamSynchronize(s));
    CHECK(kernel_value(b) == 7);
    // The comparison is cyclic, and the host may write flags in pinned memory.
    CUDA(cudaHostAlloc((void **)&host, sizeof *host, cudaHostAllocMapped));
    *host = 0xfffffff0;
    CHECK(wait(s, (CUdeviceptr)host, 3, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    __atomic_store_n(host, 4, __ATOMIC_RELEASE);
    CUDA(cudaStreamSynchronize(s));
    CHECK(wait(s, (CUdeviceptr)host, 6, CU_STREAM_WAIT_VALUE_AND) == CUDA_SUCCESS);
    CHECK(wait(s, (CUdeviceptr)host, 4, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    CHECK(wait(s, (CUdeviceptr)host, 4, CU_STREAM_WAIT_VALUE_NOR) == CUDA_SUCCESS);
    CUDA(cudaStreamSynchronize(s));
    CHECK(wait(s, there + 1, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(wait(s, there, 0, CU_STREAM_WAIT_VALUE_FLUSH) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(write(s, there, 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(write(s, (CUdeviceptr)&flag, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

// A stream takes a flag away and waits for it to be set again, which the host does last.
static void take_twice(bool until_gone)
{
    const value_fn wait = find_function("cuStreamWaitValue32"),
                   write = find_function("cuStreamWriteValue32");
    cudaStream_t s = kernel_stream();
    uint32_t *flag;
    CUDA(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocMapped));
    *flag = 1;
    const CUdeviceptr there = (CUdeviceptr)flag;
    CHECK(wait(s, there, 1, CU_STREAM_WAIT_VALUE_AND) == CUDA_SUCCESS);
    CHECK(write(s, there, 0, 0) == CUDA_SUCCESS);
    if (until_gone) CHECK(wait(s, there, 0, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    CHECK(wait(s, there, 1, CU_STREAM_WAIT_VALUE_AND) == CUDA_SUCCESS);
    for (int i = 0; i < 50; i++) CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CUDA(cudaStreamSynchronize(s));
}

static void takes_until_gone(void)
{
    take_twice(true);
}

// The second wait may look at the flag before the write has ended.
static void takes_at_once(void)
{
    take_twice(false);
}

static void functions(void)
{
    void *p;
    const char *text = NULL;
    enum cudaDriverEntryPointQueryResult found;
    CUresult (*error_string)(CUresult, const char **);
    CUDA(cudaGetDriverEntryPointByVersion("cuNothing", &p, 12000, cudaEnableDefault, &found));
    CHECK(!p && found == cudaDriverEntryPointSymbolNotFound);
    CHECK_IS(cudaErrorSymbolNotFound,
             cudaGetDriverEntryPointByVersion("cuNothing", &p, 12000, cudaEnableDefault, NULL));
    CUDA(cudaGetDriverEntryPointByVersion("cuGetErrorString", (void **)&error_string, 12000,
                                          cudaEnableDefault, NULL));
    CHECK(error_string(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
    CHECK(strcmp(text, "out of memory") == 0);
    CHECK(strcmp(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice") == 0);
}

static void test_values(void **state)
{
    (void)state;
    child_passes_in_all_orders(values);
    child_passes_in_all_orders(takes_until_gone);
    child_fails_in_some_order(takes_at_once);
    child_passes("", functions);
}

// ---- Memory of other processes

static int to_peer[2], to_owner[2];

static void tell(const int ends[2], const void *bytes, size_t count)
{
    CHECK(write(ends[1], bytes, count) == (ssize_t)count);
}

static void hear(const int ends[2], void *bytes, size_t count)
{
    CHECK(read(ends[0], bytes, count) == (ssize_t)count);
}

// The peer: opens the owner's memory, answers its flag twice, and leaves in the way that the owner wants.
static void be_peer(void)
{
    cudaIpcMemHandle_t handle;
    void *p, *again;
    char how, byte = 0;
    hear(to_peer, &handle, sizeof handle);
    hear(to_peer, &how, 1);
    CHECK_IS(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&p, handle, 0));
    CUDA(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess));
    CUDA(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(p == again);
    CUDA(cudaIpcCloseMemHandle(again));
    int32_t *shared = p;
    const value_fn wait = find_function("cuStreamWaitValue32"),
                   write = find_function("cuStreamWriteValue32");
    cudaStream_t s = kernel_stream();
    for (uint32_t i = 1; i <= 2; i++) {
        CHECK(wait(s, (CUdeviceptr)&shared[0], i, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
        CUDA(kernel_add(s, &shared[2], &shared[2], 10));
        CHECK(write(s, (CUdeviceptr)&shared[1], i, 0) == CUDA_SUCCESS);
    }
    CUDA(cudaStreamSynchronize(s));
    if (how == 'd') raise(SIGKILL);
    if (how == 'c') CUDA(cudaIpcCloseMemHandle(p));
    tell(to_owner, &byte, 1);
    if (how == 's') pause();
}

static void own(char how)
{
    cudaIpcMemHandle_t handle;
    int32_t zeros[3] = {0, 0, 7}, *shared;
    void *p;
    char byte;
    int status;
    CHECK(pipe(to_peer) == 0 && pipe(to_owner) == 0);
    const pid_t peer = fork();
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_peer();
        _exit(0);
    }
    CUDA(cudaMalloc(&p, sizeof zeros));
    shared = p;
    CUDA(cudaMemcpy(shared, zeros, sizeof zeros, cudaMemcpyHostToDevice));
    CUDA(cudaIpcGetMemHandle(&handle, shared));
    CHECK_IS(cudaErrorDeviceUninitialized,
             cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess));
    tell(to_peer, &handle, sizeof handle);
    tell(to_peer, &how, 1);
    const value_fn wait = find_function("cuStreamWaitValue32"),
                   write = find_function("cuStreamWriteValue32");
    cudaStream_t s = kernel_stream();
    for (uint32_t i = 1; i <= 2; i++) {
        CUDA(kernel_add(s, &shared[2], &shared[2], 1));
        CHECK(write(s, (CUdeviceptr)&shared[0], i, 0) == CUDA_SUCCESS);
        CHECK(wait(s, (CUdeviceptr)&shared[1], i, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    }
    CUDA(cudaStreamSynchronize(s));
    CHECK(kernel_value(&shared[2]) == 29);
    if (how != 'd') hear(to_owner, &byte, 1);
    if (how != 's') CHECK(waitpid(peer, &status, 0) == peer);
    CUDA(cudaFree(shared));
}

static void own_and_peer_closes(void)
{
    own('c');
}

static void own_and_peer_dies(void)
{
    own('d');
}

static void own_and_peer_leaves(void)
{
    own('l');
}

static void own_and_free_too_early(void)
{
    own('s');
}

// A handle outlives its process, and its memory.
static void open_late(void)
{
    cudaIpcMemHandle_t handle;
    void *p;
    CHECK(pipe(to_owner) == 0);
    const pid_t owner = fork();
    if (owner == 0) {
        CUDA(cudaMalloc(&p, 100));
        CUDA(cudaIpcGetMemHandle(&handle, p));
        CUDA(cudaFree(p));
        tell(to_owner, &handle, sizeof handle);
        pause();
    }
    hear(to_owner, &handle, sizeof handle);
    CHECK_IS(cudaErrorMapBufferObjectFailed,
             cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess));
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    CHECK_IS(cudaErrorMapBufferObjectFailed,
             cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess));
    memset(&handle, 0, sizeof handle);
    CHECK_IS(cudaErrorInvalidValue,
             cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK_IS(cudaErrorInvalidValue, cudaIpcCloseMemHandle(&handle));
}

static void handle_of_the_middle(void)
{
    cudaIpcMemHandle_t handle;
    CUDA(cudaIpcGetMemHandle(&handle, kernel_int(1) + 1));
}

static void test_processes(void **state)
{
    (void)state;
    child_passes_in_all_orders(own_and_peer_closes);
    child_passes("", own_and_peer_dies);
    child_passes("", own_and_peer_leaves);
    child_is_ended(own_and_free_too_early, "has the allocation of 12 bytes open");
    child_passes("", open_late);
    child_is_ended(handle_of_the_middle, "cudaIpcGetMemHandle: 0x");
}

// ---- Visible devices

static int32_t expected[16], expected_count;

static void expect_devices(void)
{
    char text[32], wanted[32];
    int count = -1;
    if (!expected_count) {
        CHECK_IS(cudaErrorNoDevice, cudaGetDeviceCount(&count));
        CHECK(count == 0);
        CHECK_IS(cudaErrorNoDevice, cudaSetDevice(0));
        return;
    }
    CUDA(cudaGetDeviceCount(&count));
    CHECK(count == expected_count);
    CHECK_IS(cudaErrorInvalidDevice, cudaSetDevice(count));
    for (int i = 0; i < count; i++) {
        snprintf(wanted, sizeof wanted, "0000:%02X:00.0", 0x17 + 9 * expected[i]);
        CUDA(cudaDeviceGetPCIBusId(text, sizeof text, i));
        CHECK(strcmp(text, wanted) == 0);
    }
}

static void check_visible(const char *environment, int count, int first, int second)
{
    expected_count = count;
    expected[0] = first;
    expected[1] = second;
    child_passes(environment, expect_devices);
}

static void test_visible(void **state)
{
    (void)state;
    check_visible("", 2, 0, 1);
    check_visible("TRIREME_STAND_IN_DEVICES=1", 1, 0, 0);
    check_visible("TRIREME_STAND_IN_DEVICES=0", 0, 0, 0);
    check_visible("CUDA_VISIBLE_DEVICES=1", 1, 1, 0);
    check_visible("CUDA_VISIBLE_DEVICES=1,0", 2, 1, 0);
    check_visible("CUDA_VISIBLE_DEVICES=", 0, 0, 0);
    check_visible("CUDA_VISIBLE_DEVICES=-1", 0, 0, 0);
    check_visible("CUDA_VISIBLE_DEVICES=1,-1,0", 1, 1, 0);
    check_visible("CUDA_VISIBLE_DEVICES=0,7,1", 1, 0, 0);
    check_visible("CUDA_VISIBLE_DEVICES=0,0", 0, 0, 0);
    check_visible("CUDA_VISIBLE_DEVICES=GPU-015ea11d-c0de", 1, 1, 0);
    check_visible("CUDA_VISIBLE_DEVICES=GPU-01,GPU-00", 2, 1, 0);
    check_visible("CUDA_VISIBLE_DEVICES=GPU-0", 0, 0, 0); // two begin so
    check_visible("CUDA_VISIBLE_DEVICES=nothing", 0, 0, 0);
}

static void no_driver(void)
{
    int count, version = -1;
    CHECK_IS(cudaErrorInsufficientDriver, cudaGetDeviceCount(&count));
    CUDA(cudaDriverGetVersion(&version));
    CHECK(version == 0);
    CHECK(!stand_in_nvml_symbol("nvmlInit_v2"));
}

static void old_driver(void)
{
    int count, version = -1;
    CHECK_IS(cudaErrorInsufficientDriver, cudaGetDeviceCount(&count));
    CUDA(cudaDriverGetVersion(&version));
    CHECK(version == 11040);
    CHECK(nvmlInit_v2() == NVML_SUCCESS);
}

static void mismatched_driver(void)
{
    int count;
    CHECK_IS(cudaErrorSystemDriverMismatch, cudaGetDeviceCount(&count));
    CHECK(nvmlInit_v2() == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
}

static void fork_after_use(void)
{
    int count, status;
    CUDA(cudaGetDeviceCount(&count));
    const pid_t pid = fork();
    if (pid == 0) {
        CHECK_IS(cudaErrorInitializationError, cudaGetDeviceCount(&count));
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_drivers(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DRIVER=none", no_driver);
    child_passes("TRIREME_STAND_IN_DRIVER=old", old_driver);
    child_passes("TRIREME_STAND_IN_DRIVER=mismatch", mismatched_driver);
    child_passes("", fork_after_use);
}

// ---- NVML

static void nvml(void)
{
    unsigned count = 9, index = 9;
    nvmlDevice_t device, same;
    nvmlMemory_t memory;
    nvmlUtilization_t rates;
    nvmlPciInfo_t pci;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    CHECK(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
    CHECK(nvmlInit_v2() == NVML_SUCCESS);
    CHECK(nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS && count == 3);
    CHECK(nvmlDeviceGetHandleByIndex_v2(3, &device) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvmlDeviceGetHandleByIndex_v2(2, &device) == NVML_SUCCESS);
    CHECK(nvmlDeviceGetIndex(device, &index) == NVML_SUCCESS && index == 2);
    CHECK(nvmlDeviceGetName(device, name, sizeof name) == NVML_SUCCESS);
    CHECK(strcmp(name, "A100") == 0);
    CHECK(nvmlDeviceGetName(device, name, 4) == NVML_ERROR_INSUFFICIENT_SIZE);
    CHECK(nvmlDeviceGetUUID(device, uuid, sizeof uuid) == NVML_SUCCESS);
    CHECK(nvmlDeviceGetHandleByUUID(uuid, &same) == NVML_SUCCESS && same == device);
    CHECK(nvmlDeviceGetHandleByUUID("GPU-1", &same) == NVML_ERROR_NOT_FOUND);
    CHECK(nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS);
    CHECK(strcmp(pci.busId, "00000000:29:00.0") == 0 && pci.bus == 0x29 && pci.domain == 0);
    CHECK(nvmlDeviceGetHandleByPciBusId_v2("0000:29:00.0", &same) == NVML_SUCCESS &&
          same == device);
    CHECK(nvmlDeviceGetUtilizationRates(device, &rates) == NVML_SUCCESS && rates.gpu <= 100);
    CHECK(nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS);
    CHECK(memory.total == 1000000 && memory.free == 1000000);
    CHECK(stand_in_nvml_symbol("nvmlInit_v2") && !stand_in_nvml_symbol("nvmlNothing"));
    kernel_int(1); // the first visible device is NVML's third
    CHECK(nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS && memory.used == 256);
    CHECK(nvmlShutdown() == NVML_SUCCESS && nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
}

static void test_nvml(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=3 TRIREME_STAND_IN_BYTES=1000000 "
                 "TRIREME_STAND_IN_NAME=A100 CUDA_VISIBLE_DEVICES=2",
                 nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_processes),
        cmocka_unit_test(test_visible), cmocka_unit_test(test_drivers),
        cmocka_unit_test(test_nvml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
