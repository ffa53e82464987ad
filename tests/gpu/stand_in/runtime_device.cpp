// runtime_device.cc -- the devices of the CUDA runtime's stand-in: which ones the process sees, what they
// say about themselves, and which of them may read each other's memory.
#include "runtime_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

namespace
{

thread_local int device_now;

uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text) return otherwise;
    const uint64_t value = strtoull(text, &end, 0);
    if (*end) stand_in_die("%s=%s is no number", name, text);
    return value;
}

// The device of the machine that one entry of CUDA_VISIBLE_DEVICES names; -1: none.
int visible_device(const std::string &entry, int count)
{
    char *end;
    const long index = strtol(entry.c_str(), &end, 10);
    if (!entry.empty() && !*end) return index >= 0 && index < count ? (int)index : -1;
    if (strncasecmp(entry.c_str(), "GPU-", 4) != 0) return -1;
    int found = -1;
    for (int i = 0; i < count; i++) {
        if (strncasecmp(stand_in::device_uuid(i).c_str(), entry.c_str(), entry.size())) continue;
        if (found >= 0) return -1; // the beginning of two names
        found = i;
    }
    return found;
}

// CUDA ignores what stands after an entry that names no device, and sees none if one is named twice.
std::vector<int> visible_devices(int count)
{
    std::vector<int> out;
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text) {
        for (int i = 0; i < count; i++) out.push_back(i);
        return out;
    }
    std::string rest = text;
    while (!rest.empty()) {
        const size_t comma = rest.find(',');
        std::string entry = rest.substr(0, comma);
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
        entry.erase(0, entry.find_first_not_of(" \t"));
        entry.erase(entry.find_last_not_of(" \t") + 1);
        const int found = visible_device(entry, count);
        if (found < 0) break;
        for (int other : out)
            if (other == found) return {};
        out.push_back(found);
    }
    return out;
}

void lock()
{
    stand_in::the().mutex.lock();
}

void unlock()
{
    stand_in::the().mutex.unlock();
}

void start(stand_in::process &p)
{
    pthread_atfork(lock, unlock,
                   unlock); // a child gets an error, and no mutex that nobody gives back
    p.pid = getpid();
    p.seed = number("TRIREME_STAND_IN_SEED", 0);
    p.random = p.seed;
    p.limit = number("TRIREME_STAND_IN_BYTES", 2ull << 30);
    p.spoils_peers = number("TRIREME_STAND_IN_PEERS", 0) != 0;
    switch (stand_in::driver()) {
    case stand_in::driver_kind::GOOD:
        break;
    case stand_in::driver_kind::NONE:
    case stand_in::driver_kind::OLD:
        p.refusal = cudaErrorInsufficientDriver;
        return;
    case stand_in::driver_kind::MISMATCH:
        p.refusal = cudaErrorSystemDriverMismatch;
        return;
    }
    for (int physical : visible_devices(stand_in::machine_devices())) {
        stand_in::device d;
        d.physical = physical;
        p.devices.push_back(d);
    }
    if (p.devices.empty()) p.refusal = cudaErrorNoDevice;
}

} // namespace

namespace stand_in
{

process &the()
{
    static process *const p =
        new process; // never destroyed: threads of the stand-in use it to the end
    return *p;
}

driver_kind driver()
{
    const char *text = getenv("TRIREME_STAND_IN_DRIVER");
    if (!text || !*text) return driver_kind::GOOD;
    if (strcmp(text, "none") == 0) return driver_kind::NONE;
    if (strcmp(text, "old") == 0) return driver_kind::OLD;
    if (strcmp(text, "mismatch") == 0) return driver_kind::MISMATCH;
    stand_in_die("TRIREME_STAND_IN_DRIVER=%s: valid are none, old and mismatch", text);
}

int machine_devices()
{
    const uint64_t count = number("TRIREME_STAND_IN_DEVICES", 2);
    if (count > MAX_DEVICES)
        stand_in_die("TRIREME_STAND_IN_DEVICES=%llu: valid are 0 to %d", (unsigned long long)count,
                     MAX_DEVICES);
    return (int)count;
}

size_t machine_bytes()
{
    return number("TRIREME_STAND_IN_BYTES", 2ull << 30);
}

int arch()
{
    return (int)number("TRIREME_STAND_IN_ARCH", 90);
}

std::string device_name()
{
    const char *text = getenv("TRIREME_STAND_IN_NAME");
    return text && *text ? text : "Stand-in GPU";
}

std::string device_uuid(int physical)
{
    char text[64];
    snprintf(text, sizeof text, "GPU-%02x5ea11d-c0de-4b1d-8f00-57a4d1a00%03x", physical, physical);
    return text;
}

std::string device_bus_id(int physical)
{
    char text[32];
    snprintf(text, sizeof text, "00000000:%02X:00.0", 0x17 + 9 * physical);
    return text;
}

bool begin(cudaError_t *error)
{
    process &p = the();
    if (!p.pid) start(p);
    if (p.pid != getpid()) // CUDA does not work in a child of a process that has used it
        *error = cudaErrorInitializationError;
    else
        *error = p.refusal;
    return *error == cudaSuccess;
}

extern "C" bool cuda_driver_is_open(void) // cuda_library.h
{
    return stand_in::the().pid != 0;
}

int current_device()
{
    return device_now;
}

static const struct {
    cudaDeviceAttr attribute;
    int value;
} FIXED[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrL2CacheSize, 50 << 20},
    {cudaDevAttrClockRate, 1000000},
    {cudaDevAttrMemoryClockRate, 1000000},
    {cudaDevAttrGlobalMemoryBusWidth, 5120},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrIpcEventSupport, 1},
    {cudaDevAttrComputeMode, cudaComputeModeDefault},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrEccEnabled, 0},
    {cudaDevAttrPciDeviceId, 0},
    {cudaDevAttrPciDomainId, 0},
    {cudaDevAttrHostNativeAtomicSupported, 0},
    {cudaDevAttrPageableMemoryAccess, 0},
    {cudaDevAttrCanFlushRemoteWrites, 0},
};

static cudaError_t attribute(cudaDeviceAttr attr, const device &d, int *value)
{
    switch (attr) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = shared_bytes_most();
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = shared_bytes_most() + 1024;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: // results must not depend on it
        *value = the().seed % 2 ? 78 : 132;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = arch() / 10;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = arch() % 10;
        return cudaSuccess;
    case cudaDevAttrPciBusId:
        *value = 0x17 + 9 * d.physical;
        return cudaSuccess;
    default:
        break;
    }
    for (const auto &row : FIXED) {
        if (row.attribute != attr) continue;
        *value = row.value;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}

} // namespace stand_in

using namespace stand_in;

// Locks the runtime and returns from the calling function where CUDA cannot be used.
#define ENTER                                                                                      \
    guard g(the().mutex);                                                                          \
    cudaError_t error;                                                                             \
    if (!begin(&error)) return report(error)

static bool is_device(int device)
{
    return device >= 0 && device < (int)the().devices.size();
}

extern "C" {

uint64_t stand_in_seed(void)
{
    guard g(the().mutex);
    cudaError_t ignored;
    begin(&ignored);
    return the().seed;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version) return report(cudaErrorInvalidValue);
    *version = driver() == driver_kind::NONE  ? 0
               : driver() == driver_kind::OLD ? 11040
                                              : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version) return report(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count) return report(cudaErrorInvalidValue);
    *count = 0;
    ENTER;
    *count = (int)the().devices.size();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    ENTER;
    if (!is_device(device)) return report(cudaErrorInvalidDevice);
    device_now = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    ENTER;
    if (!device) return report(cudaErrorInvalidValue);
    *device = device_now;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    ENTER;
    return flags > 7 ? report(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int index)
{
    ENTER;
    if (!value) return report(cudaErrorInvalidValue);
    if (!is_device(index)) return report(cudaErrorInvalidDevice);
    return report(attribute(attr, the().devices[index], value));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int index)
{
    ENTER;
    if (!prop) return report(cudaErrorInvalidValue);
    if (!is_device(index)) return report(cudaErrorInvalidDevice);
    const device &d = the().devices[index];
    const auto value = [&d](cudaDeviceAttr attr) {
        int out = 0;
        attribute(attr, d, &out);
        return out;
    };
    *prop = cudaDeviceProp();
    snprintf(prop->name, sizeof prop->name, "%s", device_name().c_str());
    prop->uuid.bytes[0] = (char)d.physical;
    prop->totalGlobalMem = the().limit;
    prop->sharedMemPerBlock = value(cudaDevAttrMaxSharedMemoryPerBlock);
    prop->sharedMemPerBlockOptin = value(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    prop->sharedMemPerMultiprocessor = value(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    prop->regsPerBlock = prop->regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerBlock);
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->major = value(cudaDevAttrComputeCapabilityMajor);
    prop->minor = value(cudaDevAttrComputeCapabilityMinor);
    prop->multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
    prop->pciBusID = value(cudaDevAttrPciBusId);
    prop->memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
    prop->l2CacheSize = value(cudaDevAttrL2CacheSize);
    prop->maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int len, int index)
{
    ENTER;
    if (!text) return report(cudaErrorInvalidValue);
    if (!is_device(index)) return report(cudaErrorInvalidDevice);
    // The runtime writes four digits of the domain, NVML eight.
    const std::string id = device_bus_id(the().devices[index].physical).substr(4);
    if (len <= (int)id.size()) return report(cudaErrorInvalidValue);
    memcpy(text, id.c_str(), id.size() + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER;
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int index, int peer)
{
    ENTER;
    if (!can) return report(cudaErrorInvalidValue);
    if (!is_device(index) || !is_device(peer)) return report(cudaErrorInvalidDevice);
    *can = index != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    ENTER;
    if (!is_device(peer) || peer == device_now) return report(cudaErrorInvalidDevice);
    if (flags) return report(cudaErrorInvalidValue);
    if (!the().devices[device_now].peers.insert(peer).second)
        return report(cudaErrorPeerAccessAlreadyEnabled);
    the().blocks_now++;
    return cudaSuccess;
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    ENTER;
    if (!is_device(peer)) return report(cudaErrorInvalidDevice);
    if (!the().devices[device_now].peers.erase(peer)) return report(cudaErrorPeerAccessNotEnabled);
    the().blocks_now++;
    return cudaSuccess;
}
}
