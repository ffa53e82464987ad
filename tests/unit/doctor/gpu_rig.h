// gpu_rig.h -- a healthy machine with two GPUs for the tests of doctor/gpu/ and doctor/pci/: files of /sys, /proc and /dev,
// and the values that fake_nvml.c gives. A test plants a fault in either.
#ifndef TESTS_UNIT_DOCTOR_GPU_RIG_H
#define TESTS_UNIT_DOCTOR_GPU_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor_rig.h"

static const char GPU_VALUES[] = "gpus 2\n"
                                 "driver 550.54.15\n"
                                 "library 12.550.54.15\n"
                                 "cuda 13000\n"
                                 "*.name NVIDIA H100 80GB HBM3\n"
                                 "0.uuid GPU-aaaa0000-1111\n"
                                 "1.uuid GPU-bbbb0000-1111\n"
                                 "*.vbios 96.00.89.00.01\n"
                                 "*.memory 85520809984\n"
                                 "*.used 524288000\n"
                                 "*.bar 137438953472\n"
                                 "*.processes \n"
                                 "*.ecc 1\n"
                                 "*.ecc_corrected 3\n"
                                 "*.ecc_uncorrected 0\n"
                                 "*.rows_pending 0\n"
                                 "*.pages_pending 0\n"
                                 "*.recovery 0\n"
                                 "*.reasons 0x1\n"
                                 "*.power 70000\n"
                                 "*.power_limit 700000\n"
                                 "*.power_default 700000\n"
                                 "*.clock 1980\n"
                                 "*.clock_max 1980\n"
                                 "*.clock_default 1980\n"
                                 "*.temperature 35\n"
                                 "*.temperature_slowdown 87\n"
                                 "*.utilization 0\n"
                                 "*.persistence 1\n"
                                 "*.compute_mode 0\n"
                                 "*.mig 0\n"
                                 "*.display 0\n"
                                 "*.width 16\n"
                                 "*.width_max 16\n"
                                 "*.generation 1\n"
                                 "*.generation_max 5\n"
                                 "*.replays 0\n"
                                 "*.links 18\n"
                                 "*.links_there 18\n"
                                 "*.link_errors 0\n"
                                 "*.fabric 3\n"
                                 "*.fabric_status 0\n"
                                 "*.p2p 0\n";

#define GPU_BUS "/sys/bus/pci/devices/"

// Plants a value of NVML.
static inline void gpu_plant(rig *r, const char *line)
{
    char *full = rig_full(r, "/nvml");
    FILE *f = fopen(full, "a");
    assert_non_null(f);
    assert_true(fprintf(f, "%s\n", line) > 0);
    assert_int_equal(fclose(f), 0);
    free(full);
}

// Takes all faults of NVML away.
static inline void gpu_heal(rig *r)
{
    rig_write(r, "/nvml", GPU_VALUES);
}

// A device of the bus, in the folder of its bridge, as the kernel arranges them.
static inline void gpu_device(rig *r, const char *address, const char *vendor, const char *class)
{
    char path[160], target[160];
    (void)snprintf(target, sizeof target, "../../../devices/pci0000:00/0000:00:01.0/%s", address);
    (void)snprintf(path, sizeof path, GPU_BUS "%s", address);
    (void)snprintf(path, sizeof path, "/sys/devices/pci0000:00/0000:00:01.0/%s/vendor", address);
    rig_write(r, path, vendor);
    (void)snprintf(path, sizeof path, "/sys/devices/pci0000:00/0000:00:01.0/%s/class", address);
    rig_write(r, path, class);
    (void)snprintf(path, sizeof path, GPU_BUS "%s", address);
    rig_link(r, path, target);
}

static inline void gpu_rig_open(rig *r)
{
    rig_open(r);
    char *full = rig_full(r, "/nvml");
    assert_int_equal(setenv("TRIREME_FAKE_NVML", full, 1), 0);
    free(full);
    gpu_heal(r);
    r->context.nvml = FAKE_NVML;
    rig_write(r, "/sys/devices/pci0000:00/0000:00:01.0/vendor", "0x8086\n");
    rig_write(r, "/sys/devices/pci0000:00/0000:00:01.0/class", "0x060400\n");
    rig_link(r, GPU_BUS "0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0");
    gpu_device(r, "0000:1b:00.0", "0x10de\n", "0x030200\n");
    gpu_device(r, "0000:43:00.0", "0x10de\n", "0x030200\n");
    rig_write(r, "/dev/nvidiactl", "");
    rig_write(r, "/dev/nvidia-uvm", "");
    rig_write(r, "/dev/nvidia0", "");
    rig_write(r, "/dev/nvidia1", "");
    rig_write(r, "/proc/modules",
              "nvidia_uvm 4943872 0 - Live 0x0\nnvidia 54001664 2 nvidia_uvm, Live 0x0\n");
    rig_write(r, "/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC "
              "2024\nGCC version:  gcc version 12.2.0\n");
}

#endif
