// nvlink_stand_in.c -- a library in the place of NVML with four GPUs: 0 and 1 are joined by 4 NVLinks, 2 and 3 have 18 and 12
// links to a switch, and GPU 2 has one to a processor. test_topology.c loads it.
#include <stdio.h>
#include <string.h>

typedef struct stand_in_pci {
    char old_address[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
} stand_in_pci;

static const char *const ADDRESS[] = {"00000000:19:00.0", "00000000:1B:00.0", "00000000:9B:00.0",
                                      "00000000:9E:00.0"};
enum { GPUS = 4, PROCESSOR = 1, SWITCH = 2, NOT_SUPPORTED = 3, LINK_OF_PROCESSOR = 18 };
static const unsigned LINKS[GPUS] = {4, 4, 18, 12};

#define VISIBLE __attribute__((visibility("default")))
VISIBLE int nvmlInit_v2(void);
VISIBLE int nvmlDeviceGetCount_v2(unsigned *out);
VISIBLE int nvmlDeviceGetHandleByIndex_v2(unsigned index, const char *const **out);
VISIBLE int nvmlDeviceGetPciInfo_v3(const char *const *g, stand_in_pci *out);
VISIBLE int nvmlDeviceGetNvLinkState(const char *const *g, unsigned link, unsigned *out);
VISIBLE int nvmlDeviceGetNvLinkRemotePciInfo_v2(const char *const *g, unsigned link,
                                                stand_in_pci *out);
VISIBLE int nvmlDeviceGetNvLinkRemoteDeviceType(const char *const *g, unsigned link, int *out);

static void write_address(const char *address, stand_in_pci *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->address, sizeof out->address, "%s", address);
    (void)sscanf(address, "%x:%x:%x", &out->domain, &out->bus, &out->device);
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = GPUS;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, const char *const **out)
{
    *out = &ADDRESS[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(const char *const *g, stand_in_pci *out)
{
    write_address(*g, out);
    return 0;
}

int nvmlDeviceGetNvLinkState(const char *const *g, unsigned link, unsigned *out)
{
    const long gpu = g - ADDRESS;
    if (link > LINK_OF_PROCESSOR) return NOT_SUPPORTED;
    *out = link < LINKS[gpu] || (gpu == 2 && link == LINK_OF_PROCESSOR);
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const char *const *g, unsigned link, stand_in_pci *out)
{
    const long gpu = g - ADDRESS;
    (void)link;
    write_address(gpu < 2 ? ADDRESS[1 - gpu] : "00000000:C0:00.0", out);
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const char *const *g, unsigned link, int *out)
{
    (void)g;
    *out = link == LINK_OF_PROCESSOR ? PROCESSOR : SWITCH;
    return 0;
}
