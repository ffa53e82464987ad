// shared.c -- the probes of /dev/shm: its size, whether it is mounted at all, and what processes that have ended left in it.
// The size is that of the mount's options, because statvfs could not be shown a fault by a test.
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

// The size of a tmpfs in bytes: of its options, which the kernel prints in KiB, else half of the memory. 0: not known.
static status tmpfs_bytes(const doctor_context *c, const mount_entry *m, double *bytes, err *e)
{
    status result = OK;
    unsigned long long kib;
    char *content = NULL;
    uint64_t total = 0;
    bool denied;
    const char *size = strstr(m->options, "size=");
    *bytes = 0;
    if (size && sscanf(size, "size=%lluk", &kib) == 1) return *bytes = (double)kib * 1024, OK;
    TRY(doctor_read(c, "/proc/meminfo", &content, &denied, e));
    if (content && reading_number(content, "MemTotal:", &total)) *bytes = (double)total * 512;
done:
    free(content);
    return result;
}

status probe_shm_size(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *mounts = NULL, size[24], least[24];
    mount_entry m;
    double has;
    int ranks;
    TRY(reading_need(c, out, "/proc/mounts", &mounts, e));
    if (!mounts) goto done;
    if (!mount_of(mounts, "/dev/shm", &m) || strcmp(m.point, "/dev/shm") != 0) {
        doctor_skip(out, "no file system is mounted at /dev/shm");
        goto done;
    }
    TRY(tmpfs_bytes(c, &m, &has, e));
    TRY(reading_ranks(c, &ranks, e));
    const double need = doctor_threshold(c, "shm_mib", 128) * (1 << 20) * ranks;
    text_bytes(size, has);
    text_bytes(least, need);
    if (has == 0)
        doctor_blind(out, "neither /proc/mounts nor /proc/meminfo has the size of /dev/shm");
    else if (has < need)
        doctor_find(out, "where", "/dev/shm", "size", size, "need", least, NULL);
done:
    free(mounts);
    return result;
}

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
