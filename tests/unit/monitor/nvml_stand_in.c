// nvml_stand_in.c -- a library in the place of NVML with two GPUs, for test_metrics.c. The second GPU does not say how much
// power it takes.
#include <stdio.h>
#include <string.h>

enum { DONE = 0, NOT_SUPPORTED = 3 };

typedef struct memory {
    unsigned long long total, free, used;
} memory;
typedef struct utilization {
    unsigned gpu, memory;
} utilization;
typedef struct pci {
    char old_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci;

#define NVML __attribute__((visibility("default"))) int

NVML nvmlInit_v2(void);
NVML nvmlInit_v2(void)
{
    return DONE;
}

NVML nvmlDeviceGetCount_v2(unsigned *out);
NVML nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = 2;
    return DONE;
}

static int numbers[2] = {0, 1};

NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out);
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out)
{
    *out = &numbers[index];
    return DONE;
}

NVML nvmlDeviceGetName(int *g, char *out, unsigned bytes);
NVML nvmlDeviceGetName(int *g, char *out, unsigned bytes)
{
    (void)g;
    (void)snprintf(out, bytes, "NVIDIA \"Stand-In\"");
    return DONE;
}

NVML nvmlDeviceGetUUID(int *g, char *out, unsigned bytes);
NVML nvmlDeviceGetUUID(int *g, char *out, unsigned bytes)
{
    (void)snprintf(out, bytes, "GPU-%d", *g);
    return DONE;
}

NVML nvmlDeviceGetPciInfo_v3(int *g, pci *out);
NVML nvmlDeviceGetPciInfo_v3(int *g, pci *out)
{
    memset(out, 0, sizeof *out);
    (void)snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", 1 + *g);
    return DONE;
}

NVML nvmlDeviceGetMemoryInfo(int *g, memory *out);
NVML nvmlDeviceGetMemoryInfo(int *g, memory *out)
{
    *out = (memory){100u << 20, 60u << 20, (40u + (unsigned)*g) << 20};
    return DONE;
}

NVML nvmlDeviceGetUtilizationRates(int *g, utilization *out);
NVML nvmlDeviceGetUtilizationRates(int *g, utilization *out)
{
    *out = (utilization){90 + (unsigned)*g, 30};
    return DONE;
}

NVML nvmlDeviceGetTemperature(int *g, int sensor, unsigned *out);
NVML nvmlDeviceGetTemperature(int *g, int sensor, unsigned *out)
{
    *out = 60 + (unsigned)*g;
    return sensor == 0 ? DONE : NOT_SUPPORTED;
}

NVML nvmlDeviceGetPowerUsage(int *g, unsigned *out);
NVML nvmlDeviceGetPowerUsage(int *g, unsigned *out)
{
    *out = 350500;
    return *g == 0 ? DONE : NOT_SUPPORTED;
}

NVML nvmlDeviceGetClockInfo(int *g, int which, unsigned *out);
NVML nvmlDeviceGetClockInfo(int *g, int which, unsigned *out)
{
    (void)g;
    *out = which == 1 ? 1980 : 2619;
    return DONE;
}

NVML nvmlDeviceGetTotalEnergyConsumption(int *g, unsigned long long *out);
NVML nvmlDeviceGetTotalEnergyConsumption(int *g, unsigned long long *out)
{
    (void)g;
    *out = 123456789;
    return DONE;
}

NVML nvmlDeviceGetPcieReplayCounter(int *g, unsigned *out);
NVML nvmlDeviceGetPcieReplayCounter(int *g, unsigned *out)
{
    *out = (unsigned)*g;
    return DONE;
}
