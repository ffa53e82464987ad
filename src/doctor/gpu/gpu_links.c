// gpu_links.c -- checks of the links of GPUs: PCIe, NVLink, and the fabric of NVSwitches. They ask NVML, and read the PCI
// bus of /sys. The copy between GPUs is checked by gpu_p2p.c.
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/pci/pci.h"
#include "doctor/tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void count_text(char out[24], uint64_t value)
{
    snprintf(out, 24, "%" PRIu64, value);
}

// ---- PCIe

// The rate of a link in one direction, in GB/s: x1 of generation 3 carries 0.985, and each generation doubles it.
static void rate_text(char out[24], uint64_t generation, uint64_t width)
{
    double gigabytes = 0.985 * (double)width;
    for (uint64_t g = 3; g < generation && g < 8; g++) gigabytes *= 2;
    for (uint64_t g = generation; g < 3; g++) gigabytes /= 2;
    snprintf(out, 24, "%.0f", gigabytes);
}

typedef struct gpu_bus {
    uint64_t width, width_max, generation, generation_max;
} gpu_bus;

static bool read_bus(const gpu_list *all, int i, gpu_bus *out)
{
    const nvml *n = &all->nvml;
    const nvml_gpu g = all->gpu[i];
    return nvml_read(n, g, NVML_PCIE_WIDTH, &out->width) &&
           nvml_read(n, g, NVML_PCIE_WIDTH_MAX, &out->width_max) &&
           nvml_read(n, g, NVML_PCIE_GENERATION, &out->generation) &&
           nvml_read(n, g, NVML_PCIE_GENERATION_MAX, &out->generation_max);
}

static status probe_width(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], now[24], most[24], rate[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        gpu_bus bus;
        if (!read_bus(&all, i, &bus)) continue;
        const uint64_t want = (uint64_t)doctor_threshold(c, "pcie_width", (double)bus.width_max);
        gpu_label(&all, i, label);
        count_text(now, bus.width);
        count_text(most, want);
        rate_text(rate, bus.generation_max, bus.width);
        if (bus.width < want)
            doctor_find(out, "where", label, "width", now, "most", most, "rate", rate, NULL);
    }
    return OK;
}

// A GPU without work lowers the generation of its link to save power, so only one that computes is judged.
static status probe_generation(const doctor_context *c, doctor_findings *out, err *e)
{
    enum { BUSY_PERCENT = 50 };
    gpu_list all;
    char label[GPU_LABEL_BYTES], now[24], most[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        gpu_bus bus;
        unsigned percent;
        if (!read_bus(&all, i, &bus)) continue;
        const uint64_t want = (uint64_t)doctor_threshold(c, "pcie_gen", (double)bus.generation_max);
        const bool is_busy =
            nvml_read_utilization(&all.nvml, all.gpu[i], &percent) && percent >= BUSY_PERCENT;
        gpu_label(&all, i, label);
        const uint64_t reached = is_busy ? bus.generation : bus.generation_max;
        count_text(now, reached);
        count_text(most, want);
        if (reached < want) doctor_find(out, "where", label, "generation", now, "most", most, NULL);
    }
    return OK;
}

static status probe_replays(const doctor_context *c, doctor_findings *out, err *e)
{
    const uint64_t most = (uint64_t)doctor_threshold(c, "pcie_replays", 1000);
    gpu_list all;
    char label[GPU_LABEL_BYTES], count[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t replays;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_PCIE_REPLAYS, &replays)) continue;
        gpu_label(&all, i, label);
        count_text(count, replays);
        if (replays > most) doctor_find(out, "where", label, "count", count, NULL);
    }
    return OK;
}

// ---- NVLink

static int active_links(const gpu_list *all, int i)
{
    int active = 0;
    for (int link = 0; link < NVML_LINKS; link++) {
        bool is_active;
        active += nvml_read_link(&all->nvml, all->gpu[i], link, &is_active) && is_active;
    }
    return active;
}

// A board may have links that lead nowhere, so each GPU is compared with the one that has most, or with the machine's type.
static status probe_links(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    int active[GPUS_MOST], most = 0;
    char label[GPU_LABEL_BYTES], now[24], want[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        active[i] = active_links(&all, i);
        if (active[i] > most) most = active[i];
    }
    most = (int)doctor_threshold(c, "nvlinks", most);
    if (most == 0) doctor_skip(out, "no GPU has an NVLink that is active");
    for (int i = 0; i < all.count; i++) {
        gpu_label(&all, i, label);
        count_text(now, (uint64_t)active[i]);
        count_text(want, (uint64_t)most);
        if (active[i] < most) doctor_find(out, "where", label, "active", now, "most", want, NULL);
    }
    return OK;
}

static uint64_t link_errors(const gpu_list *all, int i)
{
    uint64_t sum = 0, errors;
    for (int link = 0; link < NVML_LINKS; link++) {
        bool is_active;
        if (!nvml_read_link(&all->nvml, all->gpu[i], link, &is_active) || !is_active) continue;
        for (int k = NVML_LINK_REPLAY; k <= NVML_LINK_CRC_DATA; k++)
            if (nvml_read_link_errors(&all->nvml, all->gpu[i], link, k, &errors)) sum += errors;
    }
    return sum;
}

static status probe_link_errors(const doctor_context *c, doctor_findings *out, err *e)
{
    const uint64_t most = (uint64_t)doctor_threshold(c, "nvlink_errors", 100);
    gpu_list all;
    char label[GPU_LABEL_BYTES], count[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        const uint64_t errors = link_errors(&all, i);
        gpu_label(&all, i, label);
        count_text(count, errors);
        if (errors > most) doctor_find(out, "where", label, "count", count, NULL);
    }
    return OK;
}

// ---- NVSwitch

static const char *fabric_fault(const nvml_fabric *f)
{
    enum { NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED };
    if (f->state == NOT_STARTED) return "has not started to join";
    if (f->state == IN_PROGRESS) return "has not joined yet";
    if (f->state == COMPLETED && f->status != NVML_DONE) return "could not join";
    return NULL;
}

// GPUs without NVSwitch have no fabric; older drivers do not tell its state, and the service's process does.
static status probe_fabric(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    gpu_list all;
    pci_list bus = {NULL, 0};
    char label[GPU_LABEL_BYTES], line[16];
    int known = 0;
    if (!gpus_open(c, out, &all)) return OK;
    TRY(pci_read(c, &bus, e));
    for (int i = 0; i < all.count; i++) {
        nvml_fabric f;
        if (!nvml_read_fabric(&all.nvml, all.gpu[i], &f) || f.state == 0) continue;
        known++;
        gpu_label(&all, i, label);
        if (fabric_fault(&f)) doctor_find(out, "where", label, "what", fabric_fault(&f), NULL);
    }
    if (known > 0) goto done;
    if (pci_count(&bus, PCI_SWITCH) == 0)
        doctor_skip(out, "this machine has no NVSwitch");
    else if (!doctor_read_line(c, "/run/nvidia-fabricmanager/nv-fabricmanager.pid", line,
                               sizeof line)) // a container may not see it
        doctor_find_as(out, DOCTOR_WARNING, "where", "the fabric manager", "what",
                       "is not seen to run", NULL);
done:
    pci_clear(&bus);
    return result;
}

static const char *p2p_text(int code)
{
    static const char *const reasons[] = {
        NULL,
        "the chipset does not support it",
        "the GPUs do not support it",
        "the two are on different sockets or root complexes",
        "a setting of the driver forbids it",
        "it is not supported",
    };
    return code > 0 && code < (int)(sizeof reasons / sizeof *reasons)
               ? reasons[code]
               : "the driver does not say why";
}

static status probe_p2p(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char first[GPU_LABEL_BYTES], second[GPU_LABEL_BYTES], pair[2 * GPU_LABEL_BYTES + 8];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    if (all.count < 2) doctor_skip(out, "this machine has one GPU");
    for (int i = 0; i < all.count; i++)
        for (int j = i + 1; j < all.count; j++) {
            int code;
            if (!nvml_read_p2p(&all.nvml, all.gpu[i], all.gpu[j], &code) || code == 0) continue;
            gpu_label(&all, i, first);
            gpu_label(&all, j, second);
            snprintf(pair, sizeof pair, "%s and %s", first, second);
            doctor_find(out, "where", pair, "why", p2p_text(code), NULL);
        }
    return OK;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-pcie-width",
     .severity = DOCTOR_WARNING,
     .title = "The PCIe link of every GPU has its full width",
     .needs = "NVML; threshold pcie_width",
     .issue =
         "The PCIe link of {where} is x{width} of x{most}, at most {rate} GB/s in one direction",
     .why = "Copies from and to the GPU take longer in the same proportion: batches, state that is "
            "offloaded, and collectives without NVLink.",
     .remedy =
         {"Seat the card and its riser again, and clean the contacts.",
          "Put the card into a slot of full width; some boards halve slots that share theirs.",
          "$ sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'"},
     .reference = "docs/gpus.md",
     .recipe = {175, 176},
     .probe = probe_width},
    {.code = "gpu-pcie-generation",
     .severity = DOCTOR_WARNING,
     .title = "The PCIe link of every GPU has its full speed under load",
     .needs = "NVML; threshold pcie_gen",
     .issue = "The PCIe link of {where} runs at generation {generation} of {most}",
     .why = "Each generation less halves the rate of copies. GPUs without work lower it, so it "
            "counts for busy ones only.",
     .remedy = {"Set the slot's speed to automatic or to its maximum in the machine's firmware.",
                "Replace the riser: a weak one makes the link fall back."},
     .reference = "docs/gpus.md",
     .recipe = {175, 176},
     .probe = probe_generation},
    {.code = "gpu-pcie-replays",
     .severity = DOCTOR_WARNING,
     .title = "The PCIe link of every GPU repeats few packets",
     .needs = "NVML; threshold pcie_replays",
     .issue = "The PCIe link of {where} has repeated {count} packets",
     .why = "Packets arrive damaged and are sent again. The link is slower, and may fail: the GPU "
            "then falls off the bus (Xid 79).",
     .remedy = {"Seat the card and its riser again, and clean the contacts.",
                "$ nvidia-smi --query-gpu=index,pcie.link.width.current --format=csv"},
     .reference = "nvidia-smi(1): Replays Since Reset",
     .recipe = {175},
     .probe = probe_replays},
    {.code = "gpu-nvlink-down",
     .severity = DOCTOR_WARNING,
     .title = "Every GPU has all its NVLinks",
     .needs = "NVML; threshold nvlinks",
     .issue = "{where} has {active} active NVLinks of {most}",
     .why = "NCCL takes fewer channels or PCIe for all ranks, and collectives are several times "
            "slower. With NVSwitch CUDA may not start.",
     .remedy = {"$ nvidia-smi nvlink --status", "Reset the GPUs, or restart the machine.",
                "Check bridges and cables, and the log of the fabric manager."},
     .reference = "nvidia-smi(1): nvlink",
     .recipe = {177, 178},
     .probe = probe_links},
    {.code = "gpu-nvlink-errors",
     .severity = DOCTOR_WARNING,
     .title = "NVLinks have few errors",
     .needs = "NVML; threshold nvlink_errors",
     .issue = "The NVLinks of {where} have had {count} errors",
     .why =
         "Packets are sent again, so collectives are slower. Links with many errors fail (Xid 74).",
     .remedy = {"$ nvidia-smi nvlink --errorcounters",
                "Seat bridges and cables again; have the GPU tested where the number grows."},
     .reference = "nvidia-smi(1): nvlink",
     .recipe = {177},
     .probe = probe_link_errors},
    {.code = "gpu-fabric",
     .severity = DOCTOR_ERROR,
     .title = "The GPUs have joined the fabric of their NVSwitches",
     .needs = "NVML, /sys/bus/pci/devices, /run/nvidia-fabricmanager",
     .issue = "The NVSwitch fabric is not ready: {where} {what}",
     .why = "CUDA does not start (system not yet initialized, error 802) until the fabric manager "
            "has connected the GPUs.",
     .remedy = {"$ systemctl status nvidia-fabricmanager",
                "$ sudo systemctl restart nvidia-fabricmanager",
                "Install the fabric manager of exactly the driver's version."},
     .reference = "NVIDIA Fabric Manager User Guide",
     .recipe = {179},
     .at_start = DOCTOR_START_ON_GPUS,
     .probe = probe_fabric},
    {.code = "gpu-p2p",
     .severity = DOCTOR_NOTE,
     .title = "GPUs reach each other's memory",
     .needs = "NVML",
     .issue = "{where} do not reach each other's memory: {why}",
     .why = "Trireme and NCCL then copy through the memory of the host, which is slower.",
     .remedy = {"$ nvidia-smi topo -p2p r",
                "GPUs of the GeForce series have no peer-to-peer access; others need IOMMU and ACS "
                "off (see pci-iommu and pci-acs)."},
     .reference = "docs/gpus.md",
     .recipe = {155, 180},
     .probe = probe_p2p},
};

const doctor_table DOCTOR_GPU_LINKS = {"Links of the GPUs", ROWS, sizeof ROWS / sizeof *ROWS};
