// shared.c -- the probes of /dev/shm that need no statvfs: whether it is mounted, and what dead processes have left in it.
#include "base/alloc.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/mounts.h"
#include "doctor/memory/probes.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

status probe_shm_missing(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *mounts = NULL;
    mount_entry m;
    int gpus;
    TRY(reading_need(c, out, "/proc/mounts", &mounts, e));
    TRY(reading_gpus(c, &gpus, e));
    if (!mounts || (mount_of(mounts, "/dev/shm", &m) && strcmp(m.point, "/dev/shm") == 0))
        goto done;
    doctor_find_as(out, gpus > 1 ? DOCTOR_ERROR : DOCTOR_WARNING, "where", "/dev/shm", NULL);
done:
    free(mounts);
    return result;
}

// The number of the process that a file of PyTorch's loaders names: torch_PID_RANDOM_COUNT. 0: it is no such file.
static long owner_of(const char *name)
{
    char *end;
    if (strncmp(name, "torch_", 6) != 0) return 0;
    const long pid = strtol(name + 6, &end, 10);
    return *end == '_' && pid > 0 ? pid : 0;
}

// Whether nobody uses the file: NCCL removes the names of its files as soon as all ranks have opened them, and the process
// that PyTorch's name holds has ended.
static status is_left_over(const doctor_context *c, const char *name, bool *left, err *e)
{
    char folder[64];
    const long pid = owner_of(name);
    *left = strncmp(name, "nccl-", 5) == 0;
    if (!pid) return OK;
    snprintf(folder, sizeof folder, "/proc/%ld", pid);
    const status result = reading_has_entries(c, folder, left, e);
    *left = !*left;
    return result;
}

static status add_bytes(const doctor_context *c, const char *name, uint64_t *bytes, err *e)
{
    status result = OK;
    struct stat s;
    char *path = NULL;
    text below = {0};
    text_addf(&below, "/dev/shm/%s", name);
    TRY(text_check(&below, e));
    TRY(doctor_path(c, below.chars, &path, e));
    if (stat(path, &s) == 0) *bytes += (uint64_t)s.st_size;
done:
    text_clear(&below);
    free(path);
    return result;
}

status probe_shm_leftovers(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char **names = NULL, files[48], size[24];
    int n = 0, count = 0;
    uint64_t bytes = 0;
    TRY(doctor_names(c, "/dev/shm", &names, &n, e));
    for (int i = 0; i < n; i++) {
        bool left;
        TRY(is_left_over(c, names[i], &left, e));
        if (left) TRY(add_bytes(c, names[i], &bytes, e));
        count += left;
    }
    reading_counted(files, (uint64_t)count, "file");
    text_bytes(size, (double)bytes);
    if (count)
        doctor_find_as(out, bytes >= UINT64_C(1) << 30 ? DOCTOR_WARNING : DOCTOR_NOTE, "where",
                       "/dev/shm", "files", files, "size", size, NULL);
done:
    doctor_names_free(names, n);
    return result;
}
