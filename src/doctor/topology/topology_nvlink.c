// topology_nvlink.c -- which GPUs of a topology are joined by NVLink, as the driver's library says. Called by `trireme topo`.
#include "doctor/gpu/nvml.h"
#include "doctor/topology/topology.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MOST_GPUS = 64, SYMBOL_BYTES = sizeof(void *), IS_SWITCH = 2 };

// NVML's functions: where a link ends, and at what kind of device.
typedef int (*remote_function)(nvml_gpu g, unsigned link, nvml_pci *out);
typedef int (*kind_function)(nvml_gpu g, unsigned link, int *out);

typedef struct nvlink_reader {
    nvml nvml;
    remote_function remote;
    kind_function kind;
    int direct[MOST_GPUS][MOST_GPUS]; // links from GPU to GPU
    int switched[MOST_GPUS];          // links of a GPU to NVSwitches
} nvlink_reader;

// Adds the links of one GPU of NVML, which is `gpu` of the topology.
static void read_gpu(nvlink_reader *r, const topology *t, nvml_gpu g, int gpu)
{
    for (int link = 0; link < NVML_LINKS; link++) {
        nvml_pci end = {.domain = 0};
        bool active = false;
        int kind = 0;
        if (!nvml_read_link(&r->nvml, g, link, &active) || !active) continue;
        if (r->remote(g, (unsigned)link, &end) != NVML_DONE) continue;
        char address[32];
        snprintf(address, sizeof address, "%04x:%02x:%02x.0", end.domain, end.bus, end.device);
        const int other = topology_find_gpu(t, address);
        if (other >= 0 && other < MOST_GPUS)
            r->direct[gpu][other]++;
        else if (r->kind(g, (unsigned)link, &kind) == NVML_DONE && kind == IS_SWITCH)
            r->switched[gpu]++;
    }
}

static void set_paths(const nvlink_reader *r, topology *t, int gpus)
{
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < a; b++) {
            // Behind a switch each pair has all links of the one that has fewer.
            const int least = r->switched[a] < r->switched[b] ? r->switched[a] : r->switched[b];
            const int links = r->direct[a][b] ? r->direct[a][b] : least;
            if (links > 0) topology_set_nvlinks(t, a, b, links);
        }
}

void topology_read_nvlinks(topology *t, const char *library)
{
    nvlink_reader r = {.remote = NULL};
    int count = 0, gpus = 0;
    if (nvml_open(&r.nvml, library) != NVML_DONE || !nvml_count(&r.nvml, &count)) return;
    void *const remote = dlsym(r.nvml.library, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
                *const kind = dlsym(r.nvml.library, "nvmlDeviceGetNvLinkRemoteDeviceType");
    if (!remote || !kind) return;
    memcpy(&r.remote, &remote, SYMBOL_BYTES);
    memcpy(&r.kind, &kind, SYMBOL_BYTES);
    while (gpus < t->devices && gpus < MOST_GPUS && t->device[gpus].kind == TOPOLOGY_GPU) gpus++;
    for (int i = 0; i < count; i++) {
        nvml_gpu g = NULL;
        char address[32];
        if (nvml_find_gpu(&r.nvml, i, &g) != NVML_DONE) continue;
        if (!nvml_read_address(&r.nvml, g, address, sizeof address)) continue;
        const int gpu = topology_find_gpu(t, address);
        if (gpu >= 0 && gpu < gpus) read_gpu(&r, t, g, gpu);
    }
    set_paths(&r, t, gpus);
}
