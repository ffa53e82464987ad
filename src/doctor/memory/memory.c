// memory.c -- the table of checks of memory and limits.
#include "doctor/tables.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

// Returns the options of the file system that is mounted at `path`, within `mounts` (a copy of /proc/mounts, which is
// changed); NULL where none is. The last mount covers those before it.
static const char *mount_options(char *mounts, const char *path)
{
    const char *found = NULL;
    char *rest = NULL;
    for (char *line = strtok_r(mounts, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *word = NULL;
        if (!strtok_r(line, " ", &word)) continue;
        const char *where = strtok_r(NULL, " ", &word);
        if (!strtok_r(NULL, " ", &word)) continue;
        const char *options = strtok_r(NULL, " ", &word);
        if (where && options && strcmp(where, path) == 0) found = options;
    }
    return found;
}

// The size of a tmpfs in bytes: of its options, which the kernel prints in KiB, else half of the memory. 0: not known.
static double tmpfs_bytes(const doctor_context *c, const char *options)
{
    char line[128];
    unsigned long long kib;
    const char *size = strstr(options, "size=");
    if (size && sscanf(size, "size=%lluk", &kib) == 1) return (double)kib * 1024;
    if (doctor_read_line(c, "/proc/meminfo", line, sizeof line) &&
        sscanf(line, "MemTotal: %llu kB", &kib) == 1)
        return (double)kib * 512;
    return 0;
}

static status check_shm_size(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *mounts = NULL;
    bool denied;
    TRY(doctor_read(c, "/proc/mounts", &mounts, &denied, e));
    if (!mounts) {
        doctor_blind(out, "/proc/mounts cannot be read");
        goto done;
    }
    const char *options = mount_options(mounts, "/dev/shm");
    if (!options) {
        doctor_skip(out, "no file system is mounted at /dev/shm");
        goto done;
    }
    const double has = tmpfs_bytes(c, options);
    const int ranks = c->ranks > 0 ? c->ranks : 1;
    const double need = doctor_threshold(c, "shm_mib", 128) * MIB * ranks;
    if (has == 0) {
        doctor_blind(out, "neither /proc/mounts nor /proc/meminfo has the size of /dev/shm");
    } else if (has < need) {
        char size[24], least[24];
        text_bytes(size, has);
        text_bytes(least, need);
        doctor_find(out, "where", "/dev/shm", "size", size, "need", least, NULL);
    }
done:
    free(mounts);
    return result;
}

static const doctor_check ROWS[] = {
    {
        .code = "shm-size",
        .level = DOCTOR_PASSIVE,
        .severity = DOCTOR_WARNING,
        .title = "/dev/shm has room for the ranks",
        .needs = "/proc/mounts, /proc/meminfo",
        .issue = "{where} has {size}, and the ranks may need {need}",
        .why = "NCCL, UCX and the data loaders of PyTorch keep buffers in /dev/shm. Where it is "
               "full, they end with \"No "
               "space left on device\" or a bus error. Trireme's own shared memory has no name and "
               "does not need it.",
        .remedy =
            {
                "$ docker run --shm-size=1g …",
                "In Kubernetes, mount a volume `emptyDir: {medium: Memory}` at /dev/shm.",
                "$ mount -o remount,size=1g /dev/shm",
            },
        .reference = "docs/troubleshooting.md#shared-memory-in-a-container",
        .recipe = {0},
        .probe = check_shm_size,
    },
};

const doctor_table DOCTOR_MEMORY = {
    .subject = "Memory and limits",
    .row = ROWS,
    .count = sizeof ROWS / sizeof ROWS[0],
};
