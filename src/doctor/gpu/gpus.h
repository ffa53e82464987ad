// gpus.h -- the GPUs of this machine by NVML, for the probes of this folder: each opens the list, looks at every GPU, and
// names those with a fault.
#ifndef TRIREME_DOCTOR_GPU_GPUS_H
#define TRIREME_DOCTOR_GPU_GPUS_H

#include "doctor/check.h"
#include "doctor/gpu/nvml.h"

enum { GPUS_MOST = 64, GPU_LABEL_BYTES = 16 };

typedef struct gpu_list {
    nvml nvml;
    int count;
    nvml_gpu gpu[GPUS_MOST];
    int number[GPUS_MOST]; // as nvidia-smi counts
    int missing;           // of NVML's count, those that do not answer
} gpu_list;

// Opens NVML, and finds its GPUs. Where there is none to look at, it tells `out` why and returns false. A GPU that does not
// answer is left out; gpu-missing finds it.
bool gpus_open(const doctor_context *c, doctor_findings *out, gpu_list *all);
// Starts NVML alone. Returns its code, and false in *present where this machine has no GPU at all.
int gpus_start(const doctor_context *c, nvml *n, bool *present);
// The same, and true where NVML works and no GPU answers.
bool gpus_list(const doctor_context *c, doctor_findings *out, gpu_list *all);
// The version of CUDA that this build needs of the driver at least: 12000 is 12.0. A build without CUDA has the version
// that every other one needs.
int gpu_cuda_least(void);
// The severity of what keeps a GPU from being used: an error where this build can use one, else a warning.
doctor_severity gpu_severity(void);
// "GPU 3", of the i-th of the list, which findings name as "where".
void gpu_label(const gpu_list *all, int i, char out[GPU_LABEL_BYTES]);

#endif
