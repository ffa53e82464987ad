// check_cudnn.c -- the real cuDNN compiles the plan of every attention of a call tape, on a machine without a
// GPU: the device is described to the library, as for compilation ahead of time, and driver_stub.c stands in
// for the driver. So an error in our graph is found where the CUDA toolkit is, without a GPU.
//   check_cudnn FILE
// Exit status 77 where this version of cuDNN takes no description of a device.
#include "device/cuda/libraries/cuda_dnn_graph.h"
#include "device/cuda/libraries/cuda_library.h"

#include <stdio.h>
#include <string.h>

// The calls of the tape are small; cuda_dnn.c bounds the workspace of each by its shape.
enum { SKIPPED = 77, LINE_BYTES = 1024, WORKSPACE_MOST = 64 << 10, GRADIENT_MOST = 2 << 20 };

// An H100 (compute capability 9.0) and an A100 (8.0), in the members that the library asks for.
static const char *const DEVICES[] = {
    "{\"deviceName\": \"H100\", \"deviceVer\": 900, \"driverVer\": 13000, \"cudaDeviceId\": 0, "
    "\"multiProcessorCount\": 132, \"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"totalGlobalMem\": 85000000000, \"maxGridSize\": [2147483647, 65535, 65535], "
    "\"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, \"smClockRateKHz\": 1980000, "
    "\"memClockRateKHz\": 2619000, \"l2CacheSize\": 52428800, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"reservedSharedMemoryPerBlock\": 1024, "
    "\"maxRegistersPerSM\": 65536, \"pciDeviceId\": 0, \"maxCtasPerSM\": 32, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, "
    "\"supportCoopLaunch\": 1}",
    "{\"deviceName\": \"A100\", \"deviceVer\": 800, \"driverVer\": 13000, \"cudaDeviceId\": 0, "
    "\"multiProcessorCount\": 108, \"maxSharedMemoryPerBlockOptin\": 166912, "
    "\"totalGlobalMem\": 85000000000, \"maxGridSize\": [2147483647, 65535, 65535], "
    "\"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, \"smClockRateKHz\": 1410000, "
    "\"memClockRateKHz\": 1593000, \"l2CacheSize\": 41943040, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"reservedSharedMemoryPerBlock\": 1024, "
    "\"maxRegistersPerSM\": 65536, \"pciDeviceId\": 0, \"maxCtasPerSM\": 32, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, "
    "\"supportCoopLaunch\": 1}",
};

// Describes a device. Returns false where the library does not take it.
static bool describe(const dnn_functions *f, const char *text, cudnnBackendDescriptor_t *out)
{
    return f->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, out) ==
               CUDNN_STATUS_SUCCESS &&
           f->cudnnBackendSetAttribute(*out, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                       CUDNN_TYPE_CHAR, (int64_t)strlen(text),
                                       text) == CUDNN_STATUS_SUCCESS &&
           f->cudnnBackendFinalize(*out) == CUDNN_STATUS_SUCCESS;
}

static bool read_shape(const char *line, dnn_shape *s)
{
    char what[16], type[8];
    long batch, heads, kv, tq, tk, width, causal, qs, ks, vs, os, kb, vb;
    if (sscanf(line,
               "%15s type=%7s batch=%ld heads=%ld kv_heads=%ld tq=%ld tk=%ld head_dim=%ld "
               "causal=%ld "
               "q_stride=%ld k_stride=%ld v_stride=%ld o_stride=%ld k_batch=%ld v_batch=%ld",
               what, type, &batch, &heads, &kv, &tq, &tk, &width, &causal, &qs, &ks, &vs, &os, &kb,
               &vb) != 15 ||
        strncmp(what, "attention", 9) != 0)
        return false;
    *s = (dnn_shape){.batch = batch,
                     .tq = tq,
                     .tk = tk,
                     .heads = heads,
                     .kv_heads = kv,
                     .head_dim = width,
                     .q_stride = qs,
                     .k_stride = ks,
                     .v_stride = vs,
                     .o_stride = os,
                     .k_batch = kb,
                     .v_batch = vb,
                     .type = strcmp(type, "bf16") == 0 ? BF16 : F16,
                     .causal = causal,
                     .gradient = strcmp(what, "attention_grad") == 0};
    return true;
}

// Returns how many lines have no plan on the device.
static int check_file(const dnn_target *t, const char *path, int *plans)
{
    char line[LINE_BYTES];
    int failures = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        dnn_shape s;
        dnn_pool pool = {0};
        cudnnBackendDescriptor_t plan;
        err e = {0};
        if (!read_shape(line, &s)) continue;
        if (dnn_attention_plan(t, &s, s.gradient ? GRADIENT_MOST : WORKSPACE_MOST, &pool, &plan,
                               &e) != OK) {
            printf("%s    %s\n", line, e.text);
            failures++;
        }
        dnn_pool_clear(t->f, &pool);
        ++*plans;
    }
    if (f) fclose(f);
    return failures;
}

int main(int argc, char **argv)
{
#define SYMBOL(name) {#name, offsetof(dnn_functions, name)},
    const cuda_symbol symbols[] = {CUDA_DNN_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    dnn_functions f;
    err e = {0};
    int plans = 0, failures = 0;
    if (argc != 2 || cuda_library_fill(CUDA_LIBRARY_CUDNN, symbols,
                                       sizeof symbols / sizeof *symbols, &f, &e) != OK) {
        printf("check_cudnn: %s\n", argc != 2 ? "usage: check_cudnn FILE" : e.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++) {
        dnn_target t = {.f = &f};
        if (!describe(&f, DEVICES[i], &t.device)) {
            printf("check_cudnn: cuDNN %zu takes no description of a device\n",
                   f.cudnnGetVersion());
            return SKIPPED;
        }
        failures += check_file(&t, argv[1], &plans);
        f.cudnnBackendDestroyDescriptor(t.device);
    }
    printf("%d plans of attention, %d failures\n", plans, failures);
    return failures || plans == 0 ? 1 : 0;
}
