// pci_checks.c -- checks of the PCI bus: links, routes between GPUs and network cards (ACS, IOMMU), errors. They read /sys
// and /proc below the context's root, and need no driver of NVIDIA's.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/pci/pci.h"
#include "doctor/tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Calls `look` for each device of the kind; with PCI_OTHER for all of them.
typedef status pci_look(const doctor_context *c, const pci_device *d, doctor_findings *out, err *e);

static status each_device(const doctor_context *c, doctor_findings *out, pci_kind kind,
                          pci_look *look, err *e)
{
    status result = OK;
    pci_list bus;
    int looked = 0;
    TRY(pci_read(c, &bus, e));
    for (int i = 0; i < bus.count; i++) {
        if (kind != PCI_OTHER && bus.device[i].kind != kind) continue;
        looked++;
        TRY(look(c, &bus.device[i], out, e));
    }
    if (looked == 0)
        doctor_skip(out, kind == PCI_GPU ? "this machine has no NVIDIA GPU"
                                         : "the PCI bus has no GPU, network card or NVMe disk");
done:
    pci_clear(&bus);
    return result;
}

// ---- Links

// A card in a slot of fewer wires is no fault of the link, and worth knowing.
static status look_at_width(const doctor_context *c, const pci_device *d, doctor_findings *out,
                            err *e)
{
    int64_t width, own, slot;
    char parent[PCI_ADDRESS_BYTES], now[24], most[24];
    (void)e;
    if (!pci_read_number(c, d->address, "current_link_width", &width) ||
        !pci_read_number(c, d->address, "max_link_width", &own) || width <= 0)
        return OK;
    if (!pci_parent(c, d->address, parent) ||
        !pci_read_number(c, parent, "max_link_width", &slot) || slot <= 0 || slot > own)
        slot = own;
    snprintf(now, sizeof now, "%" PRId64, width);
    snprintf(most, sizeof most, "%" PRId64, own);
    if (width < slot)
        doctor_find(out, "where", d->address, "kind", pci_kind_text(d->kind), "width", now, "most",
                    most, "why", "", NULL);
    else if (width < own)
        doctor_find_as(out, DOCTOR_NOTE, "where", d->address, "kind", pci_kind_text(d->kind),
                       "width", now, "most", most, "why", ", because its slot has no more", NULL);
    return OK;
}

static status probe_width(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_device(c, out, PCI_OTHER, look_at_width, e);
}

// GPUs lower their speed when they have no work; see gpu-pcie-generation.
static status look_at_speed(const doctor_context *c, const pci_device *d, doctor_findings *out,
                            err *e)
{
    char now[48], own[48], slot[48], parent[PCI_ADDRESS_BYTES];
    (void)e;
    if (d->kind == PCI_GPU ||
        !pci_read_line(c, d->address, "current_link_speed", now, sizeof now) ||
        !pci_read_line(c, d->address, "max_link_speed", own, sizeof own))
        return OK;
    double most = strtod(own, NULL);
    if (pci_parent(c, d->address, parent) &&
        pci_read_line(c, parent, "max_link_speed", slot, sizeof slot) && strtod(slot, NULL) > 0 &&
        strtod(slot, NULL) < most) {
        most = strtod(slot, NULL);
        memcpy(own, slot, sizeof own);
    }
    if (strtod(now, NULL) > 0 && strtod(now, NULL) < most)
        doctor_find(out, "where", d->address, "kind", pci_kind_text(d->kind), "speed", now, "most",
                    own, NULL);
    return OK;
}

static status probe_speed(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_device(c, out, PCI_OTHER, look_at_speed, e);
}

// ---- Errors

// The total of a file such as aer_dev_fatal, whose last line is "TOTAL_ERR_FATAL 0".
static int64_t total_of(const doctor_context *c, const char *address, const char *file, err *e)
{
    char path[160], *content = NULL;
    bool denied;
    int64_t total = 0;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", address, file);
    if (doctor_read(c, path, &content, &denied, e) == OK && content) {
        const char *line = strstr(content, "TOTAL_ERR_");
        const char *number = line ? strchr(line, ' ') : NULL;
        if (number) total = strtoll(number, NULL, 10);
    }
    free(content);
    return total;
}

static status look_at_errors(const doctor_context *c, const pci_device *d, doctor_findings *out,
                             err *e)
{
    const int64_t fatal = total_of(c, d->address, "aer_dev_fatal", e);
    const int64_t other = total_of(c, d->address, "aer_dev_nonfatal", e);
    const int64_t corrected = total_of(c, d->address, "aer_dev_correctable", e);
    char what[96];
    if (fatal + other > 0)
        snprintf(what, sizeof what, "%" PRId64 " errors that were not corrected", fatal + other);
    else if ((double)corrected > doctor_threshold(c, "pcie_corrected", 1000))
        snprintf(what, sizeof what, "%" PRId64 " errors that were corrected", corrected);
    else
        return OK;
    doctor_find(out, "where", d->address, "kind", pci_kind_text(d->kind), "what", what, NULL);
    return OK;
}

static status probe_errors(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_device(c, out, PCI_OTHER, look_at_errors, e);
}

// ---- Routes

// The IOMMU translates every access of a device whose group is not of the type identity.
static status look_at_iommu(const doctor_context *c, const pci_device *d, doctor_findings *out,
                            err *e)
{
    char type[32];
    (void)e;
    if (pci_read_line(c, d->address, "iommu_group/type", type, sizeof type) &&
        strcmp(type, "identity") != 0)
        doctor_find(out, "where", d->address, "type", type, NULL);
    return OK;
}

// Routes between devices matter where there are two GPUs, or a network card that reaches memory of one.
static status each_gpu_with_peers(const doctor_context *c, doctor_findings *out, pci_look *look,
                                  err *e)
{
    status result = OK;
    pci_list bus;
    char **card = NULL;
    int cards = 0;
    TRY(pci_read(c, &bus, e));
    TRY(doctor_names(c, "/sys/class/infiniband", &card, &cards, e));
    if (pci_count(&bus, PCI_GPU) == 1 && cards == 0)
        doctor_skip(out, "the GPU has no other device to exchange data with");
    else
        TRY(each_device(c, out, PCI_GPU, look, e));
done:
    doctor_names_free(card, cards);
    pci_clear(&bus);
    return result;
}

static status probe_iommu(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_gpu_with_peers(c, out, look_at_iommu, e);
}

// Configuration of a PCI device: the capability ACS is in the list that begins at 0x100. Without root, the kernel shows
// the first 64 bytes alone.
enum { CONFIG_BYTES = 4096, CONFIG_SHORT = 64, ACS = 0x000d };
enum { ACS_REDIRECT = 0x4 | 0x8 }; // of requests and of completions

static unsigned word16(const unsigned char *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static bool redirects(const unsigned char *config, size_t bytes)
{
    size_t offset = 0x100;
    for (int i = 0; i < 64 && offset >= 0x100 && offset + 8 <= bytes; i++) {
        const unsigned id = word16(config + offset), rest = word16(config + offset + 2);
        if (id == ACS) return word16(config + offset + 6) & ACS_REDIRECT;
        offset = rest >> 4;
    }
    return false;
}

// Reads it; *bytes is 0 where it cannot be read.
static void read_config(const doctor_context *c, const char *address,
                        unsigned char config[CONFIG_BYTES], size_t *bytes)
{
    char path[160], *full = NULL;
    *bytes = 0;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/config", address);
    FILE *f = doctor_path(c, path, &full, NULL) == OK ? fopen(full, "rb") : NULL;
    if (f) *bytes = fread(config, 1, CONFIG_BYTES, f);
    if (f) fclose(f);
    free(full);
}

// Every bridge above the GPU, up to its root port.
static status look_at_acs(const doctor_context *c, const pci_device *d, doctor_findings *out,
                          err *e)
{
    unsigned char config[CONFIG_BYTES];
    char bridge[PCI_ADDRESS_BYTES], child[PCI_ADDRESS_BYTES];
    size_t bytes;
    (void)e;
    memcpy(child, d->address, sizeof child);
    while (pci_parent(c, child, bridge)) {
        read_config(c, bridge, config, &bytes);
        if (bytes <= CONFIG_SHORT) {
            doctor_blind(out, "only root may read the configuration of PCI bridges");
            return OK;
        }
        if (redirects(config, bytes)) doctor_find(out, "where", bridge, "gpu", d->address, NULL);
        memcpy(child, bridge, sizeof child);
    }
    return OK;
}

static status probe_acs(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_gpu_with_peers(c, out, look_at_acs, e);
}

static bool has_module(const doctor_context *c, const char *name)
{
    char path[96], *full = NULL, resolved[4096];
    snprintf(path, sizeof path, "/sys/module/%s", name);
    const bool found = doctor_path(c, path, &full, NULL) == OK && realpath(full, resolved);
    free(full);
    return found;
}

// A network card reaches memory of a GPU by nvidia-peermem, or by dma-buf, which the open modules of the driver offer.
static status probe_peermem(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char **card = NULL, *version = NULL;
    int cards = 0;
    bool denied;
    pci_list bus = {NULL, 0};
    TRY(pci_read(c, &bus, e));
    TRY(doctor_names(c, "/sys/class/infiniband", &card, &cards, e));
    TRY(doctor_read(c, "/proc/driver/nvidia/version", &version, &denied, e));
    if (pci_count(&bus, PCI_GPU) == 0)
        doctor_skip(out, "this machine has no NVIDIA GPU");
    else if (cards == 0)
        doctor_skip(out, "this machine has no InfiniBand or RoCE card");
    else if (!has_module(c, "nvidia_peermem") && !has_module(c, "nv_peer_mem") &&
             !(version && strstr(version, "Open Kernel Module")))
        doctor_find(out, "where", card[0], NULL);
done:
    free(version);
    doctor_names_free(card, cards);
    pci_clear(&bus);
    return result;
}

static status look_at_numa(const doctor_context *c, const pci_device *d, doctor_findings *out,
                           err *e)
{
    char cpus[64];
    int64_t node;
    (void)e;
    if (!doctor_read_line(c, "/sys/devices/system/node/node1/cpulist", cpus, sizeof cpus))
        doctor_skip(out, "this machine has one NUMA node");
    else if (pci_read_number(c, d->address, "numa_node", &node) && node < 0)
        doctor_find(out, "where", d->address, NULL);
    return OK;
}

static status probe_numa(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_device(c, out, PCI_GPU, look_at_numa, e);
}

// ---- Resizable BAR

// Bit n of resource1_resize: 2^n MiB are possible. The second line of `resource` is the start and end of BAR 1.
static status look_at_bar(const doctor_context *c, const pci_device *d, doctor_findings *out,
                          err *e)
{
    status result = OK;
    char path[160], sizes[32], now[24], most[24], *resource = NULL;
    bool denied;
    unsigned long long first = 0, last = 0;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource", d->address);
    TRY(doctor_read(c, path, &resource, &denied, e));
    const char *second = resource ? strchr(resource, '\n') : NULL;
    if (!pci_read_line(c, d->address, "resource1_resize", sizes, sizeof sizes) || !second ||
        sscanf(second + 1, "%llx %llx", &first, &last) != 2 || last <= first)
        goto done;
    const uint64_t possible = strtoull(sizes, NULL, 16);
    int bit = 43; // 8 EiB
    while (bit > 0 && !(possible >> bit & 1)) bit--;
    text_bytes(now, (double)(last - first + 1));
    text_bytes(most, (double)(UINT64_C(1) << 20 << bit));
    if (last - first + 1 < UINT64_C(1) << 20 << bit)
        doctor_find(out, "where", d->address, "size", now, "most", most, NULL);
done:
    free(resource);
    return result;
}

static status probe_bar(const doctor_context *c, doctor_findings *out, err *e)
{
    return each_device(c, out, PCI_GPU, look_at_bar, e);
}

static const doctor_check ROWS[] = {
    {.code = "pci-link-width",
     .severity = DOCTOR_WARNING,
     .title = "PCIe links of GPUs, network cards and disks have their full width",
     .needs = "/sys/bus/pci/devices",
     .issue = "The PCIe link of the {kind} {where} is x{width} of x{most}{why}",
     .why =
         "The rate of the device is lower in the same proportion. x16 of generation 3, 4, 5 and 6 "
         "carries 16, 32, 64 and 128 GB/s in one direction.",
     .remedy = {"Seat the card and its riser again, and clean the contacts.",
                "$ sudo lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'"},
     .reference = "docs/gpus.md",
     .recipe = {175, 176},
     .probe = probe_width},
    {.code = "pci-link-speed",
     .severity = DOCTOR_WARNING,
     .title = "PCIe links of network cards and disks have their full speed",
     .needs = "/sys/bus/pci/devices",
     .issue = "The PCIe link of the {kind} {where} runs at {speed}; card and slot can do {most}",
     .why = "The rate of the device is lower in the same proportion.",
     .remedy = {"Set the slot's speed to automatic or to its maximum in the machine's firmware.",
                "Seat the card and its riser again, and clean the contacts."},
     .reference = "docs/gpus.md",
     .recipe = {175, 176},
     .probe = probe_speed},
    {.code = "pci-aer",
     .severity = DOCTOR_WARNING,
     .title = "PCIe devices have had few errors",
     .needs = "/sys/bus/pci/devices/*/aer_dev_*; threshold pcie_corrected",
     .issue = "The {kind} {where} has had {what} on its PCIe link",
     .why = "Corrected errors make the link slow. After others the device may fall off the bus.",
     .remedy = {"Seat the card and its riser again, and clean the contacts.",
                "Update the firmware of machine and card."},
     .reference = "kernel documentation: PCI Express Advanced Error Reporting",
     .recipe = {175},
     .probe = probe_errors},
    {.code = "pci-acs",
     .severity = DOCTOR_WARNING,
     .title = "PCIe switches connect GPUs directly (ACS is off)",
     .needs = "/sys/bus/pci/devices/*/config beyond 64 bytes (root)",
     .issue = "ACS of the bridge {where} sends traffic between GPU {gpu} and others to the root "
              "complex",
     .why =
         "Peer-to-peer copies go up to the processor and back. They are slower, and hang on some "
         "machines.",
     .remedy = {"Switch ACS off in the machine's firmware, or for one bridge until the next start:",
                "$ sudo setpci -s {where} ECAP_ACS+0x6.w=0000",
                "In a virtual machine ACS is needed: use the vendor's topology of GPUs there."},
     .reference = "NCCL User Guide: PCI Access Control Services",
     .recipe = {155},
     .probe = probe_acs},
    {.code = "pci-iommu",
     .severity = DOCTOR_WARNING,
     .title = "The IOMMU does not translate accesses of GPUs",
     .needs = "/sys/bus/pci/devices/*/iommu_group/type",
     .issue = "The IOMMU translates accesses of GPU {where} (its group is of type {type})",
     .why = "Peer-to-peer copies are slower, or fail, hang or give wrong data on some machines.",
     .remedy = {"Add iommu=pt to the kernel's command line, and restart the machine.",
                "$ trireme doctor gpu-p2p-data"},
     .reference = "NCCL User Guide: Troubleshooting, GPU Direct",
     .recipe = {155},
     .probe = probe_iommu},
    {.code = "pci-peermem",
     .severity = DOCTOR_WARNING,
     .title = "Network cards reach the memory of GPUs",
     .needs = "/sys/module, /sys/class/infiniband, /proc/driver/nvidia/version",
     .issue = "The card {where} does not reach memory of GPUs: nvidia_peermem is not loaded",
     .why = "NCCL copies through the memory of the host (no GPUDirect RDMA), which is slower and "
            "loads the processor.",
     .remedy = {"$ sudo modprobe nvidia-peermem",
                "Or install the open modules of the driver, which offer dma-buf."},
     .reference = "NVIDIA GPUDirect RDMA",
     .recipe = {181},
     .probe = probe_peermem},
    {.code = "pci-numa",
     .severity = DOCTOR_NOTE,
     .title = "The machine tells at which processor a GPU is",
     .needs = "/sys/bus/pci/devices/*/numa_node",
     .issue = "The machine does not tell the NUMA node of GPU {where}",
     .why = "Trireme and NCCL cannot place a rank at the processor of its GPU, so its copies may "
            "cross the sockets.",
     .remedy =
         {"Update the machine's firmware; in a virtual machine, give it the host's topology."},
     .reference = "docs/run.md",
     .recipe = {180},
     .probe = probe_numa},
    {.code = "pci-resizable-bar",
     .severity = DOCTOR_NOTE,
     .title = "GPUs use the largest BAR that they can",
     .needs = "/sys/bus/pci/devices/*/{resource,resource1_resize}",
     .issue = "The BAR of GPU {where} is {size}; it can be {most}",
     .why = "Other devices and the processor reach only this part of the GPU's memory at a time.",
     .remedy =
         {"Switch on 'Above 4G Decoding' and 'Resizable BAR' in the firmware of the machine."},
     .reference = "kernel documentation: sysfs-bus-pci, resourceN_resize",
     .recipe = {155},
     .probe = probe_bar},
};

const doctor_table DOCTOR_PCI = {"PCI bus", ROWS, sizeof ROWS / sizeof *ROWS};
