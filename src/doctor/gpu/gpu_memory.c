// gpu_memory.c -- checks of the memory of GPUs: errors, rows that must be replaced, and who uses it. They ask NVML.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/tables.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// One number of every GPU above a limit.
static void find_above(const doctor_context *c, doctor_findings *out, nvml_number which,
                       uint64_t most)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], count[24];
    int known = 0;
    if (!gpus_open(c, out, &all)) return;
    for (int i = 0; i < all.count; i++) {
        uint64_t value;
        if (!nvml_read(&all.nvml, all.gpu[i], which, &value)) continue;
        known++;
        gpu_label(&all, i, label);
        snprintf(count, sizeof count, "%" PRIu64, value);
        if (value > most) doctor_find(out, "where", label, "count", count, NULL);
    }
    if (known == 0) doctor_skip(out, "these GPUs do not count such errors");
}

static status probe_uncorrected(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_above(c, out, NVML_ECC_UNCORRECTED, 0);
    return OK;
}

static status probe_corrected(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_above(c, out, NVML_ECC_CORRECTED, (uint64_t)doctor_threshold(c, "ecc_corrected", 1000));
    return OK;
}

static status probe_pages(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_above(c, out, NVML_PAGES_PENDING, 0);
    return OK;
}

static status probe_ecc_off(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES];
    int known = 0;
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t now, pending;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_ECC_MODE, &now) ||
            !nvml_read(&all.nvml, all.gpu[i], NVML_ECC_MODE_PENDING, &pending))
            continue;
        known++;
        gpu_label(&all, i, label);
        if (!now)
            doctor_find(out, "where", label, "when",
                        pending ? "until the next reset" : "and stays so", NULL);
    }
    if (known == 0) doctor_skip(out, "these GPUs have no ECC");
    return OK;
}

static status probe_rows(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES];
    int known = 0;
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        bool pending, failed;
        if (!nvml_read_rows(&all.nvml, all.gpu[i], &pending, &failed)) continue;
        known++;
        gpu_label(&all, i, label);
        if (failed)
            doctor_find_as(out, DOCTOR_ERROR, "where", label, "what",
                           "a row of memory that could not be replaced", NULL);
        else if (pending)
            doctor_find(out, "where", label, "what",
                        "a row of memory that is replaced at the next reset", NULL);
    }
    if (known == 0) doctor_skip(out, "these GPUs do not replace rows of memory");
    return OK;
}

static status probe_recovery(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const actions[] = {NULL, "a reset", "a restart of the machine",
                                          "to be drained of peer-to-peer traffic",
                                          "to be drained and reset"};
    gpu_list all;
    char label[GPU_LABEL_BYTES];
    int known = 0;
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        unsigned action;
        if (!nvml_read_recovery(&all.nvml, all.gpu[i], &action)) continue;
        known++;
        gpu_label(&all, i, label);
        if (action > 0)
            doctor_find(out, "where", label, "action",
                        action < sizeof actions / sizeof *actions ? actions[action]
                                                                  : "an action that is not known",
                        NULL);
    }
    if (known == 0) doctor_skip(out, "this driver does not say which action a GPU needs");
    return OK;
}

// ---- Who uses it

enum { PROCESSES_MOST = 64 };

static int own_process(const nvml_process *p, int count)
{
    for (int i = 0; i < count; i++)
        if (p[i].pid == (unsigned)getpid()) return 1;
    return 0;
}

static status probe_processes(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    gpu_list all;
    text pids = {0};
    char label[GPU_LABEL_BYTES];
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        nvml_process p[PROCESSES_MOST];
        int count;
        if (!nvml_read_processes(&all.nvml, all.gpu[i], p, PROCESSES_MOST, &count)) continue;
        const int shown = count < PROCESSES_MOST ? count : PROCESSES_MOST;
        text_clear(&pids);
        for (int j = 0; j < shown; j++)
            if (p[j].pid != (unsigned)getpid())
                text_addf(&pids, "%s%u", pids.bytes ? ", " : "", p[j].pid);
        TRY(text_check(&pids, e));
        gpu_label(&all, i, label);
        if (pids.bytes) doctor_find(out, "where", label, "pids", pids.chars, NULL);
    }
done:
    text_clear(&pids);
    return result;
}

// A GPU that nobody uses holds a little for the driver and, on desktops, for the screen.
static status probe_taken(const doctor_context *c, doctor_findings *out, err *e)
{
    enum { OF_DRIVER = 1 << 30 };
    gpu_list all;
    char label[GPU_LABEL_BYTES], used[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        nvml_process p[PROCESSES_MOST];
        nvml_memory memory;
        int count = 0;
        if (!nvml_read_memory(&all.nvml, all.gpu[i], &memory) ||
            !nvml_read_processes(&all.nvml, all.gpu[i], p, PROCESSES_MOST, &count))
            continue;
        gpu_label(&all, i, label);
        text_bytes(used, (double)memory.used);
        if (memory.used > OF_DRIVER && count - own_process(p, count) <= 0)
            doctor_find(out, "where", label, "used", used, NULL);
    }
    return OK;
}

// ---- Its size

// The number before "GB" in a name such as "NVIDIA A100-SXM4-80GB"; 0: the name has none.
static int named_gigabytes(const char *name)
{
    const char *unit = strstr(name, "GB");
    const char *from = unit;
    while (from && from > name && isdigit((unsigned char)from[-1])) from--;
    return from && from < unit ? atoi(from) : 0;
}

static status probe_size(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], name[NVML_TEXT_BYTES], size[24];
    int known = 0;
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        nvml_memory memory;
        if (!nvml_read_word(&all.nvml, all.gpu[i], NVML_NAME, name, sizeof name) ||
            !nvml_read_memory(&all.nvml, all.gpu[i], &memory) || named_gigabytes(name) == 0)
            continue;
        known++;
        gpu_label(&all, i, label);
        text_bytes(size, (double)memory.total);
        if (known == 1)
            doctor_measure(out, "gpu_memory_gib", (double)memory.total / (1 << 30), "GiB", false);
        if ((double)memory.total < 0.9e9 * named_gigabytes(name))
            doctor_find(out, "where", label, "name", name, "size", size, NULL);
    }
    if (known == 0)
        doctor_skip(out, "the names of these GPUs do not say how much memory they have");
    return OK;
}

static status probe_bar(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], bar[24], size[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        nvml_memory memory;
        uint64_t total;
        if (!nvml_read_memory(&all.nvml, all.gpu[i], &memory) ||
            !nvml_read_bar(&all.nvml, all.gpu[i], &total))
            continue;
        gpu_label(&all, i, label);
        text_bytes(bar, (double)total);
        text_bytes(size, (double)memory.total);
        if (total < memory.total) doctor_find(out, "where", label, "bar", bar, "size", size, NULL);
    }
    return OK;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-ecc-uncorrected",
     .severity = DOCTOR_ERROR,
     .title = "No GPU has had an error of memory that ECC could not correct",
     .needs = "NVML",
     .issue =
         "{where} has had {count} errors of memory that ECC could not correct since the driver "
         "was loaded",
     .why = "Each such error ends the program that used the memory, and more follow until the GPU "
            "is reset and the row of memory is replaced.",
     .remedy = {"Reset the GPU when no program uses it, and look again:",
                "$ sudo nvidia-smi --gpu-reset -i N",
                "Have the GPU replaced where the number grows again."},
     .reference = "NVIDIA GPU Memory Error Management",
     .at_start = DOCTOR_START_ON_GPUS,
     .probe = probe_uncorrected},
    {.code = "gpu-ecc-corrected",
     .severity = DOCTOR_WARNING,
     .title = "ECC corrects few errors of memory",
     .needs = "NVML; threshold ecc_corrected",
     .issue = "ECC of {where} has corrected {count} errors of memory since the driver was loaded",
     .why = "A corrected error does no harm. Many of them announce one that cannot be corrected.",
     .remedy = {"$ nvidia-smi -q -d ECC,ROW_REMAPPER",
                "Have the GPU tested where the number grows from day to day."},
     .reference = "NVIDIA GPU Memory Error Management",
     .probe = probe_corrected},
    {.code = "gpu-ecc-off",
     .severity = DOCTOR_WARNING,
     .title = "ECC is on",
     .needs = "NVML",
     .issue = "ECC of {where} is off, {when}",
     .why = "A bit that flips in memory stays unseen, and the run trains with a wrong number.",
     .remedy = {"$ sudo nvidia-smi -e 1 -i N", "Reset the GPU or restart the machine afterwards."},
     .reference = "nvidia-smi(1): --ecc-config",
     .probe = probe_ecc_off},
    {.code = "gpu-remapped-rows",
     .severity = DOCTOR_WARNING,
     .title = "No row of a GPU's memory waits to be replaced",
     .needs = "NVML",
     .issue = "{where} has {what}",
     .why = "The row has shown errors. A run may end with Xid 94 or 95 when it uses memory there.",
     .remedy = {"Reset the GPU when no program uses it:", "$ sudo nvidia-smi --gpu-reset -i N",
                "Have the GPU replaced where a row could not be replaced."},
     .reference = "NVIDIA GPU Memory Error Management",
     .probe = probe_rows},
    {.code = "gpu-retired-pages",
     .severity = DOCTOR_WARNING,
     .title = "No page of a GPU's memory waits to be retired",
     .needs = "NVML",
     .issue = "{where} retires pages of memory at the next start of its driver",
     .why = "The pages have shown errors, and a run still uses them.",
     .remedy = {"Reset the GPU when no program uses it:", "$ sudo nvidia-smi --gpu-reset -i N"},
     .reference = "NVIDIA Dynamic Page Retirement",
     .probe = probe_pages},
    {.code = "gpu-recovery",
     .severity = DOCTOR_ERROR,
     .title = "No GPU waits for a reset",
     .needs = "NVML",
     .issue = "The driver says that {where} needs {action}",
     .why = "A fault has left the GPU in a state in which new work fails or hangs.",
     .remedy = {"Stop all programs on the GPU, then do what the driver asks for:",
                "$ sudo nvidia-smi --gpu-reset -i N"},
     .reference = "NVIDIA Xid Errors: Xid 154",
     .at_start = DOCTOR_START_ON_GPUS,
     .probe = probe_recovery},
    {.code = "gpu-processes",
     .severity = DOCTOR_WARNING,
     .title = "No other program computes on the GPUs",
     .needs = "NVML",
     .issue = "Other processes compute on {where}: {pids}",
     .why = "They take memory and time of the GPU, and every rank waits for the slowest one. "
            "Processes of a run that was killed may be left over.",
     .remedy = {"$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
                "Stop them, or choose other GPUs by CUDA_VISIBLE_DEVICES."},
     .reference = "docs/troubleshooting.md",
     .recipe = {163},
     .probe = probe_processes},
    {.code = "gpu-memory-taken",
     .severity = DOCTOR_WARNING,
     .title = "Memory of a GPU that is in use has a process",
     .needs = "NVML",
     .issue = "{used} of {where} are in use, and no process is seen that uses them",
     .why = "A process of another container has the memory, or one that ended did not give it "
            "back. A run that counts on it ends with: out of memory.",
     .remedy = {"$ sudo fuser -v /dev/nvidia*", "Look for it on the host, outside of containers.",
                "Where no process is left, reset the GPU:", "$ sudo nvidia-smi --gpu-reset -i N"},
     .reference = "docs/troubleshooting.md",
     .recipe = {164},
     .probe = probe_taken},
    {.code = "gpu-memory-size",
     .severity = DOCTOR_WARNING,
     .title = "A GPU has as much memory as its name says",
     .needs = "NVML",
     .issue = "{where} ({name}) has {size} of memory",
     .why = "The GPU is divided (MIG, vGPU), or a part of its memory is switched off. A plan for "
            "the named size does not fit.",
     .remedy = {"$ nvidia-smi -q -d MEMORY", "Switch MIG off, or take a smaller model or batch."},
     .reference = "docs/gpus.md",
     .recipe = {183},
     .probe = probe_size},
    {.code = "gpu-bar1",
     .severity = DOCTOR_NOTE,
     .title = "All memory of a GPU is addressed over PCIe (large BAR)",
     .needs = "NVML",
     .issue = "{bar} of the {size} of {where} can be addressed over PCIe",
     .why = "GPUDirect RDMA and peer-to-peer copies over PCIe go through this window, and are "
            "slower or impossible where it is small.",
     .remedy =
         {"Switch on 'Above 4G Decoding' and 'Resizable BAR' in the firmware of the machine."},
     .reference = "NVIDIA GPUDirect RDMA: BAR sizes",
     .recipe = {155},
     .probe = probe_bar},
};

const doctor_table DOCTOR_GPU_MEMORY = {"Memory of the GPUs", ROWS, sizeof ROWS / sizeof *ROWS};
