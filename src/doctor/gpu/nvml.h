// nvml.h -- NVML, the library of NVIDIA's driver that tells the state of GPUs, for the probes of this folder.
//
// device/cuda/ asks NVML, too, for what it needs to choose a GPU, and monitor/ for what changes in a run. This third reader
// is for faults: it must work in a build without CUDA, it asks for far more, and it takes the library that the context of
// the doctor names, so that tests plant faults. The functions and types are declared here, as NVML's public interface has
// them; tests/unit/doctor/test_nvml.c compares them with NVIDIA's header where a machine has it.
#ifndef TRIREME_DOCTOR_GPU_NVML_H
#define TRIREME_DOCTOR_GPU_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns of NVML's functions that we tell apart.
enum {
    NVML_DONE = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_TOO_SMALL = 7,
    NVML_NO_LIBRARY = 12, // ours: it cannot be opened
    NVML_NO_FUNCTION = 13,
    NVML_OTHER_DRIVER = 18, // the library is of another version than the kernel's module
};

enum { NVML_TEXT_BYTES = 96, NVML_LINKS = 36 };

typedef void *nvml_gpu;

// A row for each number that NVML gives for a GPU by a function of one result: nvml.c.
typedef enum nvml_number {
    NVML_ECC_MODE,
    NVML_ECC_MODE_PENDING,
    NVML_ECC_CORRECTED, // since the driver was loaded
    NVML_ECC_UNCORRECTED,
    NVML_PAGES_PENDING,
    NVML_CLOCK_REASONS, // bits: nvml_reason
    NVML_POWER,         // mW
    NVML_POWER_LIMIT,
    NVML_POWER_LIMIT_DEFAULT,
    NVML_CLOCK_SET, // MHz of the SMs that applications get; the maximum; the default of the first
    NVML_CLOCK_MAX,
    NVML_CLOCK_DEFAULT,
    NVML_PERSISTENCE,
    NVML_TEMPERATURE, // degrees Celsius
    NVML_TEMPERATURE_SLOWDOWN,
    NVML_COMPUTE_MODE,
    NVML_MIG_MODE,
    NVML_PCIE_WIDTH,
    NVML_PCIE_WIDTH_MAX,
    NVML_PCIE_GENERATION,
    NVML_PCIE_GENERATION_MAX,
    NVML_PCIE_REPLAYS,
    NVML_DISPLAY_ACTIVE,
    NVML_NUMBERS
} nvml_number;

typedef enum nvml_reason {
    NVML_REASON_POWER_CAP = 0x4,
    NVML_REASON_SLOWDOWN = 0x8,
    NVML_REASON_HOT_SOFTWARE = 0x20,
    NVML_REASON_HOT = 0x40,
    NVML_REASON_POWER_BRAKE = 0x80,
} nvml_reason;

enum { NVML_MODE_PROHIBITED = 2, NVML_MODE_EXCLUSIVE = 3 };

typedef enum nvml_word { NVML_NAME, NVML_UUID, NVML_VBIOS } nvml_word;

// The kinds of counters of an NVLink, which are added up.
enum { NVML_LINK_REPLAY, NVML_LINK_RECOVERY, NVML_LINK_CRC_FLIT, NVML_LINK_CRC_DATA };

typedef struct nvml_memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvml_memory;
typedef struct nvml_bar {
    unsigned long long total, free, used;
} nvml_bar;
typedef struct nvml_utilization {
    unsigned gpu, memory; // percent of the time
} nvml_utilization;
typedef struct nvml_pci {
    char old_address[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32]; // "00000000:1B:00.0"
} nvml_pci;
typedef struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} nvml_process;
typedef struct nvml_fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} nvml_fabric;
typedef struct nvml_field {
    unsigned field, scope;
    long long time, took;
    int type, result;
    union {
        double f64;
        unsigned u32;
        unsigned long long u64;
    } value;
} nvml_field;

typedef struct nvml {
    void *library; // of dlopen
} nvml;

// Opens the library and starts NVML. Returns NVML's code, or NVML_NO_LIBRARY. NVML stays started until the process
// ends, so that the next probe starts it in microseconds.
int nvml_open(nvml *n, const char *library);
// Text of a code: "Driver/library version mismatch".
const char *nvml_error_text(const nvml *n, int code);

// All below give false where NVML has no answer: the GPU or the driver does not know the function.
bool nvml_driver_version(const nvml *n, char *out, size_t bytes);
bool nvml_library_version(const nvml *n, char *out, size_t bytes); // also where it has not started
bool nvml_cuda_version(const nvml *n, int *out);                   // 13000 is 13.0
bool nvml_count(const nvml *n, int *out);
int nvml_find_gpu(const nvml *n, int index, nvml_gpu *out); // NVML's code
bool nvml_read(const nvml *n, nvml_gpu g, nvml_number which, uint64_t *out);
bool nvml_read_word(const nvml *n, nvml_gpu g, nvml_word which, char *out, size_t bytes);
// The address as /sys has it: "0000:1b:00.0".
bool nvml_read_address(const nvml *n, nvml_gpu g, char *out, size_t bytes);
// `reserved` is 0 where the driver counts it as used.
bool nvml_read_memory(const nvml *n, nvml_gpu g, nvml_memory *out);
bool nvml_read_bar(const nvml *n, nvml_gpu g, uint64_t *total);
bool nvml_read_utilization(const nvml *n, nvml_gpu g, unsigned *percent);
// Rows of memory: replaced at the next reset, and those that could not be replaced.
bool nvml_read_rows(const nvml *n, nvml_gpu g, bool *pending, bool *failed);
bool nvml_read_link(const nvml *n, nvml_gpu g, int link, bool *active);
bool nvml_read_link_errors(const nvml *n, nvml_gpu g, int link, int counter, uint64_t *out);
// At most `room` of the processes that compute; *count is how many there are.
bool nvml_read_processes(const nvml *n, nvml_gpu g, nvml_process *out, int room, int *count);
bool nvml_read_fabric(const nvml *n, nvml_gpu g, nvml_fabric *out);
// 0: none, 1: reset, 2: restart the machine, 3: drain, 4: drain and reset.
bool nvml_read_recovery(const nvml *n, nvml_gpu g, unsigned *action);
// 0: the first may read the memory of the second; else why not.
bool nvml_read_p2p(const nvml *n, nvml_gpu a, nvml_gpu b, int *code);

#endif
