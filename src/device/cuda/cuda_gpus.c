// cuda_gpus.c -- the GPUs of this machine by NVML, and which of them this process sees. See cuda_gpus.h.
//
// NVML's header is not part of every toolkit, so the few functions are declared here, as its documentation
// has them.
#include "device/cuda/cuda_gpus.h"

#include "base/text.h"
#include "device/cuda/libraries/cuda_library.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_utilization {
    unsigned gpu, memory; // percent of the time
} nvml_utilization;
typedef void *nvml_gpu;

typedef struct nvml {
    int (*init)(void);
    const char *(*error)(int code);
    int (*driver)(int *version);
    int (*count)(unsigned *out);
    int (*gpu)(unsigned index, nvml_gpu *out);
    int (*name)(nvml_gpu g, char *out, unsigned bytes);
    int (*uuid)(nvml_gpu g, char *out, unsigned bytes);
    int (*memory)(nvml_gpu g, nvml_memory *out);
    int (*capability)(nvml_gpu g, int *major, int *minor);
} nvml;

static const cuda_symbol SYMBOLS[] = {
    {"nvmlInit_v2", offsetof(nvml, init)},
    {"nvmlErrorString", offsetof(nvml, error)},
    {"nvmlSystemGetCudaDriverVersion_v2", offsetof(nvml, driver)},
    {"nvmlDeviceGetCount_v2", offsetof(nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(nvml, gpu)},
    {"nvmlDeviceGetName", offsetof(nvml, name)},
    {"nvmlDeviceGetUUID", offsetof(nvml, uuid)},
    {"nvmlDeviceGetMemoryInfo", offsetof(nvml, memory)},
    {"nvmlDeviceGetCudaComputeCapability", offsetof(nvml, capability)},
};

static status check(const nvml *n, int code, err *e)
{
    if (code == 0) return OK;
    return err_set(e, E_USAGE, "the NVIDIA driver does not work: NVML says: %s", n->error(code));
}

status cuda_gpus_check_driver(int version, err *e)
{
    const int least = CUDART_VERSION / 1000 * 1000;
    if (version == 0) return err_set(e, E_USAGE, "this machine has no NVIDIA driver");
    if (version >= least) return OK;
    return err_set(e, E_USAGE,
                   "the NVIDIA driver supports CUDA %d.%d; this build needs a driver for %d.%d or "
                   "later",
                   version / 1000, version % 1000 / 10, least / 1000, least % 1000 / 10);
}

// Not every GPU and driver can say it: GPUs that are divided cannot.
static int utilization_of(nvml_gpu g)
{
    typedef int (*utilization_rates)(nvml_gpu g, nvml_utilization * out);
    nvml_utilization rates;
    const utilization_rates ask =
        (utilization_rates)cuda_library_find(CUDA_LIBRARY_NVML, "nvmlDeviceGetUtilizationRates");
    return ask && ask(g, &rates) == 0 ? (int)rates.gpu : -1;
}

static status read_one(const nvml *n, unsigned index, cuda_gpu *out, err *e)
{
    status result = OK;
    nvml_gpu g;
    nvml_memory memory;
    TRY(check(n, n->gpu(index, &g), e));
    TRY(check(n, n->name(g, out->name, sizeof out->name), e));
    TRY(check(n, n->uuid(g, out->uuid, sizeof out->uuid), e));
    TRY(check(n, n->memory(g, &memory), e));
    TRY(check(n, n->capability(g, &out->major, &out->minor), e));
    out->free_bytes = memory.free;
    out->number = (int)index;
    out->utilization = utilization_of(g);
done:
    return result;
}

// NVML stays open: opening it again is then fast, and the driver stays loaded until CUDA needs it.
static status read_all(const nvml *n, cuda_gpus *out, err *e)
{
    status result = OK;
    unsigned count;
    int version;
    TRY(check(n, n->init(), e));
    TRY(check(n, n->driver(&version), e));
    TRY(cuda_gpus_check_driver(version, e));
    TRY(check(n, n->count(&count), e));
    out->count = count < CUDA_MOST_GPUS ? (int)count : CUDA_MOST_GPUS;
    for (int i = 0; i < out->count; i++) TRY(read_one(n, (unsigned)i, &out->gpu[i], e));
done:
    return result;
}

// A GPU that is divided counts as its first part, of which NVML says nothing here.
static bool any_divided(int count)
{
    typedef int (*mig_mode)(nvml_gpu g, unsigned *now, unsigned *pending);
    typedef int (*handle_of)(unsigned index, nvml_gpu *out);
    const mig_mode mode = (mig_mode)cuda_library_find(CUDA_LIBRARY_NVML, "nvmlDeviceGetMigMode");
    const handle_of gpu =
        (handle_of)cuda_library_find(CUDA_LIBRARY_NVML, "nvmlDeviceGetHandleByIndex_v2");
    for (unsigned i = 0; mode && i < (unsigned)count; i++) {
        nvml_gpu g;
        unsigned now = 0, pending;
        if (gpu(i, &g) == 0 && mode(g, &now, &pending) == 0 && now != 0) return true;
    }
    return false;
}

// CUDA numbers GPUs of several kinds by their speed, unless CUDA_DEVICE_ORDER says otherwise.
static bool same_order(const cuda_gpus *all)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (order && strcmp(order, "PCI_BUS_ID") == 0) return true;
    for (int i = 1; i < all->count; i++)
        if (strcmp(all->gpu[i].name, all->gpu[0].name) != 0) return false;
    return true;
}

// ---- CUDA_VISIBLE_DEVICES

// The index of the GPU that an entry names, or -1.
static int find(const cuda_gpus *all, const char *entry, size_t bytes)
{
    int found = -1;
    char *end;
    if (bytes == 0) return -1;
    const long index = strtol(entry, &end, 10);
    if (end != entry) return index >= 0 && index < all->count ? (int)index : -1;
    for (int i = 0; i < all->count; i++)
        if (strncmp(all->gpu[i].uuid, entry, bytes) == 0) {
            if (found >= 0) return -1; // the beginning of two
            found = i;
        }
    return found;
}

// Why the list ends before an entry: it names no GPU, or one for the second time. -1 and nothing hide the rest on purpose.
static void add_wrong(const cuda_gpus *all, const char *entry, size_t bytes, bool twice, text *out)
{
    if (bytes == 0 || (bytes == 2 && strncmp(entry, "-1", 2) == 0)) return;
    text_add(out, "; '");
    text_add_printable(out, entry, bytes < 60 ? bytes : 60, "");
    if (twice)
        text_add(out, "' names a GPU twice, so CUDA leaves none");
    else
        text_add(out, "' names none, so CUDA stops there");
    text_addf(out, "; valid are 0 to %d, and UUIDs as nvidia-smi -L prints them", all->count - 1);
}

// Finds the GPU of the machine that each of CUDA's numbers means.
static void add_map(const cuda_gpus *kept, text *out)
{
    enum { MOST = 16 };
    for (int i = 0; i < kept->count && i < MOST; i++)
        text_addf(out, "%scuda %d is GPU %d", i ? ", " : ": ", i, kept->gpu[i].number);
    if (kept->count > MOST) text_add(out, ", ...");
}

// Of the machine's GPUs `kept` are left. Nothing where all are, and no entry is wrong.
static void describe_visible(const char *visible, int of_machine, const text *wrong,
                             cuda_gpus *kept)
{
    text line = {0};
    if (kept->count == of_machine && !wrong->bytes) return;
    text_add(&line, "CUDA_VISIBLE_DEVICES=");
    text_add_printable(&line, visible, text_cut(visible, 120), "");
    if (kept->count > 0)
        text_addf(&line, " leaves %d of %d GPUs", kept->count, of_machine);
    else if (of_machine > 1)
        text_addf(&line, " hides all %d GPUs of this machine", of_machine);
    else
        text_add(&line, " hides the GPU of this machine");
    add_map(kept, &line);
    if (wrong->bytes) text_add(&line, wrong->chars);
    if (line.chars)
        snprintf(kept->visible, sizeof kept->visible, "%.*s",
                 TEXT_CUT(line.chars, CUDA_VISIBLE_BYTES - 1));
    text_clear(&line);
}

void cuda_gpus_select(cuda_gpus *all, const char *visible)
{
    cuda_gpus kept = {.count = 0};
    bool taken[CUDA_MOST_GPUS] = {false};
    text wrong = {0};
    for (const char *entry = visible;; entry++) {
        entry += strspn(entry, " ");
        const size_t bytes = strcspn(entry, ", ");
        const int index = find(all, entry, bytes);
        const bool twice = index >= 0 && taken[index];
        if (index < 0 || twice) add_wrong(all, entry, bytes, twice, &wrong);
        if (twice) kept.count = 0;
        if (index < 0 || twice) break;
        taken[index] = true;
        kept.gpu[kept.count++] = all->gpu[index];
        entry += strcspn(entry, ",");
        if (!*entry) break;
    }
    describe_visible(visible, all->count, &wrong, &kept);
    text_clear(&wrong);
    *all = kept;
}

static status explain_none(const cuda_gpus *none, int of_machine, const char *visible, err *e)
{
    if (of_machine == 0 || !visible) return err_set(e, E_USAGE, "this machine has no GPU");
    if (*none->visible) return err_set(e, E_USAGE, "%s", none->visible);
    return err_set(e, E_USAGE, "CUDA_VISIBLE_DEVICES=%.*s hides the GPUs of this machine",
                   TEXT_CUT(visible, 120));
}

status cuda_gpus_read(cuda_gpus *out, err *e)
{
    status result = OK;
    nvml n;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int of_machine = -1; // not known
    *out = (cuda_gpus){.count = 0};
    if (cuda_library_fill(CUDA_LIBRARY_NVML, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &n, NULL) !=
        OK) {
        TRY(cuda_gpus_ask(out, e));
    } else {
        TRY(read_all(&n, out, e));
        of_machine = out->count;
        if (!same_order(out) || any_divided(out->count) || (visible && strstr(visible, "MIG-")))
            TRY(cuda_gpus_ask(out, e));
        else if (visible)
            cuda_gpus_select(out, visible);
    }
    if (out->count == 0) TRY(explain_none(out, of_machine, visible, e));
done:
    return result;
}
