// test_runtime_memory.c -- memory of the stand-in's CUDA runtime: what CUDA reports is reported, and what CUDA
// would not notice ends the process.
#include "kernels.h"

enum { MIB = 1 << 20 };

static unsigned char *alloc_device(size_t bytes)
{
    void *p;
    CUDA(cudaMalloc(&p, bytes));
    return p;
}

static unsigned char *alloc_host(size_t bytes)
{
    void *p;
    CUDA(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
    return p;
}

// ---- Allocations

static void allocations(void)
{
    size_t free_bytes, total;
    void *p = NULL, *more[3];
    unsigned char bytes[100];
    CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK(total == 8 * MIB && free_bytes == total);
    CUDA(cudaMalloc(&p, 0));
    CHECK(!p);
    CUDA(cudaFree(NULL));
    for (int i = 0; i < 3; i++) {
        CUDA(cudaMalloc(&more[i], 2 * MIB - 1));
        CHECK((uintptr_t)more[i] % 256 == 0);
    }
    CHECK_IS(cudaErrorMemoryAllocation, cudaMalloc(&p, 3 * MIB));
    CHECK_IS(cudaErrorMemoryAllocation, cudaMalloc(&p, SIZE_MAX));
    CHECK_IS(cudaErrorMemoryAllocation, cudaGetLastError());
    CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == 2 * MIB);
    CHECK_IS(cudaErrorInvalidValue, cudaFree((char *)more[0] + 256));
    CUDA(cudaMemcpy(bytes, more[0], sizeof bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof bytes; i++) CHECK(bytes[i] == 0xff); // poison
    CUDA(cudaFree(more[0]));
    CHECK_IS(cudaErrorInvalidValue, cudaFree(more[0]));
    CHECK_IS(cudaErrorInvalidValue, cudaFree(bytes));
    CUDA(cudaMalloc(&p, 3 * MIB));
    CHECK(p != more[0]);
}

static void copies(void)
{
    enum { N = 5000 };
    unsigned char from[N], to[N] = {0};
    unsigned char *host = alloc_host(N), *a = alloc_device(N), *b = alloc_device(N);
    cudaStream_t s = kernel_stream();
    for (int i = 0; i < N; i++) from[i] = (unsigned char)(i * 7);
    CUDA(cudaMemcpy(a, from, N, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpyAsync(b, a, N, cudaMemcpyDeviceToDevice, s));
    CUDA(cudaMemsetAsync(b + 10, 3, 20, s));
    CUDA(cudaMemcpyAsync(host, b, N, cudaMemcpyDefault, s));
    CHECK(host[0] == 0xff && host[N - 1] == 0xff); // poison until the copy ran
    CUDA(cudaMemcpyAsync(a, host, N, cudaMemcpyHostToDevice, s));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaMemcpy(to, a, N, cudaMemcpyDeviceToHost));
    memset(from + 10, 3, 20);
    CHECK(memcmp(from, to, N) == 0 && memcmp(from, host, N) == 0);
    CUDA(cudaMemset(a, 0, N));
    CUDA(cudaMemcpyAsync(NULL, NULL, 0, cudaMemcpyDeviceToHost, s));
    CUDA(cudaFree(a));
    CUDA(cudaFree(b));
    CUDA(cudaFreeHost(host));
}

static void copies_with_errors(void)
{
    unsigned char *host = alloc_host(100), *a = alloc_device(100), *b = alloc_device(100);
    cudaStream_t s = kernel_stream();
    CHECK_IS(cudaErrorInvalidValue, cudaMemcpyAsync(a, b, 100, cudaMemcpyHostToDevice, s));
    CHECK_IS(cudaErrorInvalidValue, cudaMemcpyAsync(a, host, 100, cudaMemcpyDeviceToDevice, s));
    CHECK_IS(cudaErrorInvalidValue, cudaMemcpyAsync(host, host, 10, cudaMemcpyDeviceToHost, s));
    CHECK_IS(cudaErrorInvalidMemcpyDirection,
             cudaMemcpyAsync(a, host, 1, (enum cudaMemcpyKind)5, s));
    CHECK_IS(cudaErrorInvalidValue, cudaMemcpyPeerAsync(a, 0, b, 1, 100, s));
    CHECK_IS(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(a, 0, b, 2, 100, s));
    CHECK_IS(cudaErrorInvalidValue, cudaMemset(&s, 0, 1));
}

static void copies_between_devices(void)
{
    int can;
    int32_t *a = kernel_int(41), *b, out;
    CUDA(cudaSetDevice(1));
    b = kernel_int(0);
    cudaStream_t s = kernel_stream();
    CUDA(cudaMemcpyPeerAsync(b, 1, a, 0, sizeof *a, s));
    CUDA(kernel_add(s, b, b, 1));
    CUDA(cudaStreamSynchronize(s));
    CHECK(kernel_value(b) == 42);
    CUDA(cudaDeviceCanAccessPeer(&can, 1, 0));
    CHECK(can);
    CUDA(cudaDeviceEnablePeerAccess(0, 0));
    CHECK_IS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
    CHECK_IS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(1, 0));
    CUDA(kernel_add(s, b, a, 2));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaMemcpy(&out, b, sizeof out, cudaMemcpyDefault));
    CHECK(out == 43);
}

static void test_allocations(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_BYTES=8388608", allocations);
    child_passes_in_all_orders(copies);
    child_passes("", copies_with_errors);
    child_passes_in_all_orders(copies_between_devices);
}

// ---- Pinned memory

static void pinned(void)
{
    static unsigned char own[8192];
    struct cudaPointerAttributes is;
    void *device;
    unsigned char *host = alloc_host(300), *a = alloc_device(sizeof own);
    cudaStream_t s = kernel_stream();
    CHECK((uintptr_t)host % 256 == 0 && host[299] == 0xff);
    CUDA(cudaPointerGetAttributes(&is, host + 5));
    CHECK(is.type == cudaMemoryTypeHost && is.hostPointer == host + 5 && is.device == 0);
    CUDA(cudaPointerGetAttributes(&is, a + 5));
    CHECK(is.type == cudaMemoryTypeDevice && is.devicePointer == a + 5 && !is.hostPointer);
    CUDA(cudaPointerGetAttributes(&is, own));
    CHECK(is.type == cudaMemoryTypeUnregistered);
    CUDA(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    CHECK_IS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own + 4096, 10, 0));
    CUDA(cudaMemsetAsync(a, 1, sizeof own, s));
    CUDA(cudaMemcpyAsync(own, a, sizeof own, cudaMemcpyDeviceToHost, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(own[0] == 1 && own[8191] == 1);
    CUDA(cudaHostUnregister(own));
    CHECK_IS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
    CHECK_IS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&device, own, 0));
    CUDA(cudaHostGetDevicePointer(&device, host, 0));
    CUDA(kernel_store(s, device, 9));
    CUDA(cudaStreamSynchronize(s));
    CHECK(*(int32_t *)host == 9);
    CHECK_IS(cudaErrorInvalidValue, cudaFreeHost(host + 1));
    CUDA(cudaFreeHost(host));
    CHECK_IS(cudaErrorInvalidValue, cudaFreeHost(host));
}

// Host memory may be a target and then a source, while neither copy has run; another use of the same source is
// no write of the host.
static void pinned_in_a_ring(void)
{
    cudaStream_t s = kernel_stream();
    int32_t *a = kernel_int(1), *b = kernel_int(2), *host = (int32_t *)alloc_host(sizeof *host);
    for (int32_t i = 0; i < 4; i++) {
        CUDA(cudaMemcpyAsync(host, a, sizeof *a, cudaMemcpyDeviceToHost, s));
        CUDA(cudaMemcpyAsync(b, host, sizeof *a, cudaMemcpyHostToDevice, s));
        CUDA(kernel_add(s, a, b, 1));
    }
    CUDA(cudaStreamSynchronize(s));
    CHECK(kernel_value(a) == 5 && *host == 4);
}

static void test_pinned(void **state)
{
    (void)state;
    child_passes_in_all_orders(pinned);
    child_passes_in_all_orders(pinned_in_a_ring);
}

// ---- Broken rules

static void dereference(void)
{
    *(volatile int32_t *)kernel_int(1) = 2;
}

static void dereference_after_work(void)
{
    int32_t *a = kernel_int(1);
    cudaStream_t s = kernel_stream();
    CUDA(kernel_store(s, a, 2));
    CUDA(cudaStreamSynchronize(s));
    CHECK(*(volatile int32_t *)a == 2);
}

static void copy_pageable_source(void)
{
    static char bytes[10];
    CUDA(cudaMemcpyAsync(alloc_device(10), bytes, 10, cudaMemcpyHostToDevice, kernel_stream()));
}

static void copy_pageable_target(void)
{
    static char bytes[10];
    CUDA(cudaMemcpyAsync(bytes, alloc_device(10), 10, cudaMemcpyDeviceToHost, kernel_stream()));
}

static void copy_beyond(void)
{
    CUDA(cudaMemcpyAsync(alloc_device(100), alloc_device(200), 101, cudaMemcpyDeviceToDevice,
                         kernel_stream()));
}

static void copy_beyond_pinned(void)
{
    CUDA(cudaMemcpyAsync(alloc_device(200), alloc_host(100) + 50, 51, cudaMemcpyHostToDevice,
                         kernel_stream()));
}

static void set_beyond(void)
{
    CUDA(cudaMemsetAsync(alloc_device(100) + 99, 0, 2, kernel_stream()));
}

static void copy_freed(void)
{
    unsigned char *a = alloc_device(100), *b = alloc_device(100);
    cudaStream_t s = kernel_stream();
    CUDA(cudaMemcpyAsync(a, b, 100, cudaMemcpyDeviceToDevice, s));
    CUDA(cudaFree(b));
    CUDA(cudaStreamSynchronize(s));
}

static void copy_onto_itself(void)
{
    unsigned char *a = alloc_device(100);
    CUDA(cudaMemcpyAsync(a + 10, a, 50, cudaMemcpyDeviceToDevice, kernel_stream()));
}

static void change_source(void)
{
    unsigned char *a = alloc_device(100), *host = alloc_host(100);
    cudaStream_t s = kernel_stream();
    CUDA(cudaMemcpyAsync(a, host, 100, cudaMemcpyHostToDevice, s));
    host[77] = 0;
    CUDA(cudaStreamSynchronize(s));
}

static void store_at(unsigned char *p, int free_it)
{
    cudaStream_t s = kernel_stream();
    CUDA(kernel_store(s, (int32_t *)(void *)p, 0));
    if (free_it) CUDA(cudaFree(p));
    CUDA(cudaStreamSynchronize(s));
}

static void kernel_beyond(void)
{
    store_at(alloc_device(256) + 256, 0);
}

static void kernel_before(void)
{
    store_at(alloc_device(4096) - 8, 0);
}

static void kernel_after_free(void)
{
    store_at(alloc_device(100), 1);
}

static void kernel_in_margin(void)
{
    unsigned char *a = alloc_device(100);
    store_at(a + 100, 0);
    CUDA(cudaFree(a));
}

static void kernel_in_front(void)
{
    unsigned char *a = alloc_device(100);
    store_at(a - 4, 0);
    CUDA(cudaFree(a));
}

static void kernel_without_peer_access(void)
{
    int32_t *a = kernel_int(1);
    CUDA(cudaSetDevice(1));
    store_at((unsigned char *)a, 0);
}

static void host_beyond_pinned(void)
{
    unsigned char *host = alloc_host(100);
    host[256] = 1;
}

static void host_in_margin(void)
{
    unsigned char *host = alloc_host(100);
    host[100] = 1;
    CUDA(cudaFreeHost(host));
}

static void host_after_free(void)
{
    unsigned char *host = alloc_host(100);
    CUDA(cudaFreeHost(host));
    CHECK(*(volatile unsigned char *)host == 0);
}

static void test_broken_rules(void **state)
{
    (void)state;
    child_is_ended(dereference,
                   "the host dereferences device memory: byte 0 of an allocation of 4");
    child_is_ended(dereference_after_work, "the host dereferences device memory");
    child_is_ended(copy_pageable_source, "cudaMemcpyAsync: 0x");
    child_is_ended(copy_pageable_target, "is pageable memory of the host");
    child_is_ended(copy_beyond, "cudaMemcpyAsync: bytes 0 to 101 of an allocation of 100 bytes");
    child_is_ended(copy_beyond_pinned, "cudaMemcpyAsync: bytes 50 to 101 of an allocation of 100");
    child_is_ended(set_beyond, "cudaMemsetAsync: bytes 99 to 101 of an allocation of 100 bytes");
    child_is_ended(copy_freed, "in an allocation of 100 bytes of device memory that was freed");
    child_is_ended(copy_onto_itself, "cudaMemcpyAsync: source and target overlap");
    child_is_ended(change_source, "the host wrote to the source of the copy");
    child_is_ended(kernel_beyond, "store uses byte 256 of an allocation of 256 bytes");
    child_is_ended(kernel_before, "store uses byte -8 of an allocation of 4096 bytes");
    child_is_ended(kernel_after_free, "store uses 0x");
    child_is_ended(kernel_in_margin,
                   "cudaFree: byte 100 of an allocation of 100 bytes was written");
    child_is_ended(kernel_in_front, "cudaFree: byte -4 of an allocation of 100 bytes was written");
    child_is_ended(kernel_without_peer_access, "store uses memory of device 0");
    child_is_ended(host_beyond_pinned, "the host uses byte 256 of an allocation of 100 bytes");
    child_is_ended(host_in_margin, "cudaFreeHost: byte 100 of an allocation of 100 bytes");
    child_is_ended(host_after_free, "the host uses 0x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_broken_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
