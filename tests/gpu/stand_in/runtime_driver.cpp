// runtime_driver.cc -- functions of the CUDA driver that programs look up by name: waits of streams for values
// in memory, and writes of them. Other streams, devices and processes write and read those values.
#include "runtime_device.h"

#include <cuda.h>
#include <string.h>

namespace stand_in
{

static char *word_of(const op &o)
{
    return usable(o.call, o.dst, o.bytes);
}

bool is_value_reached(const op &o)
{
    char *word = word_of(o);
    const bool wide = o.bytes == sizeof(uint64_t);
    const uint64_t now = wide ? __atomic_load_n((uint64_t *)word, __ATOMIC_ACQUIRE)
                              : __atomic_load_n((uint32_t *)word, __ATOMIC_ACQUIRE);
    switch (o.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == o.value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & o.value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return wide ? ~(now | o.value) != 0 : (uint32_t) ~(now | o.value) != 0;
    default:
        return wide ? (int64_t)(now - o.value) >= 0 : (int32_t)(uint32_t)(now - o.value) >= 0;
    }
}

void run_write_value(const op &o)
{
    char *word = word_of(o);
    if (o.bytes == sizeof(uint64_t))
        __atomic_store_n((uint64_t *)word, o.value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)word, (uint32_t)o.value, __ATOMIC_RELEASE);
}

static CUresult value_op(op_kind kind, const char *call, CUstream stream, CUdeviceptr address,
                         size_t bytes, uint64_t value, unsigned flags)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return (CUresult)error;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return (CUresult)error;
    if (address % bytes || !find_block((void *)address)) return CUDA_ERROR_INVALID_VALUE;
    op o = {};
    o.kind = kind;
    o.call = call;
    o.dst = (void *)address;
    o.bytes = bytes;
    o.value = value;
    o.flags = flags;
    word_of(o);
    return (CUresult)issue(g, s, o);
}

extern "C" {

static CUresult wait_of(const char *call, CUstream stream, CUdeviceptr address, size_t bytes,
                        uint64_t value, unsigned flags)
{
    // CU_STREAM_WAIT_VALUE_FLUSH needs an attribute that these devices lack.
    if (flags > CU_STREAM_WAIT_VALUE_NOR)
        return flags & CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED
                                                  : CUDA_ERROR_INVALID_VALUE;
    return value_op(op_kind::WAIT_VALUE, call, stream, address, bytes, value, flags);
}

static CUresult write_of(const char *call, CUstream stream, CUdeviceptr address, size_t bytes,
                         uint64_t value, unsigned flags)
{
    if (flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_NOT_SUPPORTED;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    return value_op(op_kind::WRITE_VALUE, call, stream, address, bytes, value, flags);
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return wait_of("cuStreamWaitValue32", stream, address, sizeof value, value, flags);
}

static CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return write_of("cuStreamWriteValue32", stream, address, sizeof value, value, flags);
}

static CUresult batch(CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops,
                      unsigned flags)
{
    static const char call[] = "cuStreamBatchMemOp";
    CUresult result = CUDA_SUCCESS;
    if (flags || count >= 256 || (count && !ops)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
        const auto &p = ops[i].waitValue;
        switch (p.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            result = wait_of(call, stream, p.address, sizeof p.value, p.value, p.flags);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            result = wait_of(call, stream, p.address, sizeof p.value64, p.value64, p.flags);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            result = write_of(call, stream, p.address, sizeof p.value, p.value, p.flags);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            result = write_of(call, stream, p.address, sizeof p.value64, p.value64, p.flags);
            break;
        default:
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return result;
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return (CUresult)error;
    const block *b = find_block((void *)address);
    if (!b || !b->live || b->kind == block_kind::PINNED || b->kind == block_kind::REGISTERED)
        return CUDA_ERROR_INVALID_VALUE;
    if (base) *base = (CUdeviceptr)b->start;
    if (bytes) *bytes = b->bytes;
    return CUDA_SUCCESS;
}

static CUresult error_string(CUresult error, const char **text)
{
    *text = cudaGetErrorString((cudaError_t)error); // the numbers are the same
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult error, const char **text)
{
    *text = cudaGetErrorName((cudaError_t)error);
    return CUDA_SUCCESS;
}

static CUresult init(unsigned flags)
{
    guard g(the().mutex);
    cudaError_t error;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    begin(&error);
    return (CUresult)error;
}

static CUresult driver_version(int *version)
{
    return (CUresult)cudaDriverGetVersion(version);
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    int count;
    if (cudaError_t error = cudaGetDeviceCount(&count)) return (CUresult)error;
    if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute != CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES;
    return CUDA_SUCCESS;
}
}

struct entry {
    const char *name;
    void (*function)(void);
    unsigned since; // version of CUDA
};

static const entry ENTRIES[] = {
    {"cuInit", (void (*)(void))init, 2000},
    {"cuDriverGetVersion", (void (*)(void))driver_version, 2020},
    {"cuGetErrorString", (void (*)(void))error_string, 6000},
    {"cuGetErrorName", (void (*)(void))error_name, 6000},
    {"cuDeviceGetAttribute", (void (*)(void))device_attribute, 2000},
    {"cuStreamWaitValue32", (void (*)(void))wait_value, 11070},
    {"cuStreamWriteValue32", (void (*)(void))write_value, 11070},
    {"cuStreamBatchMemOp", (void (*)(void))batch, 11070},
    {"cuMemGetAddressRange", (void (*)(void))address_range, 3020},
};

static cudaError_t entry_point(const char *symbol, void **out, unsigned version,
                               cudaDriverEntryPointQueryResult *found)
{
    *out = nullptr;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (const entry &e : ENTRIES) {
        if (strcmp(e.name, symbol) != 0) continue;
        *found = version < e.since ? cudaDriverEntryPointVersionNotSufficent
                                   : cudaDriverEntryPointSuccess;
        if (version >= e.since) memcpy(out, &e.function, sizeof *out);
    }
    return cudaSuccess;
}

} // namespace stand_in

using namespace stand_in;

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out,
                                                        unsigned version, unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult *status)
{
    guard g(the().mutex);
    cudaError_t error;
    cudaDriverEntryPointQueryResult found;
    if (!begin(&error)) return report(error);
    if (!symbol || !*symbol || !out || flags > cudaEnablePerThreadDefaultStream)
        return report(cudaErrorInvalidValue);
    error = entry_point(symbol, out, version, &found);
    // Without a place for the status, an unknown name is an error.
    if (status)
        *status = found;
    else if (found == cudaDriverEntryPointSymbolNotFound)
        error = cudaErrorSymbolNotFound;
    return report(error);
}
