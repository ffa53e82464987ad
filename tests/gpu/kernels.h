// kernels.h -- pieces of work for tests of the stand-in's runtime, written as functions of the host: they run
// where kernels run, and see memory as kernels do.
#ifndef TRIREME_GPU_KERNELS_H
#define TRIREME_GPU_KERNELS_H

#include "stand_in/runtime.h"

#include "child.h"

typedef struct kernel_args {
    volatile int32_t *out;
    const volatile int32_t *in;
    int32_t n;
} kernel_args;

static inline void kernel_release(void *state)
{
    free(state);
}

static inline cudaError_t kernel_start(cudaStream_t s, const char *name, void (*run)(void *),
                                       int32_t *out, const int32_t *in, int32_t n)
{
    kernel_args *args = malloc(sizeof *args);
    *args = (kernel_args){out, in, n};
    return stand_in_issue(
        s, (stand_in_work){.name = name, .run = run, .release = kernel_release, .state = args});
}

static inline void kernel_run_store(void *state)
{
    const kernel_args *a = state;
    *a->out = a->n;
}
// *out = n
static inline cudaError_t kernel_store(cudaStream_t s, int32_t *out, int32_t n)
{
    return kernel_start(s, "store", kernel_run_store, out, NULL, n);
}

static inline void kernel_run_add(void *state)
{
    const kernel_args *a = state;
    *a->out = *a->in + a->n;
}
// *out = *in + n
static inline cudaError_t kernel_add(cudaStream_t s, int32_t *out, const int32_t *in, int32_t n)
{
    return kernel_start(s, "add", kernel_run_add, out, in, n);
}

static inline void kernel_run_append(void *state)
{
    const kernel_args *a = state;
    *a->out = *a->out * 10 + a->n;
}
// *out = 10 *out + n
static inline cudaError_t kernel_append(cudaStream_t s, int32_t *out, int32_t n)
{
    return kernel_start(s, "append", kernel_run_append, out, NULL, n);
}

// An int of device memory with a value; and its value, by blocking copies.
static inline int32_t *kernel_int(int32_t value)
{
    void *out;
    CUDA(cudaMalloc(&out, sizeof value));
    CUDA(cudaMemcpy(out, &value, sizeof value, cudaMemcpyHostToDevice));
    return out;
}
static inline int32_t kernel_value(const int32_t *p)
{
    int32_t value;
    CUDA(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static inline cudaStream_t kernel_stream(void)
{
    cudaStream_t s;
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static inline cudaEvent_t kernel_event(void)
{
    cudaEvent_t v;
    CUDA(cudaEventCreateWithFlags(&v, cudaEventDisableTiming));
    return v;
}

#endif
