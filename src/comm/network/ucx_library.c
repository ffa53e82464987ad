// ucx_library.c -- see ucx_library.h. Called by ucx_worker.c.
#include "comm/network/ucx_library.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char NAME[] = "libucp.so.0";

typedef struct symbol_row {
    const char *name;
    size_t offset; // of the pointer in ucx_api
} symbol_row;

static const symbol_row SYMBOLS[] = {
#define UCX_ROW(name) {"ucp_" #name, offsetof(ucx_api, name)},
    UCX_FUNCTIONS(UCX_ROW)
#undef UCX_ROW
        {"ucs_status_string", offsetof(ucx_api, status_string)},
};

// UCX's constructor installs handlers: that of SIGHUP switches its debug output on, and those of SIGSEGV and others print a
// trace of its own. What the process does at a signal stays what it was.
static void *load(void)
{
    struct sigaction before[NSIG];
    bool known[NSIG];
    for (int s = 1; s < NSIG; s++) known[s] = sigaction(s, NULL, &before[s]) == 0;
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    for (int s = 1; s < NSIG; s++)
        if (known[s]) sigaction(s, &before[s], NULL);
    return library;
}

status ucx_library_open(ucx_api *out, err *e)
{
    void *library = load();
    if (!library) {
        const char *why = dlerror();
        return err_set(e, E_USAGE, "communicator ucx: %s; valid: install UCX (Debian: libucx0)",
                       why ? why : NAME);
    }
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *symbol = dlsym(library, SYMBOLS[i].name);
        if (!symbol)
            return err_set(e, E_USAGE, "communicator ucx: %s has no %s; valid: UCX %d.%d or later",
                           NAME, SYMBOLS[i].name, UCP_API_MAJOR, UCP_API_MINOR);
        memcpy((char *)out + SYMBOLS[i].offset, &symbol, sizeof symbol);
    }
    return OK;
}
