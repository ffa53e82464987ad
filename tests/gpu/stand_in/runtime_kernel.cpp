// runtime_kernel.cc -- what the CUDA runtime's stand-in checks of a kernel's launch: the shape, and the shared
// memory that the kernel was promised. Kernels themselves are the matter of gpu_stand_in.h.
#include "runtime_device.h"

namespace stand_in
{

static int shared_limit(const void *func)
{
    const auto found = the().shared_limits.find(func);
    return found == the().shared_limits.end() ? 48 * 1024 : found->second;
}

static cudaError_t check_launch(const void *func, dim3 grid, dim3 block, size_t shared_bytes)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (!threads || threads > 1024 || block.z > 64) return cudaErrorInvalidConfiguration;
    if (shared_bytes > (size_t)shared_limit(func)) return cudaErrorInvalidValue;
    return cudaSuccess;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t stand_in_launch(const void *func, dim3 grid, dim3 block, size_t shared_bytes,
                            cudaStream_t stream, stand_in_work work)
{
    cudaError_t error;
    {
        guard g(the().mutex);
        if (begin(&error)) error = check_launch(func, grid, block, shared_bytes);
    }
    if (!error) return stand_in_issue(stream, work);
    if (work.release) work.release(work.state);
    return report(error);
}

cudaError_t cudaFuncSetAttribute(const void *func, cudaFuncAttribute attribute, int value)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    if (!func) return report(cudaErrorInvalidDeviceFunction);
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > shared_bytes_most()) return report(cudaErrorInvalidValue);
        the().shared_limits[func] = value;
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        return report(value < -1 || value > 100 ? cudaErrorInvalidValue : cudaSuccess);
    }
    return report(cudaErrorInvalidValue);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *func)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    if (!out) return report(cudaErrorInvalidValue);
    if (!func) return report(cudaErrorInvalidDeviceFunction);
    *out = cudaFuncAttributes();
    out->maxThreadsPerBlock = 1024;
    out->numRegs = 32;
    out->ptxVersion = out->binaryVersion = arch();
    out->maxDynamicSharedSizeBytes = shared_limit(func);
    return cudaSuccess;
}
}
