// measure_disk.c -- how fast the folder of a run takes a checkpoint, gives back what is read, and makes a small write durable.
// Called by the checks. Its files are removed before they are written, so none is left behind.
#include "doctor/measure/measure.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "store/tier_rate.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, BLOCKS = 64, SYNCS = 15 };
static const double LIMIT = 3; // seconds of each part, after which it ends early

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A file without a name in the folder.
static status open_scratch(const char *folder, int *fd, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(folder, ".trireme-doctor-XXXXXX", &path, e));
    *fd = mkstemp(path);
    if (*fd < 0) {
        result = err_errno(e, "%s: cannot write there", folder);
        goto done;
    }
    unlink(path);
done:
    free(path);
    return result;
}

static status sync_file(int fd, const char *folder, err *e)
{
    return fsync(fd) == 0 ? OK : err_errno(e, "%s: cannot make a file durable", folder);
}

// As a checkpoint is written: large blocks, then one fsync.
static status time_writes(int fd, const char *folder, double *out, err *e)
{
    status result = OK;
    char *block = NULL;
    uint64_t bytes = 0;
    TRY(alloc_zeroed(&block, BLOCK, 1, "a block", e));
    for (int i = 0; i < BLOCK; i++)
        block[i] = (char)(i * 7 + i / 251); // not what a file system leaves out
    const double start = clock_seconds();
    for (int i = 0; i < BLOCKS && clock_seconds() - start < LIMIT; i++) {
        TRY(file_write_at(fd, folder, block, BLOCK, bytes, e));
        bytes += BLOCK;
    }
    TRY(sync_file(fd, folder, e));
    *out = (double)bytes * 1e-9 / (clock_seconds() - start);
done:
    free(block);
    return result;
}

static status time_syncs(int fd, const char *folder, double *out, err *e)
{
    status result = OK;
    double ms[SYNCS];
    int count = 0;
    const double start = clock_seconds();
    for (; count < SYNCS && clock_seconds() - start < LIMIT; count++) {
        char line[128] = {(char)count};
        const double began = clock_seconds();
        TRY(file_write_at(fd, folder, line, sizeof line, (uint64_t)count * sizeof line, e));
        TRY(sync_file(fd, folder, e));
        ms[count] = (clock_seconds() - began) * 1e3;
    }
    qsort(ms, (size_t)count, sizeof *ms, compare);
    *out = ms[count / 2];
done:
    return result;
}

static const char *folder_of(const doctor_context *c)
{
    return c->folder ? c->folder : ".";
}

status measure_disk_write(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int fd = -1;
    TRY(open_scratch(folder_of(c), &fd, e));
    TRY(time_writes(fd, folder_of(c), &out->disk.write, e));
done:
    if (fd >= 0) close(fd);
    return result;
}

status measure_fsync(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int fd = -1;
    TRY(open_scratch(folder_of(c), &fd, e));
    TRY(time_syncs(fd, folder_of(c), &out->disk.fsync_ms, e));
done:
    if (fd >= 0) close(fd);
    return result;
}

status measure_disk_read(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    tier_rate rate = {0};
    const tier_options o = {.folder = folder_of(c),
                            .name = "doctor",
                            .bytes = (uint64_t)BLOCK * BLOCKS,
                            .block_bytes = BLOCK};
    TRY(tier_rate_measure(&o, &rate, e));
    out->disk.read = (double)o.bytes * 1e-9 / rate.read_s;
done:
    text_clear(&rate.note);
    return result;
}
