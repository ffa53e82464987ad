// cuda_library.c -- fills tables of functions from libraries that are opened at run time. Called where the
// device opens a library. It does not know how a library is found: see cuda_library_dlopen.c.
#include "device/cuda/libraries/cuda_library.h"

#include <string.h>

const char *cuda_library_text(cuda_library_name library)
{
    static const char *const names[CUDA_LIBRARIES] = {
        [CUDA_LIBRARY_CUBLASLT] = "cuBLASLt",
        [CUDA_LIBRARY_CUDNN] = "cuDNN",
        [CUDA_LIBRARY_NVML] = "NVML",
        [CUDA_LIBRARY_NCCL] = "NCCL",
    };
    return names[library];
}

status cuda_library_fill(cuda_library_name library, const cuda_symbol *symbols, size_t count,
                         void *table, err *e)
{
    status result = OK;
    TRY(cuda_library_open(library, e));
    for (size_t i = 0; i < count; i++) {
        const cuda_function f = cuda_library_find(library, symbols[i].name);
        if (!f)
            FAIL(E_USAGE, "%s lacks the function %s: it is older than this program needs",
                 cuda_library_text(library), symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &f, sizeof f);
    }
done:
    return result;
}
