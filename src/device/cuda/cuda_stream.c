// cuda_stream.c -- streams, events and copies of the cuda device. Called through device_ops. A failure of
// work that was issued is kept by its stream, and its next sync returns it. It knows no kernel.
#include "device/cuda/cuda_own.h"

#include <stdlib.h>

typedef struct cuda_event {
    device_event base;
    cudaEvent_t handle;
} cuda_event;

static const cuda_device *device_of(const cuda_stream *s)
{
    return (const cuda_device *)s->base.device;
}

static const char *name_of(device_stream_kind kind)
{
    static const char *const names[STREAMS] = {[STREAM_COMPUTE] = "compute stream",
                                               [STREAM_COMM] = "communication stream",
                                               [STREAM_COPY] = "copy stream"};
    return names[kind];
}

// ---- Failures

// Errors after which every call of the process to this GPU fails.
static bool is_sticky(cudaError_t code)
{
    static const cudaError_t sticky[] = {
        cudaErrorIllegalAddress,      cudaErrorLaunchTimeout,      cudaErrorAssert,
        cudaErrorHardwareStackError,  cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,          cudaErrorLaunchFailure,
        cudaErrorECCUncorrectable,    cudaErrorContextIsDestroyed};
    for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
        if (code == sticky[i]) return true;
    return false;
}

status cuda_status(const cuda_device *d, cudaError_t code, const char *what, err *e)
{
    if (code == cudaSuccess) return OK;
    (void)cudaGetLastError();
    const bool is_memory = code == cudaErrorMemoryAllocation; // users search for PyTorch's words
    return err_set(e, is_memory ? E_FIT : E_INTERNAL, "%s: %s: %s%s (%s)%s", d->label, what,
                   is_memory ? "CUDA " : "", cudaGetErrorString(code), cudaGetErrorName(code),
                   is_sticky(code) ? "; the GPU is lost to this process: the failure is one of a "
                                     "kernel or of the hardware"
                                   : "");
}

void cuda_stream_failed(cuda_stream *s, cudaError_t code, const char *what)
{
    if (code == cudaSuccess) return;
    if (s->failure.code != OK) {
        (void)cudaGetLastError();
        return;
    }
    s->failure.code = cuda_status(device_of(s), code, what, &s->failure);
    err_prefix(&s->failure, "%s: ", name_of(s->base.kind));
}

status cuda_sync(device_stream *base, err *e)
{
    cuda_stream *s = (cuda_stream *)base;
    (void)cuda_bind(device_of(s));
    cuda_stream_failed(s, cudaStreamSynchronize(s->handle), "work of the stream");
    const status result = s->failure.code;
    if (result != OK && e) *e = s->failure;
    s->failure.code = OK;
    return result == OK ? device_failure_of_peers(base->device, e) : result;
}

// ---- Streams

status cuda_stream_open(device *base, device_stream_kind kind, bool own_thread, device_stream **out,
                        err *e)
{
    (void)own_thread; // no stream of a GPU delays another
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    cuda_stream *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_FIT, "out of memory for a stream");
    s->base = (device_stream){.device = base, .kind = kind};
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(cuda_status(
        d, cudaStreamCreateWithPriority(&s->handle, cudaStreamNonBlocking, d->priority[kind]),
        "a stream", e));
    *out = &s->base;
    s = NULL;
done:
    free(s);
    return result;
}

void cuda_stream_close(device_stream *base)
{
    cuda_stream *s = (cuda_stream *)base;
    if (!s) return;
    (void)cuda_bind(device_of(s));
    (void)cudaStreamSynchronize(s->handle);
    (void)cudaStreamDestroy(s->handle);
    (void)cudaGetLastError();
    free(s);
}

void cuda_copy(device_stream *base, void *dst, const void *src, size_t bytes)
{
    cuda_stream *s = (cuda_stream *)base;
    if (bytes == 0) return;
    (void)cuda_bind(device_of(s));
    cuda_stream_failed(s, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, s->handle), "a copy");
}

// ---- Events

status cuda_event_open(device *base, device_event **out, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    cuda_event *v = calloc(1, sizeof *v);
    if (!v) FAIL(E_FIT, "out of memory for an event");
    v->base.device = base;
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(cuda_status(d, cudaEventCreateWithFlags(&v->handle, cudaEventDisableTiming), "an event",
                    e));
    *out = &v->base;
    v = NULL;
done:
    free(v);
    return result;
}

void cuda_event_close(device_event *base)
{
    cuda_event *v = (cuda_event *)base;
    if (!v) return;
    (void)cudaEventDestroy(v->handle);
    (void)cudaGetLastError();
    free(v);
}

void cuda_record(device_event *v, device_stream *base)
{
    cuda_stream *s = (cuda_stream *)base;
    (void)cuda_bind(device_of(s));
    cuda_stream_failed(s, cudaEventRecord(((cuda_event *)v)->handle, s->handle), "an event");
}

void cuda_wait(device_stream *base, device_event *v)
{
    cuda_stream *s = (cuda_stream *)base;
    (void)cuda_bind(device_of(s));
    cuda_stream_failed(s, cudaStreamWaitEvent(s->handle, ((cuda_event *)v)->handle, 0),
                       "a wait for an event");
}

// A failure of the work is returned by the sync of its stream.
void cuda_event_sync(device_event *v)
{
    (void)cudaEventSynchronize(((cuda_event *)v)->handle);
    (void)cudaGetLastError();
}
