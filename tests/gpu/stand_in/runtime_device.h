// runtime_device.h -- what the stand-ins of the CUDA runtime and of NVML say about the machine's devices. Both
// count them from 0; CUDA_VISIBLE_DEVICES hides some from the runtime only.
#ifndef TRIREME_STAND_IN_RUNTIME_DEVICE_H
#define TRIREME_STAND_IN_RUNTIME_DEVICE_H

#include "runtime_state.h"

namespace stand_in
{

enum class driver_kind { GOOD, NONE, OLD, MISMATCH };

// The environment, as runtime.h says.
driver_kind driver();
int machine_devices();
size_t machine_bytes();
int arch();
std::string device_name();

std::string device_uuid(int physical);
std::string device_bus_id(int physical); // as NVML writes it

// Shared memory that a block can have after cudaFuncSetAttribute.
inline int shared_bytes_most()
{
    const bool is_of_data_centers = arch() % 10 == 0 && arch() < 120;
    return (!is_of_data_centers ? 99 : arch() >= 90 ? 227 : 163) * 1024;
}

} // namespace stand_in

#endif
