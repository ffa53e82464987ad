// cuda_time.cu -- writes the clock of the GPU when a stream comes to it. cuda_clock.c calls the host side. A recording
// holds it as any other kernel.
#include "device/cuda/gpu.h"

static __global__ void __launch_bounds__(GPU_WARP) time_kernel(int64_t *slot)
{
    if (threadIdx.x == 0) *slot = (int64_t)gpu_clock();
}

extern "C" void cuda_time(const cuda_context *x, int64_t *slot)
{
    gpu_launch(x, "time", time_kernel, dim3(1), dim3(GPU_WARP), 0, slot);
}
