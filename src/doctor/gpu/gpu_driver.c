// gpu_driver.c -- checks of NVIDIA's driver and of CUDA's libraries: whether a program can reach the GPUs at all. They read
// /proc, /sys and /dev below the context's root, and ask NVML.
#include "base/text.h"
#include "device/hardware.h"
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/tables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Starts NVML for a check of the driver; false where there is no GPU.
static bool start(const doctor_context *c, doctor_findings *out, nvml *n, int *code)
{
    bool present;
    *code = gpus_start(c, n, &present);
    if (!present) doctor_skip(out, "this machine has no NVIDIA GPU");
    return present;
}

static status probe_driver(const doctor_context *c, doctor_findings *out, err *e)
{
    nvml n;
    int code;
    (void)e;
    if (!start(c, out, &n, &code)) return OK;
    if (code != NVML_DONE && code != NVML_OTHER_DRIVER)
        doctor_find(out, "why", nvml_error_text(&n, code), "library", c->nvml ? c->nvml : "", NULL);
    return OK;
}

static status probe_nouveau(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *modules = NULL;
    bool denied;
    if (!hardware_has_nvidia(c->root)) {
        doctor_skip(out, "this machine has no NVIDIA GPU");
        return OK;
    }
    TRY(doctor_read(c, "/proc/modules", &modules, &denied, e));
    for (const char *line = modules; line && *line;) {
        if (strncmp(line, "nouveau ", 8) == 0) doctor_find(out, "module", "nouveau", NULL);
        line = strchr(line, '\n');
        if (line) line++;
    }
done:
    free(modules);
    return result;
}

// The version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...": the first word of digits and points.
static bool module_version(const doctor_context *c, char *out, size_t bytes)
{
    char line[256], *rest = line, *word;
    if (!doctor_read_line(c, "/proc/driver/nvidia/version", line, sizeof line)) return false;
    while ((word = strsep(&rest, " \t")))
        if (isdigit((unsigned char)*word) && strchr(word, '.') &&
            word[strspn(word, "0123456789.")] == '\0' && strlen(word) < bytes) {
            memcpy(out, word, strlen(word) + 1);
            return true;
        }
    return false;
}

static status probe_driver_match(const doctor_context *c, doctor_findings *out, err *e)
{
    nvml n;
    int code;
    char module[64] = "unknown", library[NVML_TEXT_BYTES] = "unknown";
    (void)e;
    if (!start(c, out, &n, &code)) return OK;
    if (code != NVML_DONE && code != NVML_OTHER_DRIVER) {
        doctor_blind(out, "NVML: %s (see gpu-driver)", nvml_error_text(&n, code));
        return OK;
    }
    (void)module_version(c, module, sizeof module);
    (void)nvml_library_version(&n, library, sizeof library);
    if (code == NVML_OTHER_DRIVER)
        doctor_find(out, "module", module, "library", library, NULL);
    else
        doctor_fact(out, "nvidia_driver", module);
    return OK;
}

static status probe_cuda_version(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    int version;
    char found[16], least[16];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    if (!nvml_cuda_version(&all.nvml, &version)) {
        doctor_blind(out, "NVML does not tell the version of CUDA");
        return OK;
    }
    snprintf(found, sizeof found, "%d.%d", version / 1000, version % 1000 / 10);
    snprintf(least, sizeof least, "%d.%d", gpu_cuda_least() / 1000, gpu_cuda_least() % 1000 / 10);
    if (version < gpu_cuda_least())
        doctor_find_as(out, gpu_severity(), "version", found, "least", least, NULL);
    else
        doctor_fact(out, "cuda_driver", found);
    return OK;
}

// The files by which a program opens the driver.
static status probe_nodes(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    static const char *const nodes[] = {"nvidiactl", "nvidia-uvm"};
    char **name = NULL, version[64], path[64];
    int count = 0;
    const bool present = hardware_has_nvidia(c->root);
    if (!present || !module_version(c, version, sizeof version)) {
        doctor_skip(out, present ? "the module of NVIDIA's driver is not loaded"
                                 : "this machine has no NVIDIA GPU");
        return OK;
    }
    TRY(doctor_names(c, "/dev", &name, &count, e));
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        bool found = false;
        for (int j = 0; j < count && !found; j++) found = strcmp(name[j], nodes[i]) == 0;
        snprintf(path, sizeof path, "/dev/%s", nodes[i]);
        if (!found) doctor_find(out, "where", path, NULL);
    }
done:
    doctor_names_free(name, count);
    return result;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-driver",
     .severity = DOCTOR_ERROR,
     .title = "NVIDIA's driver works",
     .needs = "/sys/bus/pci/devices, NVML",
     .issue = "This machine has an NVIDIA GPU, and NVML does not start: {why}",
     .why = "Without the driver no program reaches the GPUs: a run with device cuda ends at its "
            "start, and one with device auto uses the CPU.",
     .remedy = {"Install NVIDIA's driver for this kernel, or load it:", "$ sudo modprobe nvidia",
                "In a container, start it with the GPUs: docker run --gpus all."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_driver},
    {.code = "gpu-nouveau",
     .severity = DOCTOR_ERROR,
     .title = "The module nouveau does not hold the GPUs",
     .needs = "/proc/modules",
     .issue = "The kernel has loaded {module}, which holds the NVIDIA GPUs",
     .why = "NVIDIA's driver cannot take a GPU that nouveau holds, and CUDA needs NVIDIA's.",
     .remedy = {"$ echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/no-nouveau.conf",
                "$ sudo update-initramfs -u && sudo reboot"},
     .reference = "NVIDIA Driver Installation Guide: Disabling the Nouveau Driver",
     .recipe = {162},
     .at_start = DOCTOR_START_ON_GPUS,
     .probe = probe_nouveau},
    {.code = "gpu-driver-match",
     .severity = DOCTOR_ERROR,
     .title = "The driver's module and its libraries are of one version",
     .needs = "/proc/driver/nvidia/version, NVML",
     .issue = "The kernel's NVIDIA module is {module}, and the library NVML is {library}",
     .why = "CUDA refuses to start. An update of the packages changed the libraries while the old "
            "module stayed loaded.",
     .remedy = {"Restart the machine, or load the new module where no program uses a GPU:",
                "$ sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia",
                "In a container, mount the libraries of the host's driver."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_driver_match},
    {.code = "gpu-cuda-version",
     .severity = DOCTOR_ERROR,
     .title = "The driver is new enough for the CUDA that Trireme is built with",
     .needs = "NVML",
     .issue = "The driver runs programs of CUDA {version} at most; this build needs {least}",
     .why = "CUDA refuses to start with a driver that is older than its major version.",
     .remedy = {"Update NVIDIA's driver, or build Trireme with an older CUDA toolkit."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_cuda_version},
    {.code = "gpu-nodes",
     .severity = DOCTOR_ERROR,
     .title = "The files of the GPUs are in /dev",
     .needs = "/dev, /proc/driver/nvidia/version",
     .issue = "The driver is loaded, and {where} does not exist",
     .why = "CUDA opens this file first, and fails without it.",
     .remedy =
         {"$ sudo nvidia-modprobe -u -c 0",
          "In a container, start it with the NVIDIA Container Toolkit: docker run --gpus all."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_nodes},
};

const doctor_table DOCTOR_GPU_DRIVER = {"Driver of the GPUs", ROWS, sizeof ROWS / sizeof *ROWS};
