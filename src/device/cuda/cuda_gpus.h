// cuda_gpus.h -- the GPUs that this process may use, known before any is opened. cuda_gpus.c reads them by
// NVML, which opens no GPU and can be forked. Where NVML is not enough, a child process asks CUDA
// (cuda_gpus_ask.c). cuda_describe.c makes a device's description of them.
#ifndef TRIREME_DEVICE_CUDA_CUDA_GPUS_H
#define TRIREME_DEVICE_CUDA_CUDA_GPUS_H

#include "base/err.h"

#include <stdint.h>

enum { CUDA_MOST_GPUS = 64, CUDA_NAME_BYTES = 96 };

enum { CUDA_VISIBLE_BYTES = 600 };

typedef struct cuda_gpu {
    char name[CUDA_NAME_BYTES], uuid[CUDA_NAME_BYTES]; // uuid: "GPU-…", as nvidia-smi prints it
    int number;       // among all of the machine, as nvidia-smi counts
    int major, minor; // compute capability
    uint64_t free_bytes;
    int utilization; // percent of the last second or less in which a kernel ran; -1: not known
} cuda_gpu;

typedef struct cuda_gpus {
    int count;
    cuda_gpu gpu[CUDA_MOST_GPUS];
    char visible
        [CUDA_VISIBLE_BYTES]; // where CUDA_VISIBLE_DEVICES hides some: which are left, in one line; else empty
} cuda_gpus;

// The GPUs that CUDA will number 0, 1, … in this process: those of the machine, or those that
// CUDA_VISIBLE_DEVICES names, in its order. At least one. E_USAGE says why there is none: no driver, one
// that is too old, no GPU, or all are hidden.
status cuda_gpus_read(cuda_gpus *out, err *e);

// Keeps the GPUs that a value of CUDA_VISIBLE_DEVICES names: indices, or UUIDs and their beginnings,
// separated by commas. The list ends before the first entry that names no GPU; an entry that comes twice
// leaves none. Writes all->visible.
void cuda_gpus_select(cuda_gpus *all, const char *visible);

// Asks CUDA itself, in a child process; in this process where CUDA runs in it already. Errors as
// cuda_gpus_read; *out may be empty.
status cuda_gpus_ask(cuda_gpus *out, err *e);

// E_USAGE where a driver for CUDA `version` (13000 is 13.0; 0: there is none) cannot run this build.
status cuda_gpus_check_driver(int version, err *e);

#endif
