// gpus.c -- see gpus.h.
#include "doctor/gpu/gpus.h"

#include "device/hardware.h"
#include "doctor/doctor.h"

#include <stdio.h>

#ifndef TRIREME_CUDA_LEAST // the build without CUDA: what every build with it needs at least
#define TRIREME_CUDA_LEAST 12000
#endif

int gpus_start(const doctor_context *c, nvml *n, bool *present)
{
    int count = 0;
    const int code = nvml_open(n, c->nvml);
    *present =
        hardware_has_nvidia(c->root) || (code == NVML_DONE && nvml_count(n, &count) && count > 0);
    return code;
}

bool gpus_open(const doctor_context *c, doctor_findings *out, gpu_list *all)
{
    bool present;
    int count = 0;
    all->count = all->missing = 0;
    const int code = gpus_start(c, &all->nvml, &present);
    if (!present) {
        doctor_skip(out, "this machine has no NVIDIA GPU");
        return false;
    }
    if (code != NVML_DONE) {
        doctor_blind(out, "NVML: %s (see gpu-driver)", nvml_error_text(&all->nvml, code));
        return false;
    }
    (void)nvml_count(&all->nvml, &count);
    for (int i = 0; i < count && i < GPUS_MOST; i++) {
        all->number[all->count] = i;
        if (nvml_find_gpu(&all->nvml, i, &all->gpu[all->count]) == NVML_DONE)
            all->count++;
        else
            all->missing++;
    }
    if (all->count == 0) doctor_blind(out, "NVML lists no GPU that answers (see gpu-missing)");
    return all->count > 0;
}

int gpu_cuda_least(void)
{
    return TRIREME_CUDA_LEAST;
}

void gpu_label(const gpu_list *all, int i, char out[GPU_LABEL_BYTES])
{
    (void)snprintf(out, GPU_LABEL_BYTES, "GPU %d", all->number[i]);
}
