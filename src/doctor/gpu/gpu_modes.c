// gpu_modes.c -- checks of which GPUs there are and in which mode they are: missing or hidden ones, mixed models, MIG,
// compute mode, persistence. They ask NVML, and read /dev and the PCI bus of /sys.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/pci/pci.h"
#include "doctor/tables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Which GPUs

// The files /dev/nvidia0, /dev/nvidia1, ...: the GPUs that this machine or container was given.
static status count_nodes(const doctor_context *c, int *out, err *e)
{
    char **name = NULL;
    int count = 0;
    *out = 0;
    const status s = doctor_names(c, "/dev", &name, &count, e);
    for (int i = 0; i < count; i++)
        if (strncmp(name[i], "nvidia", 6) == 0 && isdigit((unsigned char)name[i][6]) &&
            name[i][6 + strspn(name[i] + 6, "0123456789")] == '\0')
            ++*out;
    doctor_names_free(name, count);
    return s;
}

static status probe_missing(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    gpu_list all;
    pci_list bus = {NULL, 0};
    int nodes;
    char answer[16], given[48], name[NVML_TEXT_BYTES];
    if (!gpus_list(c, out, &all)) return OK;
    TRY(pci_read(c, &bus, e));
    TRY(count_nodes(c, &nodes, e));
    const int on_bus = pci_count(&bus, PCI_GPU);
    snprintf(answer, sizeof answer, "%d", all.count);
    if (nodes > all.count || all.missing > 0) {
        const int listed = all.count + all.missing;
        snprintf(given, sizeof given, "%d", nodes > listed ? nodes : listed);
        doctor_find(out, "answer", answer, "of", given, "place", "of this machine", NULL);
    } else if (on_bus > all.count) {
        snprintf(given, sizeof given, "%d", on_bus);
        doctor_find_as(out, DOCTOR_NOTE, "answer", answer, "of", given, "place", "on the PCI bus",
                       NULL);
    }
    doctor_fact(out, "gpu_count", answer);
    if (all.count > 0 && nvml_read_word(&all.nvml, all.gpu[0], NVML_NAME, name, sizeof name))
        doctor_fact(out, "gpu_name", name);
done:
    pci_clear(&bus);
    return result;
}

// The GPU that an entry of CUDA_VISIBLE_DEVICES names, by index or by the beginning of its UUID, or -1.
static int named_gpu(const gpu_list *all, const char *entry, size_t bytes)
{
    char uuid[NVML_TEXT_BYTES], *end;
    const long index = strtol(entry, &end, 10);
    if (end == entry + bytes && bytes > 0)
        return index >= 0 && index < all->count ? (int)index : -1;
    for (int i = 0; bytes > 0 && i < all->count; i++)
        if (nvml_read_word(&all->nvml, all->gpu[i], NVML_UUID, uuid, sizeof uuid) &&
            strncmp(uuid, entry, bytes) == 0)
            return i;
    return -1;
}

// CUDA's rules: it stops at the first entry that names no GPU, and one that comes twice leaves none.
static status probe_visible(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    bool taken[GPUS_MOST] = {false};
    const char *value = doctor_variable(c, "CUDA_VISIBLE_DEVICES"), *why = "";
    char left[16], of[16], shown[128];
    int count = 0;
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    if (!value || strstr(value, "MIG-")) return OK;
    for (const char *entry = value;; entry++) {
        entry += strspn(entry, " ");
        const size_t bytes = strcspn(entry, ", ");
        const int gpu = named_gpu(&all, entry, bytes);
        if (gpu < 0 && bytes > 0 && strncmp(entry, "-1", 2) != 0)
            why = ", because it names one that does not exist";
        if (gpu >= 0 && taken[gpu]) why = ", because it names one twice", count = 0;
        if (gpu < 0 || taken[gpu]) break;
        taken[gpu] = true;
        count++;
        entry += strcspn(entry, ",");
        if (!*entry) break;
    }
    snprintf(left, sizeof left, "%d", count);
    snprintf(of, sizeof of, "%d", all.count);
    snprintf(shown, sizeof shown, "%.*s", TEXT_CUT(value, 100));
    if (count < all.count || *why)
        doctor_find_as(out, *why ? DOCTOR_WARNING : DOCTOR_NOTE, "value", shown, "left", left, "of",
                       of, "why", why, NULL);
    return OK;
}

static status probe_mixed(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char first[NVML_TEXT_BYTES], other[NVML_TEXT_BYTES], label[GPU_LABEL_BYTES];
    char first_size[24], size[24], a[160], b[160];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    if (all.count < 2) doctor_skip(out, "this machine has one GPU");
    for (int i = 0; i < all.count; i++) {
        nvml_memory memory;
        if (!nvml_read_word(&all.nvml, all.gpu[i], NVML_NAME, other, sizeof other) ||
            !nvml_read_memory(&all.nvml, all.gpu[i], &memory))
            continue;
        text_bytes(size, (double)memory.total);
        if (i == 0) {
            memcpy(first, other, sizeof first);
            memcpy(first_size, size, sizeof size);
            continue;
        }
        if (strcmp(first, other) == 0 && strcmp(first_size, size) == 0) continue;
        gpu_label(&all, i, label);
        snprintf(a, sizeof a, "%s of %s", other, size);
        snprintf(b, sizeof b, "%s of %s", first, first_size);
        doctor_find(out, "where", label, "name", a, "first", b, NULL);
    }
    return OK;
}

static status probe_vbios(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char first[NVML_TEXT_BYTES] = "", first_name[NVML_TEXT_BYTES] = "", name[NVML_TEXT_BYTES],
         version[NVML_TEXT_BYTES], label[GPU_LABEL_BYTES];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        if (!nvml_read_word(&all.nvml, all.gpu[i], NVML_NAME, name, sizeof name) ||
            !nvml_read_word(&all.nvml, all.gpu[i], NVML_VBIOS, version, sizeof version))
            continue;
        if (!*first) {
            memcpy(first, version, sizeof first);
            memcpy(first_name, name, sizeof first_name);
            doctor_fact(out, "gpu_vbios", version);
        }
        gpu_label(&all, i, label);
        if (strcmp(name, first_name) == 0 && strcmp(version, first) != 0)
            doctor_find(out, "where", label, "version", version, "first", first, NULL);
    }
    return OK;
}

// ---- Modes

// A GPU whose number is not `good`.
static void find_mode(const doctor_context *c, doctor_findings *out, nvml_number which,
                      uint64_t good)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES];
    int known = 0;
    if (!gpus_open(c, out, &all)) return;
    for (int i = 0; i < all.count; i++) {
        uint64_t value;
        if (!nvml_read(&all.nvml, all.gpu[i], which, &value)) continue;
        known++;
        gpu_label(&all, i, label);
        if (value != good) doctor_find(out, "where", label, NULL);
    }
    if (known == 0) doctor_skip(out, "these GPUs do not have this mode");
}

static status probe_persistence(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_mode(c, out, NVML_PERSISTENCE, 1);
    return OK;
}

static status probe_mig(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_mode(c, out, NVML_MIG_MODE, 0);
    return OK;
}

static status probe_display(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_mode(c, out, NVML_DISPLAY_ACTIVE, 0);
    return OK;
}

static status probe_compute_mode(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t mode;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_COMPUTE_MODE, &mode)) continue;
        gpu_label(&all, i, label);
        if (mode == NVML_MODE_PROHIBITED)
            doctor_find(out, "where", label, "mode", "Prohibited", "allows", "no program", NULL);
        if (mode == NVML_MODE_EXCLUSIVE && c->ranks > all.count)
            doctor_find(out, "where", label, "mode", "Exclusive_Process", "allows",
                        "one process, and more ranks than GPUs would run", NULL);
    }
    return OK;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-missing",
     .severity = DOCTOR_ERROR,
     .title = "Every GPU of the machine answers",
     .needs = "NVML, /dev, /sys/bus/pci/devices",
     .issue = "{answer} of {of} GPUs {place} answer to NVML",
     .why = "A GPU that does not answer has fallen off the bus or did not start. On the PCI bus "
            "alone, it was not given to this container or has no driver.",
     .remedy = {"$ nvidia-smi -L", "$ sudo dmesg | grep -E 'NVRM|Xid'",
                "Restart the machine; where a GPU stays away, check its power and its slot."},
     .reference = "docs/gpus.md",
     .recipe = {162, 182},
     .probe = probe_missing},
    {.code = "gpu-visible",
     .severity = DOCTOR_NOTE,
     .title = "CUDA_VISIBLE_DEVICES hides no GPU",
     .needs = "NVML, CUDA_VISIBLE_DEVICES",
     .issue = "CUDA_VISIBLE_DEVICES={value} leaves {left} of {of} GPUs{why}",
     .why = "A run sees these GPUs alone, and counts them from 0.",
     .remedy = {"$ unset CUDA_VISIBLE_DEVICES",
                "Valid are indices, or UUIDs as nvidia-smi -L prints them, separated by commas."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_visible},
    {.code = "gpu-mixed",
     .severity = DOCTOR_WARNING,
     .title = "All GPUs of the machine are alike",
     .needs = "NVML",
     .issue = "{where} is a {name}; the first GPU is a {first}",
     .why =
         "Ranks on the fast GPUs wait for the slow one, and the smallest memory limits the plan.",
     .remedy = {"Choose GPUs of one kind by CUDA_VISIBLE_DEVICES."},
     .reference = "docs/gpus.md",
     .recipe = {174},
     .probe = probe_mixed},
    {.code = "gpu-vbios",
     .severity = DOCTOR_NOTE,
     .title = "GPUs of one model have one firmware",
     .needs = "NVML",
     .issue = "{where} has the firmware (VBIOS) {version}; the first GPU has {first}",
     .why = "Firmware sets limits of power and clocks, so the GPUs may differ in speed.",
     .remedy = {"Ask the vendor of the machine for one firmware for all GPUs."},
     .reference = "nvidia-smi(1): VBIOS Version",
     .recipe = {174},
     .probe = probe_vbios},
    {.code = "gpu-persistence",
     .severity = DOCTOR_NOTE,
     .title = "The driver stays loaded while no program uses a GPU",
     .needs = "NVML",
     .issue = "Persistence mode of {where} is off",
     .why = "The driver starts the GPU again with each program, which takes seconds, and loses "
            "limits and counters that were set.",
     .remedy = {"$ sudo systemctl enable --now nvidia-persistenced", "$ sudo nvidia-smi -pm 1"},
     .reference = "NVIDIA Driver Persistence",
     .probe = probe_persistence},
    {.code = "gpu-compute-mode",
     .severity = DOCTOR_ERROR,
     .title = "The ranks may open the GPUs",
     .needs = "NVML",
     .issue = "The compute mode of {where} is {mode}, which allows {allows}",
     .why = "CUDA refuses to open the GPU: all CUDA-capable devices are busy or unavailable.",
     .remedy = {"$ sudo nvidia-smi -i N -c DEFAULT"},
     .reference = "nvidia-smi(1): --compute-mode",
     .probe = probe_compute_mode},
    {.code = "gpu-mig",
     .severity = DOCTOR_WARNING,
     .title = "No GPU is divided (MIG)",
     .needs = "NVML",
     .issue = "{where} is divided (MIG mode is on)",
     .why = "A program gets one part of the GPU, and parts have no peer-to-peer access: NCCL takes "
            "one rank a GPU.",
     .remedy = {"$ sudo nvidia-smi -i N -mig 0",
                "To use a part, name it: CUDA_VISIBLE_DEVICES=MIG-..."},
     .reference = "NVIDIA Multi-Instance GPU User Guide",
     .recipe = {183},
     .probe = probe_mig},
    {.code = "gpu-display",
     .severity = DOCTOR_NOTE,
     .title = "No GPU draws a screen",
     .needs = "NVML",
     .issue = "{where} draws a screen",
     .why = "The desktop takes memory and time of the GPU, and the driver may end long kernels.",
     .remedy = {"$ sudo systemctl isolate multi-user.target",
                "Choose the other GPUs by CUDA_VISIBLE_DEVICES."},
     .reference = "nvidia-smi(1): Display Active",
     .probe = probe_display},
};

const doctor_table DOCTOR_GPU_MODES = {"GPUs of the machine", ROWS, sizeof ROWS / sizeof *ROWS};
