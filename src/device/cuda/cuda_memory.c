// cuda_memory.c -- memory of the cuda device: on the GPU, and pinned on the host. Called through
// device_ops before the first step and after the last. It does not count; device.c does.
#include "base/proc.h"
#include "device/cuda/cuda_own.h"
#include "device/cuda/cuda_share.h"

#include <stdio.h>

// Zeros a new block. The streams of a rank do not wait for `setup`, so the host does.
static cudaError_t fill_zeros(const cuda_device *d, void *p, size_t bytes)
{
    const cudaError_t code = cudaMemsetAsync(p, 0, bytes, d->setup);
    return code == cudaSuccess ? cudaStreamSynchronize(d->setup) : code;
}

static cudaError_t take(const cuda_device *d, device_memory_kind kind, size_t bytes, void **out)
{
    // Pinned for every GPU: ranks that are threads of one process read each other's host memory.
    if (kind == MEMORY_HOST) return cudaHostAlloc(out, bytes, cudaHostAllocPortable);
    cudaError_t code = cudaMalloc(out, bytes);
    if (code != cudaSuccess || kind != MEMORY_ZEROED) return code;
    code = fill_zeros(d, *out, bytes);
    if (code != cudaSuccess) cudaFree(*out);
    return code;
}

static status does_not_fit(const cuda_device *d, device_memory_kind kind, size_t bytes, err *e)
{
    size_t free_bytes = 0, total = 0;
    (void)cudaGetLastError(); // the call that failed is answered; the next launch must not find it
    if (kind == MEMORY_HOST)
        return err_set(e, E_FIT,
                       "%s: out of pinned host memory: %zu bytes asked for, %llu available",
                       d->label, bytes, (unsigned long long)proc_available_bytes());
    (void)cudaMemGetInfo(&free_bytes, &total);
    return err_set(e, E_FIT, "%s: CUDA out of memory: %zu bytes asked for, %zu free of %zu",
                   d->label, bytes, free_bytes, total);
}

status cuda_alloc(device *base, device_memory_kind kind, size_t bytes, void **out, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    *out = NULL;
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    const cudaError_t code = take(d, kind, bytes ? bytes : DEVICE_ALIGN, out);
    if (code == cudaErrorMemoryAllocation) return does_not_fit(d, kind, bytes, e);
    TRY(cuda_status(d, code, "an allocation", e));
done:
    return result;
}

void cuda_release(device *base, device_memory_kind kind, void *p)
{
    if (!p || (kind != MEMORY_HOST && cuda_share_keeps(((cuda_device *)base)->share, p))) return;
    (void)cuda_bind((const cuda_device *)base);
    // A failure here is an older one of asynchronous work, which the stream's sync reports.
    (void)(kind == MEMORY_HOST ? cudaFreeHost(p) : cudaFree(p));
    (void)cudaGetLastError();
}
