// cuda_device.h -- the device "cuda" of registry.c. It includes no header of CUDA's, because the registry
// is in every build. A program has the device if it links the objects of this folder: the functions are
// weak, and NULL where they are not linked.
#ifndef TRIREME_DEVICE_CUDA_CUDA_DEVICE_H
#define TRIREME_DEVICE_CUDA_CUDA_DEVICE_H

#include "device/device.h"

#define CUDA_LINKED __attribute__((weak, visibility("hidden")))

// Fills what device_describe says of it, without name and index. It starts no CUDA in this process, which may
// fork later. E_USAGE says why there is no GPU to use: no driver, none visible, none that is new enough.
CUDA_LINKED status cuda_device_describe(const device_options *o, device_description *out, err *e);

// Opens the GPU, and binds the calling thread to it. E_USAGE as cuda_device_describe, E_FIT when there is
// no memory, E_INTERNAL with CUDA's error.
CUDA_LINKED status cuda_device_open(const device_options *o, device **out, err *e);

#endif
