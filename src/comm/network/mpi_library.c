// mpi_library.c -- see mpi_library.h. Open MPI's handles are addresses of the library's variables, and those of MPICH, which
// Intel MPI, MVAPICH and Cray MPI share, are fixed numbers. No header of MPI is needed.
#include "comm/network/mpi_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const OPEN_MPI_FIRST[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
static const char *const MPICH_FIRST[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40"};
enum { NAMES = 3 };

typedef struct symbol_row {
    const char *name;
    size_t offset; // of the pointer in mpi_library
} symbol_row;

#define ROW(name, member)                                                                          \
    {                                                                                              \
        name, offsetof(mpi_library, member)                                                        \
    }
static const symbol_row SYMBOLS[] = {
    ROW("MPI_Initialized", initialized),
    ROW("MPI_Init_thread", init_thread),
    ROW("MPI_Finalize", finalize),
    ROW("MPI_Comm_rank", comm_rank),
    ROW("MPI_Comm_size", comm_size),
    ROW("MPI_Comm_dup", comm_dup),
    ROW("MPI_Comm_free", comm_free),
    ROW("MPI_Comm_get_attr", comm_get_attr),
    ROW("MPI_Comm_set_errhandler", comm_set_errhandler),
    ROW("MPI_Isend", isend),
    ROW("MPI_Irecv", irecv),
    ROW("MPI_Test", test),
    ROW("MPI_Cancel", cancel),
    ROW("MPI_Error_class", error_class),
    ROW("MPI_Error_string", error_string),
};

static void set_handles(void *library, mpi_library *out)
{
    void *world = dlsym(library, "ompi_mpi_comm_world");
    if (world) {
        out->world = (mpi_handle)world;
        out->byte = (mpi_handle)dlsym(library, "ompi_mpi_byte");
        out->errors_return = (mpi_handle)dlsym(library, "ompi_mpi_errors_return");
        out->tag_most_key = 0;
        out->truncated = 15;
    } else {
        out->world = 0x44000000;
        out->byte = 0x4c00010d;
        out->errors_return = 0x54000001;
        out->tag_most_key = 0x64400001;
        out->truncated = 14;
    }
}

// The plug-ins of Open MPI look for the library's symbols among those of the whole process.
static void *load(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
}

status mpi_library_open(mpi_library *out, err *e)
{
    const char *given = getenv("TRIREME_MPI");
    const char *const *names = getenv("OMPI_COMM_WORLD_RANK") ? OPEN_MPI_FIRST : MPICH_FIRST;
    void *library = given ? load(given) : NULL;
    if (given && !library) {
        const char *why = dlerror();
        return err_set(e, E_USAGE, "TRIREME_MPI=%s: %s; valid: the path of an MPI library", given,
                       why ? why : "it cannot be loaded");
    }
    for (int i = 0; i < NAMES && !library; i++) library = load(names[i]);
    if (!library)
        return err_set(e, E_USAGE,
                       "communicator mpi: no MPI library is found: tried %s, %s and %s; valid: "
                       "TRIREME_MPI, the path of one",
                       names[0], names[1], names[2]);
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *symbol = dlsym(library, SYMBOLS[i].name);
        if (!symbol)
            return err_set(e, E_USAGE, "communicator mpi: the library%s%s has no %s",
                           given ? " " : "", given ? given : "", SYMBOLS[i].name);
        memcpy((char *)out + SYMBOLS[i].offset, &symbol, sizeof symbol);
    }
    set_handles(library, out);
    return OK;
}
