// cuda_capture.c -- recordings of the cuda device: CUDA graphs that stream capture makes. Called through
// device_ops by the trainer (train/captures.c). It does not know what is recorded.
//
// The capture is of the calling thread: other ranks of the process allocate and wait meanwhile. Each node keeps the priority
// of its stream: without the flag for it all would run with that of the compute stream, the lowest.
#include "device/cuda/cuda_own.h"

#include <stdlib.h>

typedef struct cuda_recording {
    device_recording base;
    cudaGraphExec_t handle;
} cuda_recording;

static const cuda_device *device_of(const device_stream *s)
{
    return (const cuda_device *)s->device;
}

status cuda_capture_begin(device_stream *s, err *e)
{
    status result = OK;
    const cuda_device *d = device_of(s);
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(cuda_status(
        d, cudaStreamBeginCapture(((cuda_stream *)s)->handle, cudaStreamCaptureModeThreadLocal),
        "a recording", e));
done:
    return result;
}

// The failure of a call that may not be recorded says more than that of the recording, which follows.
static status first_failure(cuda_stream *s, err *e)
{
    const status result = s->failure.code;
    if (result != OK && e) *e = s->failure;
    s->failure.code = OK;
    return result == OK ? OK : E_INTERNAL;
}

status cuda_capture_end(device_stream *base, device_recording **out, err *e)
{
    status result = OK;
    cuda_stream *s = (cuda_stream *)base;
    const cuda_device *d = device_of(base);
    cudaGraph_t graph = NULL;
    cuda_recording *r = NULL;
    *out = NULL;
    (void)cuda_bind(d);
    const cudaError_t ended = cudaStreamEndCapture(s->handle, &graph);
    TRY(first_failure(s, e));
    TRY(cuda_status(d, ended, "a recording", e));
    r = calloc(1, sizeof *r);
    if (!r) FAIL(E_FIT, "out of memory for a recording");
    r->base.device = base->device;
    TRY(cuda_status(
        d, cudaGraphInstantiate(&r->handle, graph, cudaGraphInstantiateFlagUseNodePriority),
        "a recording", e));
    *out = &r->base;
    r = NULL;
done:
    free(r);
    if (graph) (void)cudaGraphDestroy(graph);
    return result;
}

status cuda_replay(device_recording *r, device_stream *s, err *e)
{
    const cuda_device *d = device_of(s);
    (void)cuda_bind(d);
    const cudaError_t code =
        cudaGraphLaunch(((cuda_recording *)r)->handle, ((cuda_stream *)s)->handle);
    return cuda_status(d, code, "a replay", e);
}

void cuda_recording_close(device_recording *r)
{
    if (!r) return;
    (void)cudaGraphExecDestroy(((cuda_recording *)r)->handle);
    (void)cudaGetLastError();
    free(r);
}
