// gpus.c -- see gpus.h.
#include "doctor/gpu/gpus.h"

#include "device/hardware.h"
#include "doctor/doctor.h"

#include <stdio.h>

enum { LEAST_OF_ALL_BUILDS = 12000 };

int gpus_start(const doctor_context *c, nvml *n, bool *present)
{
    int count = 0;
    const int code = nvml_open(n, c->nvml);
    *present =
        hardware_has_nvidia(c->root) || (code == NVML_DONE && nvml_count(n, &count) && count > 0);
    return code;
}

bool gpus_list(const doctor_context *c, doctor_findings *out, gpu_list *all)
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
    return true;
}

bool gpus_open(const doctor_context *c, doctor_findings *out, gpu_list *all)
{
    if (!gpus_list(c, out, all)) return false;
    if (all->count == 0) doctor_blind(out, "NVML lists no GPU that answers (see gpu-missing)");
    return all->count > 0;
}

int gpu_cuda_least(void)
{
#ifdef TRIREME_CUDA_LEAST // its builder has CUDA
    return TRIREME_CUDA_LEAST;
#else
    return LEAST_OF_ALL_BUILDS;
#endif
}

doctor_severity gpu_severity(void)
{
#ifdef TRIREME_CUDA_LEAST
    return DOCTOR_ERROR;
#else
    return DOCTOR_WARNING;
#endif
}

void gpu_label(const gpu_list *all, int i, char out[GPU_LABEL_BYTES])
{
    (void)snprintf(out, GPU_LABEL_BYTES, "GPU %d", all->number[i]);
}
