// runtime_nvml.cc -- the stand-in of NVML: the machine's devices, described without opening one. Like the real
// one it ignores CUDA_VISIBLE_DEVICES, and it works in a process that forks later.
#include "runtime_device.h"

#include <atomic>
#include <nvml.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

namespace
{

using namespace stand_in;

std::atomic<int> opened;

// A handle is one more than the index.
int index_of(nvmlDevice_t device)
{
    const uintptr_t number = (uintptr_t)device;
    return number >= 1 && number <= (uintptr_t)machine_devices() ? (int)number - 1 : -1;
}

nvmlReturn_t give_text(const std::string &text, char *out, unsigned room)
{
    if (!out) return NVML_ERROR_INVALID_ARGUMENT;
    if (room <= text.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text.c_str(), text.size() + 1);
    return NVML_SUCCESS;
}

// Devices whose text, made by `describe`, is `wanted`.
template <typename F> nvmlReturn_t find_device(const char *wanted, nvmlDevice_t *out, F describe)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!wanted || !out) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < machine_devices(); i++) {
        if (strcasecmp(describe(i).c_str(), wanted) != 0) continue;
        *out = (nvmlDevice_t)(uintptr_t)(i + 1);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

// Bytes of a device of the machine that this process uses.
size_t used_bytes(int physical)
{
    guard g(the().mutex);
    for (const device &d : the().devices)
        if (d.physical == physical) return d.used;
    return 0;
}

} // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2(void)
{
    switch (driver()) {
    case driver_kind::NONE:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    case driver_kind::MISMATCH:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    default:
        opened++;
        return NVML_SUCCESS;
    }
}

nvmlReturn_t nvmlShutdown(void)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    opened--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "Driver/library version mismatch";
    default:
        return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned room)
{
    return opened
               ? give_text(driver() == driver_kind::OLD ? "470.82.01" : "580.65.06", version, room)
               : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version) return NVML_ERROR_INVALID_ARGUMENT;
    cudaDriverGetVersion(version);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned)machine_devices();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!device || index >= (unsigned)machine_devices()) return NVML_ERROR_INVALID_ARGUMENT;
    *device = (nvmlDevice_t)(uintptr_t)(index + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return find_device(uuid, device, device_uuid);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    // The domain may have four digits or eight.
    if (id && strlen(id) == 12)
        return find_device(id, device, [](int i) { return device_bus_id(i).substr(4); });
    return find_device(id, device, device_bus_id);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!index || index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    *index = (unsigned)index_of(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned room)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    return give_text(device_name(), name, room);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned room)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    return give_text(device_uuid(index_of(device)), uuid, room);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!memory || index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = machine_bytes();
    memory->used = used_bytes(index_of(device));
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!rates || index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    *rates = {37, 12};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    const int index = index_of(device);
    if (!pci || index < 0) return NVML_ERROR_INVALID_ARGUMENT;
    const std::string id = device_bus_id(index);
    memset(pci, 0, sizeof *pci);
    memcpy(pci->busId, id.c_str(), id.size() + 1);
    memcpy(pci->busIdLegacy, id.c_str() + 4, id.size() - 4 + 1);
    sscanf(id.c_str(), "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    if (!opened) return NVML_ERROR_UNINITIALIZED;
    if (!major || !minor || index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    *major = arch() / 10;
    *minor = arch() % 10;
    return NVML_SUCCESS;
}

void *stand_in_nvml_symbol(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } SYMBOLS[] = {
#define SYMBOL(name) {#name, (void *)name}
        SYMBOL(nvmlInit_v2),
        SYMBOL(nvmlShutdown),
        SYMBOL(nvmlErrorString),
        SYMBOL(nvmlSystemGetDriverVersion),
        SYMBOL(nvmlSystemGetCudaDriverVersion_v2),
        SYMBOL(nvmlDeviceGetCount_v2),
        SYMBOL(nvmlDeviceGetHandleByIndex_v2),
        SYMBOL(nvmlDeviceGetHandleByUUID),
        SYMBOL(nvmlDeviceGetHandleByPciBusId_v2),
        SYMBOL(nvmlDeviceGetIndex),
        SYMBOL(nvmlDeviceGetName),
        SYMBOL(nvmlDeviceGetUUID),
        SYMBOL(nvmlDeviceGetMemoryInfo),
        SYMBOL(nvmlDeviceGetUtilizationRates),
        SYMBOL(nvmlDeviceGetPciInfo_v3),
        SYMBOL(nvmlDeviceGetCudaComputeCapability),
    };
    if (driver() == driver_kind::NONE) return nullptr;
    for (const auto &s : SYMBOLS)
        if (strcmp(s.name, name) == 0) return s.function;
    return nullptr;
}
}
