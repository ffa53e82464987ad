// nvml.c -- NVML by dlopen: see nvml.h. A function is looked up by its name when it is called, because older drivers lack
// some. It judges nothing: the probes do.
#include "doctor/gpu/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// ---- Functions by name

typedef void (*nvml_function)(void);

static nvml_function find(const nvml *n, const char *name)
{
    nvml_function f = NULL;
    void *address = n->library ? dlsym(n->library, name) : NULL;
    memcpy(&f, &address, sizeof f);
    return f;
}

// Declares `f`, of the type, as the function of that name, and returns false where there is none.
#define FIND(type, f, name)                                                                        \
    typedef type;                                                                                  \
    const f##_fn f = (f##_fn)find(n, name);                                                        \
    if (!f) return false

int nvml_open(nvml *n, const char *library)
{
    typedef int init_fn(void);
    n->library = library && *library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!n->library) return NVML_NO_LIBRARY;
    init_fn *const init = (init_fn *)find(n, "nvmlInit_v2");
    return init ? init() : NVML_NO_FUNCTION;
}

const char *nvml_error_text(const nvml *n, int code)
{
    typedef const char *error_fn(int);
    error_fn *const error = (error_fn *)find(n, "nvmlErrorString");
    const char *said = error ? error(code) : NULL;
    return said ? said : code == NVML_NO_LIBRARY ? "the library cannot be opened" : "unknown error";
}

static bool read_text(const nvml *n, const char *name, char *out, size_t bytes)
{
    FIND(int (*ask_fn)(char *, unsigned), ask, name);
    return ask(out, (unsigned)bytes) == NVML_DONE;
}

bool nvml_driver_version(const nvml *n, char *out, size_t bytes)
{
    return read_text(n, "nvmlSystemGetDriverVersion", out, bytes);
}

bool nvml_library_version(const nvml *n, char *out, size_t bytes)
{
    return read_text(n, "nvmlSystemGetNVMLVersion", out, bytes);
}

bool nvml_cuda_version(const nvml *n, int *out)
{
    FIND(int (*ask_fn)(int *), ask, "nvmlSystemGetCudaDriverVersion_v2");
    return ask(out) == NVML_DONE;
}

bool nvml_count(const nvml *n, int *out)
{
    unsigned count;
    FIND(int (*ask_fn)(unsigned *), ask, "nvmlDeviceGetCount_v2");
    if (ask(&count) != NVML_DONE) return false;
    *out = (int)count;
    return true;
}

int nvml_find_gpu(const nvml *n, int index, nvml_gpu *out)
{
    typedef int find_fn(unsigned, nvml_gpu *);
    find_fn *const by_index = (find_fn *)find(n, "nvmlDeviceGetHandleByIndex_v2");
    return by_index ? by_index((unsigned)index, out) : NVML_NO_FUNCTION;
}

// ---- Numbers

typedef enum nvml_form {
    FORM_U32,        // (gpu, unsigned *)
    FORM_U64,        // (gpu, unsigned long long *)
    FORM_CHOICE,     // (gpu, int, unsigned *)
    FORM_PAIR,       // (gpu, unsigned *, unsigned *): the first
    FORM_PAIR_OTHER, // the second
    FORM_ECC,        // (gpu, int, int, unsigned long long *): since the driver was loaded
} nvml_form;

typedef struct nvml_row {
    nvml_form form;
    int choice;
    const char *name, *old_name;
} nvml_row;

enum { CLOCK_SM = 1, SENSOR_GPU = 0, THRESHOLD_SLOWDOWN = 1, SINCE_LOADED = 0 };

static const nvml_row ROWS[NVML_NUMBERS] = {
    [NVML_ECC_MODE] = {FORM_PAIR, 0, "nvmlDeviceGetEccMode", NULL},
    [NVML_ECC_MODE_PENDING] = {FORM_PAIR_OTHER, 0, "nvmlDeviceGetEccMode", NULL},
    [NVML_ECC_CORRECTED] = {FORM_ECC, 0, "nvmlDeviceGetTotalEccErrors", NULL},
    [NVML_ECC_UNCORRECTED] = {FORM_ECC, 1, "nvmlDeviceGetTotalEccErrors", NULL},
    [NVML_PAGES_PENDING] = {FORM_U32, 0, "nvmlDeviceGetRetiredPagesPendingStatus", NULL},
    [NVML_CLOCK_REASONS] = {FORM_U64, 0, "nvmlDeviceGetCurrentClocksEventReasons",
                            "nvmlDeviceGetCurrentClocksThrottleReasons"},
    [NVML_POWER] = {FORM_U32, 0, "nvmlDeviceGetPowerUsage", NULL},
    [NVML_POWER_LIMIT] = {FORM_U32, 0, "nvmlDeviceGetEnforcedPowerLimit", NULL},
    [NVML_POWER_LIMIT_DEFAULT] = {FORM_U32, 0, "nvmlDeviceGetPowerManagementDefaultLimit", NULL},
    [NVML_CLOCK_SET] = {FORM_CHOICE, CLOCK_SM, "nvmlDeviceGetApplicationsClock", NULL},
    [NVML_CLOCK_MAX] = {FORM_CHOICE, CLOCK_SM, "nvmlDeviceGetMaxClockInfo", NULL},
    [NVML_CLOCK_DEFAULT] = {FORM_CHOICE, CLOCK_SM, "nvmlDeviceGetDefaultApplicationsClock", NULL},
    [NVML_PERSISTENCE] = {FORM_U32, 0, "nvmlDeviceGetPersistenceMode", NULL},
    [NVML_TEMPERATURE] = {FORM_CHOICE, SENSOR_GPU, "nvmlDeviceGetTemperature", NULL},
    [NVML_TEMPERATURE_SLOWDOWN] = {FORM_CHOICE, THRESHOLD_SLOWDOWN,
                                   "nvmlDeviceGetTemperatureThreshold", NULL},
    [NVML_COMPUTE_MODE] = {FORM_U32, 0, "nvmlDeviceGetComputeMode", NULL},
    [NVML_MIG_MODE] = {FORM_PAIR, 0, "nvmlDeviceGetMigMode", NULL},
    [NVML_PCIE_WIDTH] = {FORM_U32, 0, "nvmlDeviceGetCurrPcieLinkWidth", NULL},
    [NVML_PCIE_WIDTH_MAX] = {FORM_U32, 0, "nvmlDeviceGetMaxPcieLinkWidth", NULL},
    [NVML_PCIE_GENERATION] = {FORM_U32, 0, "nvmlDeviceGetCurrPcieLinkGeneration", NULL},
    [NVML_PCIE_GENERATION_MAX] = {FORM_U32, 0, "nvmlDeviceGetMaxPcieLinkGeneration", NULL},
    [NVML_PCIE_REPLAYS] = {FORM_U32, 0, "nvmlDeviceGetPcieReplayCounter", NULL},
    [NVML_DISPLAY_ACTIVE] = {FORM_U32, 0, "nvmlDeviceGetDisplayActive", NULL},
};

bool nvml_read(const nvml *n, nvml_gpu g, nvml_number which, uint64_t *out)
{
    const nvml_row *row = &ROWS[which];
    unsigned first = 0, second = 0;
    unsigned long long large = 0;
    int code = NVML_NO_FUNCTION;
    nvml_function f = find(n, row->name);
    if (!f && row->old_name) f = find(n, row->old_name);
    if (!f) return false;
    switch (row->form) {
    case FORM_U32:
        code = ((int (*)(nvml_gpu, unsigned *))f)(g, &first);
        break;
    case FORM_U64:
        code = ((int (*)(nvml_gpu, unsigned long long *))f)(g, &large);
        break;
    case FORM_CHOICE:
        code = ((int (*)(nvml_gpu, int, unsigned *))f)(g, row->choice, &first);
        break;
    case FORM_PAIR:
    case FORM_PAIR_OTHER:
        code = ((int (*)(nvml_gpu, unsigned *, unsigned *))f)(g, &first, &second);
        break;
    case FORM_ECC:
        code = ((int (*)(nvml_gpu, int, int, unsigned long long *))f)(g, row->choice, SINCE_LOADED,
                                                                      &large);
        break;
    }
    *out = row->form == FORM_U64 || row->form == FORM_ECC ? large
           : row->form == FORM_PAIR_OTHER                 ? second
                                                          : first;
    return code == NVML_DONE;
}

// ---- Words and records

bool nvml_read_word(const nvml *n, nvml_gpu g, nvml_word which, char *out, size_t bytes)
{
    static const char *const names[] = {
        [NVML_NAME] = "nvmlDeviceGetName",
        [NVML_UUID] = "nvmlDeviceGetUUID",
        [NVML_VBIOS] = "nvmlDeviceGetVbiosVersion",
    };
    FIND(int (*ask_fn)(nvml_gpu, char *, unsigned), ask, names[which]);
    return ask(g, out, (unsigned)bytes) == NVML_DONE;
}

bool nvml_read_address(const nvml *n, nvml_gpu g, char *out, size_t bytes)
{
    nvml_pci pci = {.address = ""};
    FIND(int (*ask_fn)(nvml_gpu, nvml_pci *), ask, "nvmlDeviceGetPciInfo_v3");
    if (ask(g, &pci) != NVML_DONE) return false;
    return snprintf(out, bytes, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device) < (int)bytes;
}

// The second form of the function tells apart what the driver keeps for itself. `total`, `free`, `used` of the first
// stand without the version.
bool nvml_read_memory(const nvml *n, nvml_gpu g, nvml_memory *out)
{
    struct {
        unsigned long long total, free, used;
    } old;
    typedef int new_fn(nvml_gpu, nvml_memory *);
    new_fn *const ask_new = (new_fn *)find(n, "nvmlDeviceGetMemoryInfo_v2");
    *out = (nvml_memory){.version = (unsigned)sizeof *out | 2u << 24};
    if (ask_new && ask_new(g, out) == NVML_DONE) return true;
    FIND(int (*ask_fn)(nvml_gpu, void *), ask, "nvmlDeviceGetMemoryInfo");
    if (ask(g, &old) != NVML_DONE) return false;
    *out = (nvml_memory){.total = old.total, .free = old.free, .used = old.used};
    return true;
}

bool nvml_read_bar(const nvml *n, nvml_gpu g, uint64_t *total)
{
    nvml_bar bar;
    FIND(int (*ask_fn)(nvml_gpu, nvml_bar *), ask, "nvmlDeviceGetBAR1MemoryInfo");
    if (ask(g, &bar) != NVML_DONE) return false;
    *total = bar.total;
    return true;
}

bool nvml_read_utilization(const nvml *n, nvml_gpu g, unsigned *percent)
{
    nvml_utilization rates;
    FIND(int (*ask_fn)(nvml_gpu, nvml_utilization *), ask, "nvmlDeviceGetUtilizationRates");
    if (ask(g, &rates) != NVML_DONE) return false;
    *percent = rates.gpu;
    return true;
}

bool nvml_read_rows(const nvml *n, nvml_gpu g, bool *pending, bool *failed)
{
    unsigned corrected, uncorrected, is_pending, is_failed;
    FIND(int (*ask_fn)(nvml_gpu, unsigned *, unsigned *, unsigned *, unsigned *), ask,
         "nvmlDeviceGetRemappedRows");
    if (ask(g, &corrected, &uncorrected, &is_pending, &is_failed) != NVML_DONE) return false;
    *pending = is_pending != 0;
    *failed = is_failed != 0;
    return true;
}

bool nvml_read_link(const nvml *n, nvml_gpu g, int link, bool *active)
{
    int state;
    FIND(int (*ask_fn)(nvml_gpu, unsigned, int *), ask, "nvmlDeviceGetNvLinkState");
    if (ask(g, (unsigned)link, &state) != NVML_DONE) return false;
    *active = state != 0;
    return true;
}

bool nvml_read_link_errors(const nvml *n, nvml_gpu g, int link, int counter, uint64_t *out)
{
    unsigned long long errors;
    FIND(int (*ask_fn)(nvml_gpu, unsigned, int, unsigned long long *), ask,
         "nvmlDeviceGetNvLinkErrorCounter");
    if (ask(g, (unsigned)link, counter, &errors) != NVML_DONE) return false;
    *out = errors;
    return true;
}

bool nvml_read_processes(const nvml *n, nvml_gpu g, nvml_process *out, int room, int *count)
{
    unsigned found = (unsigned)room;
    FIND(int (*ask_fn)(nvml_gpu, unsigned *, nvml_process *), ask,
         "nvmlDeviceGetComputeRunningProcesses_v3");
    const int code = ask(g, &found, out);
    *count = (int)found;
    return code == NVML_DONE || code == NVML_TOO_SMALL;
}

bool nvml_read_fabric(const nvml *n, nvml_gpu g, nvml_fabric *out)
{
    FIND(int (*ask_fn)(nvml_gpu, nvml_fabric *), ask, "nvmlDeviceGetGpuFabricInfo");
    return ask(g, out) == NVML_DONE;
}

bool nvml_read_recovery(const nvml *n, nvml_gpu g, unsigned *action)
{
    enum { FIELD_RECOVERY_ACTION = 230 };
    nvml_field field = {.field = FIELD_RECOVERY_ACTION};
    FIND(int (*ask_fn)(nvml_gpu, int, nvml_field *), ask, "nvmlDeviceGetFieldValues");
    if (ask(g, 1, &field) != NVML_DONE || field.result != NVML_DONE) return false;
    *action = field.value.u32;
    return true;
}

bool nvml_read_p2p(const nvml *n, nvml_gpu a, nvml_gpu b, int *code)
{
    enum { TO_READ = 0 };
    FIND(int (*ask_fn)(nvml_gpu, nvml_gpu, int, int *), ask, "nvmlDeviceGetP2PStatus");
    return ask(a, b, TO_READ, code) == NVML_DONE;
}
