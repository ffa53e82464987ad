// cuda_share.c -- sharing.h on GPUs. Processes get the memory of others by CUDA's IPC handles, which are
// of allocations, so a handle of ours has an offset, too. Ranks that are threads of one process have the
// same addresses. Flags lie in host memory that every process registers; streams write them and wait for
// them by the driver's stream memory operations, which a graph can hold. Called through device_ops.
//
// CUDA forbids to free memory that another process has open. So memory that was exported is freed when
// the communicator says that nobody has it open any more.
#include "device/cuda/cuda_share.h"

#include "base/alloc.h"
#include "base/proc.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

typedef __typeof__(cuStreamBatchMemOp) *batch_function;
typedef __typeof__(cuMemGetAddressRange) *range_function;
typedef __typeof__(cuDeviceGetAttribute) *attribute_function;

// The bytes of a device_handle.
typedef struct share_handle {
    cudaIpcMemHandle_t ipc;
    uint64_t offset,
        address;           // of the memory, in its allocation and in the process that exported it
    proc_identity process; // that exported it
    int32_t index;         // of its GPU
    int32_t refused;       // cudaError_t: CUDA gives no handle for other processes
} share_handle;
_Static_assert(sizeof(share_handle) <= DEVICE_HANDLE_BYTES, "a handle has room for it");

// An allocation of this GPU that was exported.
typedef struct share_export {
    char *base;
    cudaIpcMemHandle_t ipc;
    cudaError_t refused;
    bool released; // by its owner, and to be freed
} share_export;

// An allocation of another process.
typedef struct share_import {
    cudaIpcMemHandle_t ipc;
    char *base;
} share_import;

// Registered host memory.
typedef struct share_region {
    char *host, *device;
    size_t bytes;
} share_region;

struct cuda_share {
    proc_identity own; // of this process
    batch_function batch;
    range_function range;
    unsigned wait_flags; // of every wait
    share_export *exported;
    size_t exports, exports_room;
    share_import *imported;
    size_t imports, imports_room;
    share_region *region;
    size_t regions, regions_room;
    uint64_t peers; // bit i: the memory of GPU i may be used
};

static const char WHAT[] = "memory of other ranks";

static cuda_share *share_of(const device *d)
{
    return ((const cuda_device *)d)->share;
}

// ---- Opening

static status find_function(const cuda_device *d, const char *name, void *out, err *e)
{
    status result = OK;
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;
    TRY(cuda_status(
        d, cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found),
        name, e));
    if (!function) FAIL(E_INTERNAL, "%s: the driver has no %s", d->label, name);
    memcpy(out, &function, sizeof function);
done:
    return result;
}

status cuda_share_open(const cuda_device *d, cuda_share **out, err *e)
{
    status result = OK;
    cuda_share *s = NULL;
    attribute_function attribute = NULL;
    int flushes = 0;
    *out = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a device", e));
    TRY(proc_identify(&s->own, e));
    TRY(find_function(d, "cuStreamBatchMemOp", &s->batch, e));
    TRY(find_function(d, "cuMemGetAddressRange", &s->range, e));
    TRY(find_function(d, "cuDeviceGetAttribute", &attribute, e));
    (void)attribute(&flushes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, d->index);
    s->wait_flags =
        (unsigned)CU_STREAM_WAIT_VALUE_AND | (flushes ? (unsigned)CU_STREAM_WAIT_VALUE_FLUSH : 0);
    *out = s;
    s = NULL;
done:
    free(s);
    return result;
}

static void free_exported(device *base)
{
    cuda_share *s = share_of(base);
    (void)cuda_bind((const cuda_device *)base);
    for (size_t i = 0; i < s->exports; i++)
        if (s->exported[i].released) (void)cudaFree(s->exported[i].base);
    (void)cudaGetLastError();
    s->exports = 0;
}

static void close_imports(device *base)
{
    cuda_share *s = share_of(base);
    (void)cuda_bind((const cuda_device *)base);
    for (size_t i = 0; i < s->imports; i++) (void)cudaIpcCloseMemHandle(s->imported[i].base);
    (void)cudaGetLastError();
    s->imports = 0;
}

void cuda_share_close(cuda_share *s)
{
    if (!s) return;
    free(s->exported);
    free(s->imported);
    free(s->region);
    free(s);
}

bool cuda_share_keeps(cuda_share *s, void *p)
{
    for (size_t i = 0; s && i < s->exports; i++) {
        if (s->exported[i].base != p) continue;
        s->exported[i].released = true;
        return true;
    }
    return false;
}

// ---- Memory

// Calls that a capture of this thread would refuse do not touch its stream.
static enum cudaStreamCaptureMode relax(enum cudaStreamCaptureMode mode)
{
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

// The allocation that starts at `base`, which has a handle from now on.
static status find_export(const cuda_device *d, char *base, share_export **out, err *e)
{
    status result = OK;
    cuda_share *s = d->share;
    size_t i = 0;
    while (i < s->exports && s->exported[i].base != base) i++;
    if (i == s->exports) {
        TRY(alloc_grow(&s->exported, &s->exports_room, i + 1, sizeof *s->exported, WHAT, e));
        share_export *x = &s->exported[s->exports++];
        *x = (share_export){.base = base};
        const enum cudaStreamCaptureMode before = relax(cudaStreamCaptureModeRelaxed);
        x->refused = cudaIpcGetMemHandle(&x->ipc, base);
        relax(before);
        (void)cudaGetLastError();
    }
    *out = &s->exported[i];
done:
    return result;
}

static status export_memory(device *base, const void *p, device_handle *out, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    share_export *x = NULL;
    *out = (device_handle){{0}};
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(cuda_status(d, (cudaError_t)d->share->range(&start, &bytes, (CUdeviceptr)(uintptr_t)p),
                    "an export of memory", e));
    TRY(find_export(d, (char *)(uintptr_t)start, &x, e));
    const share_handle h = {.ipc = x->ipc,
                            .offset = (uint64_t)(uintptr_t)p - (uint64_t)start,
                            .address = (uint64_t)(uintptr_t)p,
                            .process = d->share->own,
                            .index = d->index,
                            .refused = (int32_t)x->refused};
    memcpy(out->bytes, &h, sizeof h);
done:
    return result;
}

// Lets this GPU use the memory of another GPU of the process.
static status use_peer(const cuda_device *d, int index, err *e)
{
    cuda_share *s = d->share;
    if (index == d->index || (s->peers >> (index & 63) & 1)) return OK;
    const enum cudaStreamCaptureMode before = relax(cudaStreamCaptureModeRelaxed);
    const cudaError_t code = cudaDeviceEnablePeerAccess(index, 0);
    relax(before);
    (void)cudaGetLastError();
    if (code != cudaSuccess && code != cudaErrorPeerAccessAlreadyEnabled)
        return err_set(e, E_IO, "%s cannot use the memory of device cuda %d: %s", d->label, index,
                       cudaGetErrorString(code));
    s->peers |= (uint64_t)1 << (index & 63);
    return OK;
}

static status open_handle(const cuda_device *d, const share_handle *h, char **out, err *e)
{
    status result = OK;
    cuda_share *s = d->share;
    void *base = NULL;
    for (size_t i = 0; i < s->imports; i++)
        if (memcmp(&s->imported[i].ipc, &h->ipc, sizeof h->ipc) == 0) {
            *out = s->imported[i].base;
            return OK;
        }
    TRY(alloc_grow(&s->imported, &s->imports_room, s->imports + 1, sizeof *s->imported, WHAT, e));
    const enum cudaStreamCaptureMode before = relax(cudaStreamCaptureModeRelaxed);
    const cudaError_t code =
        h->refused ? (cudaError_t)h->refused
                   : cudaIpcOpenMemHandle(&base, h->ipc, cudaIpcMemLazyEnablePeerAccess);
    relax(before);
    (void)cudaGetLastError();
    if (code != cudaSuccess)
        FAIL(E_IO, "%s cannot use the memory of process %llu on device cuda %d: %s (%s)", d->label,
             (unsigned long long)h->process.pid, h->index, cudaGetErrorString(code),
             cudaGetErrorName(code));
    s->imported[s->imports++] = (share_import){h->ipc, base};
    *out = base;
done:
    return result;
}

static status import_memory(device *base, const device_handle *from, void **out, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    share_handle h;
    char *start = NULL;
    memcpy(&h, from->bytes, sizeof h);
    *out = NULL;
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    if (memcmp(&h.process, &d->share->own, sizeof h.process) == 0) {
        TRY(use_peer(d, h.index, e));
        *out = (void *)(uintptr_t)h.address;
    } else {
        TRY(open_handle(d, &h, &start, e));
        *out = start + h.offset;
    }
done:
    return result;
}

// ---- Flags

// Ranks that are threads of one process register the same memory: the first one does it.
static status open_flags(device *base, void *memory, size_t bytes, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    cuda_share *s = d->share;
    void *on_device = NULL;
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(alloc_grow(&s->region, &s->regions_room, s->regions + 1, sizeof *s->region, WHAT, e));
    const cudaError_t code =
        cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (code == cudaErrorHostMemoryAlreadyRegistered)
        (void)cudaGetLastError();
    else
        TRY(cuda_status(d, code, "the registration of host memory", e));
    TRY(cuda_status(d, cudaHostGetDevicePointer(&on_device, memory, 0),
                    "the address of host memory", e));
    s->region[s->regions++] = (share_region){memory, on_device, bytes};
done:
    return result;
}

static void close_flags(device *base, void *memory, bool is_last)
{
    const cuda_device *d = (const cuda_device *)base;
    cuda_share *s = d->share;
    size_t i = 0;
    (void)cuda_bind(d);
    while (i < s->regions && s->region[i].host != memory) i++;
    if (i < s->regions) s->region[i] = s->region[--s->regions];
    if (is_last) (void)cudaHostUnregister(memory);
    (void)cudaGetLastError();
}

static CUdeviceptr address_of(const cuda_share *s, const void *p)
{
    const char *byte = p;
    for (size_t i = 0; i < s->regions; i++)
        if (byte >= s->region[i].host && byte < s->region[i].host + s->region[i].bytes)
            return (CUdeviceptr)(uintptr_t)(s->region[i].device + (byte - s->region[i].host));
    return 0; // the driver refuses it
}

static CUstreamBatchMemOpParams write_of(const cuda_share *s, const device_flag *f, uint32_t value)
{
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    p.writeValue.address = address_of(s, &f->is_set);
    p.writeValue.value = value;
    return p;
}

// Both halves of a flag are one word: the low half says that it is set, the high one that it is released.
static CUstreamBatchMemOpParams wait_of(const cuda_share *s, const device_flag *f)
{
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    p.waitValue.address = address_of(s, f);
    p.waitValue.value64 = (uint64_t)1 | (uint64_t)1 << 32;
    p.waitValue.flags = s->wait_flags;
    return p;
}

// A GPU looks at a flag for a later wait while earlier work of the stream is still under way. It would see what this wait
// has not yet taken away, so the stream goes on when the flag reads as not set.
static CUstreamBatchMemOpParams gone_of(const cuda_share *s, const device_flag *f)
{
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p.waitValue.address = address_of(s, &f->is_set);
    p.waitValue.value = 0;
    p.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    return p;
}

static void issue(device_stream *base, CUstreamBatchMemOpParams *p, int count, const char *what)
{
    cuda_stream *s = (cuda_stream *)base;
    if (count == 0) return;
    (void)cuda_bind((const cuda_device *)base->device);
    const CUresult code = share_of(base->device)->batch(s->handle, (unsigned)count, p, 0);
    cuda_stream_failed(s, (cudaError_t)code, what); // the numbers are the same
}

static void set_flags(device_stream *on, device_flag *const *flags, int count)
{
    CUstreamBatchMemOpParams p[DEVICE_FLAGS_AT_ONCE];
    for (int i = 0; i < count; i++) p[i] = write_of(share_of(on->device), flags[i], 1);
    issue(on, p, count, "flags for other ranks");
}

static void wait_flags(device_stream *on, device_flag *const *flags, int count)
{
    CUstreamBatchMemOpParams p[3 * DEVICE_FLAGS_AT_ONCE];
    for (int i = 0; i < count; i++) {
        p[i] = wait_of(share_of(on->device), flags[i]);
        p[count + i] = write_of(share_of(on->device), flags[i], 0);
        p[2 * count + i] = gone_of(share_of(on->device), flags[i]);
    }
    issue(on, p, 3 * count, "a wait for other ranks");
}

const device_sharing CUDA_SHARING = {.export_memory = export_memory,
                                     .import_memory = import_memory,
                                     .close_imports = close_imports,
                                     .free_exported = free_exported,
                                     .open_flags = open_flags,
                                     .close_flags = close_flags,
                                     .set_flags = set_flags,
                                     .wait_flags = wait_flags};
