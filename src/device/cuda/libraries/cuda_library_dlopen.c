// cuda_library_dlopen.c -- opens libraries of CUDA by dlopen, for cuda_library.c. A library is searched by
// its name, as the system's loader does (LD_LIBRARY_PATH, ld.so.cache), then in the folder of the CUDA
// toolkit that the program was built with. Tests link a stand-in instead of this file.
#include "device/cuda/libraries/cuda_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifndef TRIREME_CUDA_FOLDER
#define TRIREME_CUDA_FOLDER "/usr/local/cuda/lib64"
#endif

// Names of a library's files: of the version that we build with first. NULL ends the list.
enum { FILES = 3 };
static const char *const NAMES[CUDA_LIBRARIES][FILES + 1] = {
    [CUDA_LIBRARY_CUBLASLT] = {"libcublasLt.so.13", "libcublasLt.so.12"},
    [CUDA_LIBRARY_CUDNN] = {"libcudnn.so.9"},
    [CUDA_LIBRARY_NVML] = {"libnvidia-ml.so.1"},
    [CUDA_LIBRARY_NCCL] = {"libnccl.so.2"},
};

// dlopen counts its calls and gives the same handle again, so nothing is kept here. With `only_open`, a
// library that the process has not opened yet is not opened.
static void *open_file(const char *folder, const char *name, bool only_open)
{
    char path[512];
    if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name) >= (int)sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | (only_open ? RTLD_NOLOAD : 0));
}

static void *open_any(cuda_library_name library, bool only_open)
{
    static const char *const folders[] = {"", TRIREME_CUDA_FOLDER};
    for (size_t i = 0; NAMES[library][i]; i++)
        for (size_t j = 0; j < sizeof folders / sizeof *folders; j++) {
            void *handle = open_file(folders[j], NAMES[library][i], only_open);
            if (handle) return handle;
        }
    return NULL;
}

status cuda_library_open(cuda_library_name library, err *e)
{
    if (open_any(library, false)) return OK;
    char tried[128] = "";
    for (size_t i = 0; NAMES[library][i]; i++) {
        const size_t used = strlen(tried);
        snprintf(tried + used, sizeof tried - used, "%s%s", i > 0 ? ", " : "", NAMES[library][i]);
    }
    const char *why = dlerror();
    return err_set(e, E_USAGE, "%s is not on this machine: tried %s by name and in %s (%s)",
                   cuda_library_text(library), tried, TRIREME_CUDA_FOLDER, why ? why : "not found");
}

cuda_function cuda_library_find(cuda_library_name library, const char *symbol)
{
    void *handle = open_any(library, true);
    void *address = handle ? dlsym(handle, symbol) : NULL;
    cuda_function f = NULL;
    memcpy(&f, &address, sizeof f);
    return f;
}

// CUDA opens the driver's library with its first call.
bool cuda_driver_is_open(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) dlclose(driver);
    return driver != NULL;
}
