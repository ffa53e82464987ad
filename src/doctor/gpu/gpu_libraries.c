// gpu_libraries.c -- a check of the libraries of CUDA that Trireme opens when it uses a GPU. It looks for their files where
// the system's loader and then Trireme would find them: LD_LIBRARY_PATH, the folders of ld.so.conf, the CUDA toolkit. It
// opens none, so it works in a build without CUDA, too.
#include "base/text.h"
#include "device/hardware.h"
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/tables.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef TRIREME_CUDA_FOLDER
#define TRIREME_CUDA_FOLDER "/usr/local/cuda/lib64"
#endif

// As device/cuda/libraries/cuda_library_dlopen.c names them.
typedef struct gpu_library {
    const char *name, *file[3]; // ends with NULL
    int least[2];               // version; {0, 0}: every one
    bool needed;                // a GPU is not used without it
    const char *without;        // what happens without it
} gpu_library;

static const gpu_library LIBRARIES[] = {
    {"cuBLASLt",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     {0, 0},
     true,
     "the device cuda does not open"},
    {"cuDNN", {"libcudnn.so.9"}, {9, 11}, DOCTOR_WARNING, "attention takes slower kernels"},
    {"NCCL", {"libnccl.so.2"}, {2, 18}, DOCTOR_WARNING, "a run on several hosts does not start"},
};

// ---- Folders

static void add_folders(text *out, const char *list, const char *separators)
{
    while (*list) {
        const size_t bytes = strcspn(list, separators);
        if (*list == '/') {
            text_add_bytes(out, list, bytes);
            text_add(out, "\n");
        }
        list += bytes;
        list += strspn(list, separators);
    }
}

// All folders, one a line, in the order of the search.
static status find_folders(const doctor_context *c, text *out, err *e)
{
    status result = OK;
    char **name = NULL, *content = NULL;
    int count = 0;
    bool denied;
    const char *variable = doctor_variable(c, "LD_LIBRARY_PATH");
    if (variable) add_folders(out, variable, ":");
    TRY(doctor_names(c, "/etc/ld.so.conf.d", &name, &count, e));
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "/etc/ld.so.conf.d/%s", name[i]) >= (int)sizeof path)
            continue;
        free(content);
        content = NULL;
        TRY(doctor_read(c, path, &content, &denied, e));
        if (content) add_folders(out, content, "\n \t");
    }
    text_add(out,
             "/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n/lib/aarch64-linux-gnu\n"
             "/usr/lib/aarch64-linux-gnu\n/lib64\n/usr/lib64\n/lib\n/usr/lib\n" TRIREME_CUDA_FOLDER
             "\n");
    TRY(text_check(out, e));
done:
    free(content);
    doctor_names_free(name, count);
    return result;
}

// ---- Files

// A file of that name in a folder. *target is the last part of what it links to: "libcudnn.so.9.11.0".
static bool find_in(const doctor_context *c, const char *folder, size_t folder_bytes,
                    const char *file, char target[128])
{
    char path[PATH_MAX], full[PATH_MAX], *below = NULL;
    bool found = false;
    if (snprintf(path, sizeof path, "%.*s/%s", (int)folder_bytes, folder, file) >= (int)sizeof path)
        return false;
    if (doctor_path(c, path, &below, NULL) == OK && realpath(below, full)) {
        const char *last = strrchr(full, '/') + 1;
        found = true;
        snprintf(target, 128, "%.*s", TEXT_CUT(last, 127));
    }
    free(below);
    return found;
}

static bool find_library(const doctor_context *c, const text *folders, const gpu_library *l,
                         char target[128])
{
    for (int i = 0; l->file[i]; i++)
        for (const char *folder = folders->chars; *folder;) {
            const size_t bytes = strcspn(folder, "\n");
            if (find_in(c, folder, bytes, l->file[i], target)) return true;
            folder += bytes + (folder[bytes] == '\n');
        }
    return false;
}

// The version at the end of a file's name; wheels have only the first number, which says nothing.
static bool is_old(const gpu_library *l, const char *target, char version[32])
{
    int major, minor;
    const char *number = strstr(target, ".so.");
    if (!number || sscanf(number, ".so.%d.%d", &major, &minor) != 2) return false;
    snprintf(version, 32, "%d.%d", major, minor);
    return major < l->least[0] || (major == l->least[0] && minor < l->least[1]);
}

static status probe_libraries(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    text folders = {0};
    if (!hardware_has_nvidia(c->root)) {
        doctor_skip(out, "this machine has no NVIDIA GPU");
        return OK;
    }
    TRY(find_folders(c, &folders, e));
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof *LIBRARIES; i++) {
        const gpu_library *l = &LIBRARIES[i];
        char target[128], version[32], what[96];
        if (!find_library(c, &folders, l, target))
            snprintf(what, sizeof what, "is not found (%s)", l->file[0]);
        else if (is_old(l, target, version))
            snprintf(what, sizeof what, "is of version %s; valid is %d.%d or later", version,
                     l->least[0], l->least[1]);
        else
            continue;
        doctor_find_as(out, l->needed ? gpu_severity() : DOCTOR_WARNING, "where", l->name, "what",
                       what, "without", l->without, NULL);
    }
done:
    text_clear(&folders);
    return result;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-libraries",
     .severity = DOCTOR_WARNING,
     .title = "The libraries of CUDA are installed and new enough",
     .needs = "LD_LIBRARY_PATH, /etc/ld.so.conf.d, the system's folders of libraries",
     .issue = "{where} {what}: {without}",
     .why = "Trireme opens cuBLASLt and cuDNN when it opens a GPU, and NCCL for several hosts.",
     .remedy = {"Install it from NVIDIA's repository of packages (docs/gpus.md names them).",
                "If it is in another folder, add the folder to LD_LIBRARY_PATH."},
     .reference = "docs/gpus.md",
     .recipe = {162},
     .probe = probe_libraries},
};

const doctor_table DOCTOR_GPU_LIBRARIES = {"Libraries of CUDA", ROWS, sizeof ROWS / sizeof *ROWS};
