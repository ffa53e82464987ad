// runtime_error.cc -- errors of the CUDA runtime's stand-in: their names and texts, the last one of each
// thread, and the end of the process where a rule is broken that CUDA would not notice.
#include "runtime_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace
{

struct row {
    cudaError_t code;
    const char *name, *text;
};

#define ROW(name, text)                                                                            \
    {                                                                                              \
        name, #name, text                                                                          \
    }
const row ROWS[] = {
    ROW(cudaSuccess, "no error"),
    ROW(cudaErrorInvalidValue, "invalid argument"),
    ROW(cudaErrorMemoryAllocation, "out of memory"),
    ROW(cudaErrorInitializationError, "initialization error"),
    ROW(cudaErrorCudartUnloading, "driver shutting down"),
    ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ROW(cudaErrorInvalidSymbol, "invalid device symbol"),
    ROW(cudaErrorInvalidHostPointer, "invalid host pointer"),
    ROW(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ROW(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    ROW(cudaErrorInsufficientDriver,
        "CUDA driver version is insufficient for CUDA runtime version"),
    ROW(cudaErrorCallRequiresNewerDriver, "API call is not supported in the installed CUDA driver"),
    ROW(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    ROW(cudaErrorDeviceUninitialized, "invalid device context"),
    ROW(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    ROW(cudaErrorAlreadyMapped, "resource already mapped"),
    ROW(cudaErrorNoKernelImageForDevice,
        "no kernel image is available for execution on the device"),
    ROW(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ROW(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ROW(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ROW(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ROW(cudaErrorSymbolNotFound, "named symbol not found"),
    ROW(cudaErrorNotReady, "device not ready"),
    ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ROW(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ROW(cudaErrorContextIsDestroyed, "context is destroyed"),
    ROW(cudaErrorAssert, "device-side assert triggered"),
    ROW(cudaErrorTooManyPeers, "peer mapping resources exhausted"),
    ROW(cudaErrorHostMemoryAlreadyRegistered,
        "part or all of the requested memory range is already mapped"),
    ROW(cudaErrorHostMemoryNotRegistered,
        "pointer does not correspond to a registered memory region"),
    ROW(cudaErrorHardwareStackError, "hardware stack error"),
    ROW(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    ROW(cudaErrorMisalignedAddress, "misaligned address"),
    ROW(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"),
    ROW(cudaErrorInvalidPc, "invalid program counter"),
    ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    ROW(cudaErrorNotPermitted, "operation not permitted"),
    ROW(cudaErrorNotSupported, "operation not supported"),
    ROW(cudaErrorSystemDriverMismatch,
        "system has unsupported display driver / cuda driver combination"),
    ROW(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ROW(cudaErrorStreamCaptureInvalidated,
        "operation failed due to a previous error during capture"),
    ROW(cudaErrorStreamCaptureMerge,
        "operation would result in a merge of separate capture sequences"),
    ROW(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ROW(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ROW(cudaErrorStreamCaptureImplicit,
        "operation would make the legacy stream depend on a capturing blocking stream"),
    ROW(cudaErrorCapturedEvent,
        "operation not permitted on an event last recorded in a capturing stream"),
    ROW(cudaErrorStreamCaptureWrongThread,
        "attempt to terminate a thread-local capture sequence from another thread"),
    ROW(cudaErrorTimeout, "wait operation timed out"),
    ROW(cudaErrorUnknown, "unknown error"),
};

const row *row_of(cudaError_t code)
{
    for (const row &r : ROWS)
        if (r.code == code) return &r;
    return nullptr;
}

thread_local cudaError_t last = cudaSuccess;
thread_local const char *running;

} // namespace

namespace stand_in
{

cudaError_t report(cudaError_t error)
{
    if (error != cudaSuccess) last = error;
    return error;
}

const char *running_name()
{
    return running;
}

void set_running_name(const char *name)
{
    running = name;
}

int64_t now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

} // namespace stand_in

extern "C" {

void stand_in_die(const char *format, ...)
{
    char text[640] = "cuda stand-in: ";
    const size_t head = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + head, sizeof text - head - 2, format, list);
    va_end(list);
    const size_t bytes = strlen(text);
    text[bytes] = '\n';
    if (write(STDERR_FILENO, text, bytes + 1) < 0) _exit(2);
    _exit(1);
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const row *r = row_of(error);
    return r ? r->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    const row *r = row_of(error);
    return r ? r->text : "unrecognized error code";
}
}
