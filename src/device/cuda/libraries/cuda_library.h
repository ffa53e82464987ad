// cuda_library.h -- libraries of CUDA that are opened at run time: a program starts in milliseconds, and
// it runs where they are absent. cuda_library.c has the tables of the functions that the device calls.
// cuda_library_dlopen.c finds a function by dlopen; tests have another one, whose libraries are part of
// the stand-in. Nothing is closed again: the libraries do not expect that.
#ifndef TRIREME_DEVICE_CUDA_CUDA_LIBRARY_H
#define TRIREME_DEVICE_CUDA_CUDA_LIBRARY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cuda_library_name {
    CUDA_LIBRARY_CUBLASLT,
    CUDA_LIBRARY_CUDNN,
    CUDA_LIBRARY_NVML,
    CUDA_LIBRARY_NCCL,
    CUDA_LIBRARIES
} cuda_library_name;

// An address: of a function, which C does not allow to be a `void *`.
typedef void (*cuda_function)(void);

// The library's name for messages, such as "cuBLASLt". Static text.
const char *cuda_library_text(cuda_library_name library);
// Opens a library. E_USAGE names the library, and each file that was tried. Any thread may call it, and
// more than once.
status cuda_library_open(cuda_library_name library, err *e);
// The function of an open library. NULL where the library lacks it.
cuda_function cuda_library_find(cuda_library_name library, const char *symbol);

// Returns whether this process has called CUDA. Its driver is then open, and a process that it forks cannot call CUDA.
bool cuda_driver_is_open(void);

// A function that a table wants, and where its address goes.
typedef struct cuda_symbol {
    const char *name;
    size_t offset; // of a cuda_function in the table
} cuda_symbol;

// Opens the library and fills the table. E_USAGE names the library and the first function that it lacks.
status cuda_library_fill(cuda_library_name library, const cuda_symbol *symbols, size_t count,
                         void *table, err *e);

#ifdef __cplusplus
}
#endif

#endif
