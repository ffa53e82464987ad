// cuda_own.h -- the inside of the cuda device, for its own files: cuda_device.c opens it and launches,
// cuda_memory.c has its memory, cuda_stream.c its streams and events, cuda_capture.c its recordings,
// cuda_clock.c its clock.
//
// A rank has one GPU. Its calls may come from any thread: every function makes the GPU the current one of
// its thread first, which costs nothing where it is so already.
#ifndef TRIREME_DEVICE_CUDA_CUDA_OWN_H
#define TRIREME_DEVICE_CUDA_CUDA_OWN_H

#include "device/cuda/cuda.h"
#include "device/device.h"

enum { CUDA_LABEL_BYTES = 128 };

// How the clock of a GPU lies beside that of the host (cuda_clock.c).
typedef struct cuda_clock {
    int64_t *slot; // pinned
    int64_t offset_ns, error_ns, compared_ns;
} cuda_clock;

typedef struct cuda_device {
    device base;
    int index;                    // among the GPUs that this process sees
    char label[CUDA_LABEL_BYTES]; // for messages: "device cuda 0 (NVIDIA H100 80GB HBM3)"
    struct cuda_blas *blas;
    struct cuda_dnn *dnn; // NULL: own kernels compute attention
    cudaStream_t setup;   // writes the zeros of new memory
    cuda_clock clock;
    struct cuda_share *share;
    struct cuda_nccl *nccl; // NULL: no communicator has asked for it
    // Of streams, so that communication and copies start while the computation has blocks left.
    int priority[STREAMS];
} cuda_device;

typedef struct cuda_stream {
    device_stream base;
    cudaStream_t handle;
    err failure; // the first since the last sync; code OK when none
} cuda_stream;

// Makes the GPU the current one of the calling thread.
cudaError_t cuda_bind(const cuda_device *d);

// Sets the error of a call of CUDA: "LABEL: WHAT: MESSAGE", and that the GPU is lost to this process where
// it is. E_FIT where memory lacked, else E_INTERNAL. OK for cudaSuccess.
status cuda_status(const cuda_device *d, cudaError_t code, const char *what, err *e);

// The first failure of the stream stays until its next sync. Does nothing for cudaSuccess.
void cuda_stream_failed(cuda_stream *s, cudaError_t code, const char *what);

// After the stream `setup` is open.
status cuda_clock_open(cuda_device *d, err *e);
void cuda_clock_close(cuda_device *d);

// The functions of device_ops.
status cuda_alloc(device *base, device_memory_kind kind, size_t bytes, void **out, err *e);
void cuda_release(device *base, device_memory_kind kind, void *p);
status cuda_stream_open(device *base, device_stream_kind kind, bool own_thread, device_stream **out,
                        err *e);
void cuda_stream_close(device_stream *s);
status cuda_event_open(device *d, device_event **out, err *e);
void cuda_event_close(device_event *v);
void cuda_record(device_event *v, device_stream *s);
void cuda_wait(device_stream *s, device_event *v);
void cuda_event_sync(device_event *v);
status cuda_sync(device_stream *s, err *e);
void cuda_stamp(device_stream *s, int64_t *slot);
// cuda_range.c
void cuda_range_begin(device *d, const char *name, int64_t number);
void cuda_range_end(device *d);
int64_t cuda_clock_offset(device *d);
void cuda_copy(device_stream *s, void *dst, const void *src, size_t bytes);
status cuda_capture_begin(device_stream *s, err *e);
status cuda_capture_end(device_stream *s, device_recording **out, err *e);
status cuda_replay(device_recording *r, device_stream *s, err *e);
void cuda_recording_close(device_recording *r);

#endif
