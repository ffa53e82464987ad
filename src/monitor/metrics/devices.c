// devices.c -- see devices.h. NVML's header is not part of every toolkit, so the functions are declared here, as its
// documentation has them.
#include "monitor/metrics/devices.h"

#include "base/alloc.h"
#include "monitor/metrics/metrics_private.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_GPUS = 64, CLOCK_SM = 1, CLOCK_MEMORY = 2, TEMPERATURE_OF_GPU = 0 };
static const double MIB = 1 << 20;

typedef void *nvml_gpu;
typedef struct nvml_memory {
    unsigned long long total, free, used; // bytes
} nvml_memory;
typedef struct nvml_utilization {
    unsigned gpu, memory; // per cent
} nvml_utilization;
typedef struct nvml_pci {
    char old_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} nvml_pci;

typedef struct nvml {
    int (*init)(void);
    int (*count)(unsigned *out);
    int (*gpu)(unsigned index, nvml_gpu *out);
    int (*name)(nvml_gpu g, char *out, unsigned bytes);
    int (*uuid)(nvml_gpu g, char *out, unsigned bytes);
    int (*pci)(nvml_gpu g, nvml_pci *out);
    int (*memory)(nvml_gpu g, nvml_memory *out);
    int (*utilization)(nvml_gpu g, nvml_utilization *out);
    int (*temperature)(nvml_gpu g, int sensor, unsigned *out);
    int (*power)(nvml_gpu g, unsigned *out); // mW
    int (*clock)(nvml_gpu g, int which, unsigned *out);
    int (*energy)(nvml_gpu g, unsigned long long *out); // mJ
    int (*replays)(nvml_gpu g, unsigned *out);
} nvml;

static const struct {
    const char *name;
    size_t offset;
} SYMBOLS[] = {
    {"nvmlInit_v2", offsetof(nvml, init)},
    {"nvmlDeviceGetCount_v2", offsetof(nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(nvml, gpu)},
    {"nvmlDeviceGetName", offsetof(nvml, name)},
    {"nvmlDeviceGetUUID", offsetof(nvml, uuid)},
    {"nvmlDeviceGetPciInfo_v3", offsetof(nvml, pci)},
    {"nvmlDeviceGetMemoryInfo", offsetof(nvml, memory)},
    {"nvmlDeviceGetUtilizationRates", offsetof(nvml, utilization)},
    {"nvmlDeviceGetTemperature", offsetof(nvml, temperature)},
    {"nvmlDeviceGetPowerUsage", offsetof(nvml, power)},
    {"nvmlDeviceGetClockInfo", offsetof(nvml, clock)},
    {"nvmlDeviceGetTotalEnergyConsumption", offsetof(nvml, energy)},
    {"nvmlDeviceGetPcieReplayCounter", offsetof(nvml, replays)},
};

typedef struct metrics_gpu {
    nvml_gpu handle;
    char name[96], uuid[96], bus_id[32];
} metrics_gpu;

struct metrics_devices {
    void *library;
    nvml nvml;
    char host[65];
    metrics_gpu gpu[MOST_GPUS];
    int count;
};

static bool find_functions(metrics_devices *d)
{
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *address = dlsym(d->library, SYMBOLS[i].name);
        if (!address) return false;
        memcpy((char *)&d->nvml + SYMBOLS[i].offset, &address, sizeof address);
    }
    return true;
}

static bool read_gpu(metrics_devices *d, unsigned index)
{
    metrics_gpu *g = &d->gpu[d->count];
    nvml_pci pci = {.bus_id = ""};
    if (d->nvml.gpu(index, &g->handle) != 0 ||
        d->nvml.name(g->handle, g->name, sizeof g->name) != 0 ||
        d->nvml.uuid(g->handle, g->uuid, sizeof g->uuid) != 0)
        return false;
    if (d->nvml.pci(g->handle, &pci) == 0)
        (void)snprintf(g->bus_id, sizeof g->bus_id, "%s", pci.bus_id);
    d->count++;
    return true;
}

status metrics_devices_open(const char *library, metrics_devices **out, err *e)
{
    status result = OK;
    metrics_devices *d = NULL;
    unsigned count = 0;
    *out = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, "the GPUs of this host", e));
    (void)gethostname(d->host, sizeof d->host - 1);
    d->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!d->library || !find_functions(d) || d->nvml.init() != 0 || d->nvml.count(&count) != 0)
        goto done;
    for (unsigned i = 0; i < count && i < MOST_GPUS; i++)
        if (!read_gpu(d, i)) break;
    if (!d->count) goto done;
    *out = d;
    d = NULL;
done:
    metrics_devices_close(d);
    return result;
}

int metrics_devices_count(const metrics_devices *d)
{
    return d ? d->count : 0;
}

void metrics_devices_label(const metrics_devices *d, int gpu, text *labels)
{
    char number[24];
    const metrics_gpu *g = &d->gpu[gpu];
    (void)snprintf(number, sizeof number, "%d", gpu);
    metrics_add_label(labels, "gpu", number);
    metrics_add_label(labels, "UUID", g->uuid);
    metrics_add_label(labels, "pci_bus_id", g->bus_id);
    (void)snprintf(number, sizeof number, "nvidia%d", gpu);
    metrics_add_label(labels, "device", number);
    metrics_add_label(labels, "modelName", g->name);
    metrics_add_label(labels, "Hostname", d->host);
}

static double clock_of(const nvml *n, nvml_gpu g, int which)
{
    unsigned mhz;
    return n->clock(g, which, &mhz) == 0 ? mhz : NAN;
}

// The other numbers, each from a call of its own.
static double number_of(const nvml *n, nvml_gpu g, metric m)
{
    unsigned value;
    unsigned long long energy;
    switch (m) {
    case METRIC_GPU_TEMP:
        return n->temperature(g, TEMPERATURE_OF_GPU, &value) == 0 ? value : NAN;
    case METRIC_GPU_POWER:
        return n->power(g, &value) == 0 ? value * 1e-3 : NAN;
    case METRIC_GPU_ENERGY:
        return n->energy(g, &energy) == 0 ? (double)energy : NAN;
    case METRIC_GPU_REPLAYS:
        return n->replays(g, &value) == 0 ? value : NAN;
    default:
        return NAN;
    }
}

double metrics_devices_value(const metrics_devices *d, int gpu, metric m)
{
    const nvml *n = &d->nvml;
    const nvml_gpu g = d->gpu[gpu].handle;
    nvml_memory memory;
    nvml_utilization rates;
    switch (m) {
    case METRIC_GPU_SM_CLOCK:
        return clock_of(n, g, CLOCK_SM);
    case METRIC_GPU_MEM_CLOCK:
        return clock_of(n, g, CLOCK_MEMORY);
    case METRIC_GPU_UTIL:
        return n->utilization(g, &rates) == 0 ? rates.gpu : NAN;
    case METRIC_GPU_MEM_UTIL:
        return n->utilization(g, &rates) == 0 ? rates.memory : NAN;
    case METRIC_GPU_FREE:
        return n->memory(g, &memory) == 0 ? (double)memory.free / MIB : NAN;
    case METRIC_GPU_USED:
        return n->memory(g, &memory) == 0 ? (double)memory.used / MIB : NAN;
    default:
        return number_of(n, g, m);
    }
}

void metrics_devices_close(metrics_devices *d)
{
    if (!d) return;
    if (d->library) dlclose(d->library);
    free(d);
}
