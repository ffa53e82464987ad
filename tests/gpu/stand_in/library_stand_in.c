// library_stand_in.c -- finds the functions of the stand-in where cuda_library_dlopen.c finds those of real
// libraries. TRIREME_STAND_IN_WITHOUT names libraries and functions that this machine shall
// lack, such as "cuBLASLt,cuDNN".
#include "device/cuda/libraries/cuda_library.h"
#include "device/cuda/libraries/cuda_nccl_abi.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <nvml.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct named {
    const char *name;
    cuda_function f;
} named;

#define CUBLASLT_FUNCTIONS(F)                                                                      \
    F(cublasLtCreate)                                                                              \
    F(cublasLtDestroy)                                                                             \
    F(cublasLtGetStatusString)                                                                     \
    F(cublasLtMatmul)                                                                              \
    F(cublasLtMatmulAlgoGetHeuristic)                                                              \
    F(cublasLtMatmulAlgoConfigGetAttribute)                                                        \
    F(cublasLtMatmulDescCreate)                                                                    \
    F(cublasLtMatmulDescDestroy)                                                                   \
    F(cublasLtMatmulDescSetAttribute)                                                              \
    F(cublasLtMatmulPreferenceCreate)                                                              \
    F(cublasLtMatmulPreferenceDestroy)                                                             \
    F(cublasLtMatmulPreferenceSetAttribute)                                                        \
    F(cublasLtMatrixLayoutCreate)                                                                  \
    F(cublasLtMatrixLayoutDestroy)

#define CUDNN_FUNCTIONS(F)                                                                         \
    F(cudnnGetVersion)                                                                             \
    F(cudnnGetErrorString)                                                                         \
    F(cudnnCreate)                                                                                 \
    F(cudnnDestroy)                                                                                \
    F(cudnnSetStream)                                                                              \
    F(cudnnBackendCreateDescriptor)                                                                \
    F(cudnnBackendDestroyDescriptor)                                                               \
    F(cudnnBackendSetAttribute)                                                                    \
    F(cudnnBackendGetAttribute)                                                                    \
    F(cudnnBackendFinalize)                                                                        \
    F(cudnnBackendExecute)

#define NCCL_FUNCTIONS(F)                                                                          \
    F(ncclGetVersion)                                                                              \
    F(ncclGetErrorString)                                                                          \
    F(ncclGetLastError)                                                                            \
    F(ncclGetUniqueId)                                                                             \
    F(ncclCommInitRankConfig)                                                                      \
    F(ncclCommSplit)                                                                               \
    F(ncclCommGetAsyncError)                                                                       \
    F(ncclCommFinalize)                                                                            \
    F(ncclCommDestroy)                                                                             \
    F(ncclCommAbort)                                                                               \
    F(ncclAllReduce)                                                                               \
    F(ncclReduceScatter)                                                                           \
    F(ncclAllGather)                                                                               \
    F(ncclBroadcast)                                                                               \
    F(ncclSend)                                                                                    \
    F(ncclRecv)                                                                                    \
    F(ncclGroupStart)                                                                              \
    F(ncclGroupEnd)

#define NAMED(f) {#f, (cuda_function)(f)},
static const named CUBLASLT[] = {CUBLASLT_FUNCTIONS(NAMED){NULL, NULL}};
static const named CUDNN[] = {CUDNN_FUNCTIONS(NAMED){NULL, NULL}};
static const named NCCL[] = {NCCL_FUNCTIONS(NAMED){NULL, NULL}};
#undef NAMED

status cuda_library_open(cuda_library_name library, err *e)
{
    const char *without = getenv("TRIREME_STAND_IN_WITHOUT"), *name = cuda_library_text(library);
    const bool lacks_nvml = library == CUDA_LIBRARY_NVML && !stand_in_nvml_symbol("nvmlInit_v2");
    if (lacks_nvml || (without && strstr(without, name)))
        return err_set(e, E_USAGE, "%s is not on this machine: the stand-in was told so", name);
    return OK;
}

cuda_function cuda_library_find(cuda_library_name library, const char *symbol)
{
    const char *without = getenv("TRIREME_STAND_IN_WITHOUT");
    if (without && strstr(without, symbol)) return NULL;
    if (library == CUDA_LIBRARY_NVML) {
        void *address = stand_in_nvml_symbol(symbol);
        cuda_function f = NULL;
        memcpy(&f, &address, sizeof f);
        return f;
    }
    static const named *const tables[CUDA_LIBRARIES] = {[CUDA_LIBRARY_CUBLASLT] = CUBLASLT,
                                                        [CUDA_LIBRARY_CUDNN] = CUDNN,
                                                        [CUDA_LIBRARY_NCCL] = NCCL};
    const named *n = tables[library];
    while (n->name && strcmp(n->name, symbol) != 0) n++;
    return n->f;
}
