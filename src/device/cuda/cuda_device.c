// cuda_device.c -- opens and closes the cuda device, and launches kernels on its streams. Called through
// device_ops and by registry.c. It knows no kernel: cuda_kernels.c has their table.
#include "device/cuda/cuda_device.h"

#include "base/text.h"
#include "device/cuda/cuda_own.h"
#include "device/cuda/cuda_share.h"
#include "device/cuda/libraries/cuda_blas.h"
#include "device/cuda/libraries/cuda_dnn.h"
#include "device/cuda/libraries/cuda_nccl.h"

#include <stdio.h>
#include <stdlib.h>

cudaError_t cuda_bind(const cuda_device *d)
{
    return cudaSetDevice(d->index);
}

// ---- Launches

void cuda_failed(const cuda_context *x, const char *what, const char *message)
{
    if (x->failure->code == OK) err_set(x->failure, E_INTERNAL, "%s: %s", what, message);
}

void cuda_check_launch(const cuda_context *x, const char *what)
{
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) cuda_failed(x, what, cudaGetErrorString(code));
}

size_t cuda_most_shared(void)
{
    int gpu, most = CUDA_SHARED_BYTES;
    if (cudaGetDevice(&gpu) == cudaSuccess)
        (void)cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu);
    return (size_t)most;
}

// The limit is always the most that the GPU has: with the bytes of this launch, another thread that launches
// the same kernel with fewer bytes would take it back.
void cuda_allow_shared(const void *kernel, size_t bytes)
{
    if (bytes > CUDA_SHARED_BYTES)
        (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)cuda_most_shared());
}

static void launch(device_stream *base, const kernel_call *call)
{
    cuda_stream *s = (cuda_stream *)base;
    const cuda_device *d = (const cuda_device *)base->device;
    const cuda_context x = {.stream = s->handle,
                            .workspace = call->workspace,
                            .workspace_bytes = call->workspace_bytes,
                            .blas = d->blas,
                            .dnn = d->dnn,
                            .failure = &s->failure};
    const size_t needed = kernel_workspace_bytes(&CUDA_NEEDS, call);
    const bool failed = s->failure.code != OK;
    (void)cuda_bind(d);
    if (call->workspace_bytes < needed) {
        if (!failed)
            err_set(&s->failure, E_INTERNAL, "%s: a workspace of %zu bytes; needed are %zu",
                    kernel_name(call->kind), call->workspace_bytes, needed);
    } else {
        CUDA_KERNELS[call->kind](&x, &call->u);
    }
    if (s->failure.code != OK && !failed) err_prefix(&s->failure, "%s: ", d->label);
}

static status prepare(device *base, const kernel_call *call, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(cuda_blas_prepare(d->blas, call, e));
    TRY(cuda_dnn_prepare(d->dnn, call, e));
done:
    return result;
}

// ---- Opening and closing

static void close_device(device *base)
{
    cuda_device *d = (cuda_device *)base;
    (void)cuda_bind(d);
    cuda_dnn_close(d->dnn);
    cuda_blas_close(d->blas);
    cuda_share_close(d->share);
    cuda_nccl_close(d->nccl);
    cuda_clock_close(d);
    if (d->setup) (void)cudaStreamDestroy(d->setup);
    (void)cudaGetLastError();
    free(d);
}

static const device_ops cuda_ops = {
    .name = "cuda",
    .close = close_device,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .record = cuda_record,
    .wait = cuda_wait,
    .event_sync = cuda_event_sync,
    .sync = cuda_sync,
    .copy = cuda_copy,
    .prepare = prepare,
    .launch = launch,
    .stamp = cuda_stamp,
    .range_begin = cuda_range_begin,
    .range_end = cuda_range_end,
    .clock_offset = cuda_clock_offset,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .replay = cuda_replay,
    .recording_close = cuda_recording_close,
    .sharing = &CUDA_SHARING,
    .collectives = &CUDA_COLLECTIVES,
};

// The first call to a GPU makes its context, which takes most of the time of opening.
static status open_context(cuda_device *d, err *e)
{
    status result = OK;
    int least, greatest;
    struct cudaDeviceProp known;
    snprintf(d->label, sizeof d->label, "device cuda %d", d->index);
    TRY(cuda_status(d, cuda_bind(d), "the GPU cannot be used", e));
    TRY(cuda_status(d, cudaGetDeviceProperties(&known, d->index), "its properties", e));
    snprintf(d->label, sizeof d->label, "device cuda %d (%.*s)", d->index,
             TEXT_CUT(known.name, 90));
    TRY(cuda_status(d, cudaDeviceGetStreamPriorityRange(&least, &greatest), "its priorities", e));
    d->priority[STREAM_COMPUTE] = least;
    d->priority[STREAM_COMM] = greatest;
    d->priority[STREAM_COPY] = greatest;
    TRY(cuda_status(d, cudaStreamCreateWithFlags(&d->setup, cudaStreamNonBlocking), "a stream", e));
done:
    return result;
}

status cuda_device_open(const device_options *o, device **out, err *e)
{
    status result = OK;
    cuda_device *d = calloc(1, sizeof *d);
    if (!d) FAIL(E_FIT, "out of memory for a device");
    d->base.ops = &cuda_ops;
    d->base.needs = &CUDA_NEEDS;
    d->index = o->index;
    TRY(open_context(d, e));
    TRY(cuda_clock_open(d, e));
    TRY(cuda_share_open(d, &d->share, e));
    TRY(cuda_blas_open(&d->blas, e));
    TRY(cuda_dnn_open(&d->dnn, NULL, e));
    if (!d->dnn) d->base.needs = &CUDA_NEEDS_WITHOUT_CUDNN;
    d->base.bytes_scratch = cuda_own_bytes();
    device_count_taken(&d->base, d->base.bytes_scratch);
    *out = &d->base;
done:
    if (result != OK && d) close_device(&d->base);
    return result;
}
