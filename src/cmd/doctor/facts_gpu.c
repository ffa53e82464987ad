// facts_gpu.c -- facts of GPUs: what this version can use, the driver, and the versions of CUDA's libraries as the system's
// loader finds them. Private to `trireme env`.
#include "cmd/doctor/facts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gpu_library {
    const char *title;
    const char *names[4];    // of files, the first that loads counts; NULL ends them
    const char *function;    // that tells the version
    bool returns;            // the function returns it; else it writes it through its argument
    int major, minor, patch; // what the number is divided by
} gpu_library;

static const gpu_library LIBRARIES[] = {
    {"driver supports CUDA", {"libcuda.so.1"}, "cuDriverGetVersion", false, 1000, 10, 0},
    {"CUDA runtime",
     {"libcudart.so.13", "libcudart.so.12", "libcudart.so"},
     "cudaRuntimeGetVersion",
     false,
     1000,
     10,
     0},
    {"cuDNN",
     {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"},
     "cudnnGetVersion",
     true,
     10000,
     100,
     1},
    {"NCCL", {"libnccl.so.2", "libnccl.so"}, "ncclGetVersion", false, 10000, 100, 1},
};

static void put_library(facts *f, const gpu_library *l)
{
    void *library = NULL;
    for (int i = 0; !library && l->names[i]; i++) library = dlopen(l->names[i], RTLD_LAZY);
    void *const symbol = library ? dlsym(library, l->function) : NULL;
    int number = 0;
    if (symbol && l->returns) {
        size_t (*version)(void);
        memcpy(&version, &symbol, sizeof version);
        number = (int)version();
    } else if (symbol) {
        int (*version)(int *);
        memcpy(&version, &symbol, sizeof version);
        if (version(&number) != 0) number = 0;
    }
    if (number <= 0)
        facts_put(f, "GPU", l->title, library ? "found, without a version" : "not found");
    else if (l->patch)
        facts_put(f, "GPU", l->title, "%d.%d.%d", number / l->major, number % l->major / l->minor,
                  number % l->minor);
    else
        facts_put(f, "GPU", l->title, "%d.%d", number / l->major, number % l->major / l->minor);
    // It stays loaded: libraries of GPUs do not all survive it otherwise.
}

static void put_driver(facts *f)
{
    char line[128];
    FILE *file = fopen("/sys/module/nvidia/version", "r");
    if (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        facts_put(f, "GPU", "driver", "%s", line);
    } else {
        facts_put(f, "GPU", "driver", "not loaded");
    }
    if (file) fclose(file);
}

void facts_add_gpus(facts *f)
{
    device_description d;
    err why = {0};
    const bool has = facts_gpu(&d, &why);
    if (!has) facts_put(f, "GPU", "devices", "none: %s", why.text);
    for (int i = 0; has && i < d.count; i++) {
        device_description one;
        char name[32], size[24];
        const device_options o = {.index = i};
        if (device_describe("cuda", &o, &one, NULL) != OK) continue;
        snprintf(name, sizeof name, "cuda %d", i);
        text_bytes(size, (double)one.free_bytes);
        facts_put(f, "GPU", name, "%s, %s, %s free", one.title, one.kind, size);
    }
    put_driver(f);
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof *LIBRARIES; i++) put_library(f, &LIBRARIES[i]);
}
