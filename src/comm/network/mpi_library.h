// mpi_library.h -- loads the MPI library of the site, and knows the two binary interfaces. Called by mpi.c.
#ifndef TRIREME_COMM_MPI_LIBRARY_H
#define TRIREME_COMM_MPI_LIBRARY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// A handle of MPI: a pointer in Open MPI, an int in MPICH, whose low half it then is.
typedef uintptr_t mpi_handle;

enum { MPI_STATUS_BYTES = 128, MPI_TEXT_BYTES = 1024, MPI_SERIALIZED = 2, MPI_SUCCESS = 0 };

typedef struct mpi_library {
    mpi_handle world, byte, errors_return;
    int tag_most_key, truncated; // numbers of MPI_TAG_UB and of the class MPI_ERR_TRUNCATE
    int (*initialized)(int *is);
    int (*init_thread)(int *argc, char ***argv, int level, int *got);
    int (*finalize)(void);
    int (*comm_rank)(mpi_handle c, int *out);
    int (*comm_size)(mpi_handle c, int *out);
    int (*comm_dup)(mpi_handle c, mpi_handle *out);
    int (*comm_free)(mpi_handle *c);
    int (*comm_get_attr)(mpi_handle c, int key, void *value, int *is_set);
    int (*comm_set_errhandler)(mpi_handle c, mpi_handle handler);
    int (*isend)(const void *data, int count, mpi_handle type, int to, int tag, mpi_handle c,
                 mpi_handle *request);
    int (*irecv)(void *data, int count, mpi_handle type, int from, int tag, mpi_handle c,
                 mpi_handle *request);
    int (*test)(mpi_handle *request, int *is_done, void *state);
    int (*cancel)(mpi_handle *request);
    int (*error_class)(int code, int *out);
    int (*error_string)(int code, char *out, int *bytes);
} mpi_library;

// Loads TRIREME_MPI, or the first library that is found by its name, that of the launcher first. It is never unloaded.
// E_USAGE names what was tried.
status mpi_library_open(mpi_library *out, err *e);

#endif
