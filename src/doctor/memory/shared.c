// shared.c -- the probes of /dev/shm: its size, and whether it is mounted at all. The size is that of the mount's options, because statvfs could not be shown a fault by a test.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/mounts.h"
#include "doctor/memory/probes.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
