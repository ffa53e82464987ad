// fake_nvml.c -- a library in the place of NVML, in which tests of `trireme doctor` plant faults. The file that
// TRIREME_FAKE_NVML names has a line for each value: "gpus 2", "driver 550.54.15", "0.temperature 35", "*.power 90000"
// (of all GPUs). The last line of a key counts. A value that is not there is not supported; "!15" is a return of NVML.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, NOT_SUPPORTED = 3, GPUS = 8, VALUE_BYTES = 128 };

#define NVML __attribute__((visibility("default"))) int
// A function of NVML, with the declaration that the compiler wants.
#define FUNCTION(name, ...)                                                                        \
    NVML name(__VA_ARGS__);                                                                        \
    NVML name(__VA_ARGS__)

static const int NUMBERS[GPUS] = {0, 1, 2, 3, 4, 5, 6, 7};

// The value of a key, of GPU `*g` or, where g is NULL, of the machine. Returns NVML's code.
static int look(const int *g, const char *name, char value[VALUE_BYTES])
{
    char line[256], own[64], all[64];
    int code = NOT_SUPPORTED;
    snprintf(own, sizeof own, "%d.%s ", g ? *g : 0, name);
    snprintf(all, sizeof all, g ? "*.%s " : "%s ", name);
    FILE *f = fopen(getenv("TRIREME_FAKE_NVML"), "r");
    if (!f) abort();
    while (fgets(line, sizeof line, f)) {
        const char *key = strncmp(line, all, strlen(all)) == 0        ? all
                          : g && strncmp(line, own, strlen(own)) == 0 ? own
                                                                      : NULL;
        if (!key) continue;
        snprintf(value, VALUE_BYTES, "%s", line + strlen(key));
        value[strcspn(value, "\n")] = '\0';
        code = *value == '!' ? atoi(value + 1) : DONE;
    }
    fclose(f);
    return code;
}

static int number(const int *g, const char *name, unsigned long long *out)
{
    char value[VALUE_BYTES];
    const int code = look(g, name, value);
    if (code == DONE) *out = strtoull(value, NULL, 0);
    return code;
}

static int small(const int *g, const char *name, unsigned *out)
{
    unsigned long long n = 0;
    const int code = number(g, name, &n);
    if (code == DONE) *out = (unsigned)n;
    return code;
}

static int word(const int *g, const char *name, char *out, unsigned bytes)
{
    char value[VALUE_BYTES];
    const int code = look(g, name, value);
    if (code == DONE) snprintf(out, bytes, "%s", value);
    return code;
}

// ---- The machine

FUNCTION(nvmlInit_v2, void)
{
    unsigned unused;
    const int code = small(NULL, "init", &unused);
    return code == NOT_SUPPORTED ? DONE : code;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
    return code == 18  ? "Driver/library version mismatch"
           : code == 9 ? "Driver Not Loaded"
                       : "Unknown Error";
}

FUNCTION(nvmlSystemGetDriverVersion, char *out, unsigned bytes)
{
    return word(NULL, "driver", out, bytes);
}
FUNCTION(nvmlSystemGetNVMLVersion, char *out, unsigned bytes)
{
    return word(NULL, "library", out, bytes);
}
FUNCTION(nvmlSystemGetCudaDriverVersion_v2, int *out)
{
    return small(NULL, "cuda", (unsigned *)out);
}
FUNCTION(nvmlDeviceGetCount_v2, unsigned *out)
{
    return small(NULL, "gpus", out);
}
FUNCTION(nvmlDeviceGetHandleByIndex_v2, unsigned index, const int **out)
{
    unsigned unused;
    if (index >= GPUS) return 2;
    *out = &NUMBERS[index];
    const int code = small(*out, "handle", &unused);
    return code == NOT_SUPPORTED ? DONE : code;
}

// ---- Words and numbers of a GPU

#define WORD(function, key)                                                                        \
    FUNCTION(function, const int *g, char *out, unsigned bytes)                                    \
    {                                                                                              \
        return word(g, key, out, bytes);                                                           \
    }
#define SMALL(function, key)                                                                       \
    FUNCTION(function, const int *g, unsigned *out)                                                \
    {                                                                                              \
        return small(g, key, out);                                                                 \
    }
#define CHOICE(function, key, expected)                                                            \
    FUNCTION(function, const int *g, int choice, unsigned *out)                                    \
    {                                                                                              \
        return choice == (expected) ? small(g, key, out) : NOT_SUPPORTED;                          \
    }

WORD(nvmlDeviceGetName, "name")
WORD(nvmlDeviceGetUUID, "uuid")
WORD(nvmlDeviceGetVbiosVersion, "vbios")
SMALL(nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending")
SMALL(nvmlDeviceGetPowerUsage, "power")
SMALL(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
SMALL(nvmlDeviceGetPowerManagementDefaultLimit, "power_default")
SMALL(nvmlDeviceGetPersistenceMode, "persistence")
SMALL(nvmlDeviceGetComputeMode, "compute_mode")
SMALL(nvmlDeviceGetCurrPcieLinkWidth, "width")
SMALL(nvmlDeviceGetMaxPcieLinkWidth, "width_max")
SMALL(nvmlDeviceGetCurrPcieLinkGeneration, "generation")
SMALL(nvmlDeviceGetMaxPcieLinkGeneration, "generation_max")
SMALL(nvmlDeviceGetPcieReplayCounter, "replays")
SMALL(nvmlDeviceGetDisplayActive, "display")
CHOICE(nvmlDeviceGetApplicationsClock, "clock", 1)
CHOICE(nvmlDeviceGetMaxClockInfo, "clock_max", 1)
CHOICE(nvmlDeviceGetDefaultApplicationsClock, "clock_default", 1)
CHOICE(nvmlDeviceGetTemperature, "temperature", 0)
CHOICE(nvmlDeviceGetTemperatureThreshold, "temperature_slowdown", 1)

FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons, const int *g, unsigned long long *out)
{
    return number(g, "reasons", out);
}
FUNCTION(nvmlDeviceGetEccMode, const int *g, unsigned *now, unsigned *pending)
{
    const int code = small(g, "ecc", now);
    *pending = *now;
    (void)small(g, "ecc_pending", pending);
    return code;
}
FUNCTION(nvmlDeviceGetMigMode, const int *g, unsigned *now, unsigned *pending)
{
    *pending = 0;
    return small(g, "mig", now);
}
FUNCTION(nvmlDeviceGetTotalEccErrors, const int *g, int kind, int since, unsigned long long *out)
{
    if (since != 0) return NOT_SUPPORTED;
    return number(g, kind == 0 ? "ecc_corrected" : "ecc_uncorrected", out);
}

// ---- Records

typedef struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory;

FUNCTION(nvmlDeviceGetMemoryInfo_v2, const int *g, memory *out)
{
    unsigned long long total = 0, used = 0;
    if (out->version != (sizeof *out | 2u << 24)) return 25;
    const int code = number(g, "memory", &total);
    (void)number(g, "used", &used);
    out->total = total;
    out->used = used;
    out->free = total - used;
    return code;
}

// The older form: total, free, used.
FUNCTION(nvmlDeviceGetMemoryInfo, const int *g, unsigned long long out[3])
{
    const int code = number(g, "old_memory", &out[0]);
    out[1] = out[0];
    out[2] = 0;
    (void)number(g, "used", &out[2]);
    return code;
}
FUNCTION(nvmlDeviceGetBAR1MemoryInfo, const int *g, unsigned long long out[3])
{
    return number(g, "bar", out);
}
FUNCTION(nvmlDeviceGetUtilizationRates, const int *g, unsigned out[2])
{
    out[1] = 0;
    return small(g, "utilization", out);
}
FUNCTION(nvmlDeviceGetRemappedRows, const int *g, unsigned *corrected, unsigned *uncorrected,
         unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = *failed = 0;
    (void)small(g, "rows_failed", failed);
    return small(g, "rows_pending", pending);
}

// "links 12": those below 12 are active, and the others are not; links_there: so many exist.
FUNCTION(nvmlDeviceGetNvLinkState, const int *g, unsigned link, int *out)
{
    unsigned active = 0, there = 0;
    const int code = small(g, "links", &active);
    if (code != DONE) return code;
    (void)small(g, "links_there", &there);
    *out = link < active;
    return link < there ? DONE : 2;
}
FUNCTION(nvmlDeviceGetNvLinkErrorCounter, const int *g, unsigned link, int counter,
         unsigned long long *out)
{
    *out = 0;
    if (link == 1 && counter == 3) (void)number(g, "link_errors", out);
    return DONE;
}

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process;

// "processes 4711 4712"
FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, const int *g, unsigned *count, process *out)
{
    char value[VALUE_BYTES], *rest = value;
    const unsigned room = *count;
    *count = 0;
    const int code = look(g, "processes", value);
    if (code != DONE) return code;
    for (const char *one; (one = strsep(&rest, " ")) && *one && *count < room;)
        out[(*count)++] = (process){.pid = (unsigned)atoi(one), .bytes = 1 << 30};
    return DONE;
}

typedef struct fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} fabric;

FUNCTION(nvmlDeviceGetGpuFabricInfo, const int *g, fabric *out)
{
    unsigned state = 0, failed = 0;
    const int code = small(g, "fabric", &state);
    (void)small(g, "fabric_status", &failed);
    *out = (fabric){.state = (unsigned char)state, .status = (int)failed};
    return code;
}

typedef struct field {
    unsigned field, scope;
    long long time, took;
    int type, result;
    unsigned long long value;
} field;

FUNCTION(nvmlDeviceGetFieldValues, const int *g, int count, field *out)
{
    if (count != 1 || out->field != 230) return 2;
    out->value = 0;
    out->result = number(g, "recovery", &out->value);
    return DONE;
}

// "p2p 3": of this GPU with every other.
FUNCTION(nvmlDeviceGetP2PStatus, const int *a, const int *b, int index, int *out)
{
    (void)b;
    return index == 0 ? small(a, "p2p", (unsigned *)out) : NOT_SUPPORTED;
}
