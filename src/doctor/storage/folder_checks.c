// folder_checks.c -- may a run write into its folder (train.out), is there room, and does another run write into it. The
// table of this room calls the probes.
#include "doctor/storage/storage.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// Less than this, and not even a small checkpoint can be written.
#define LEAST_BYTES  (64.0 * 1024 * 1024)
#define LEAST_INODES 1000

status storage_probe_writable(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    struct stat info;
    TRY(storage_folder_open(c, c->folder, &f, e));
    const char *problem = NULL;
    if (stat(f.full, &info) != 0 || !S_ISDIR(info.st_mode))
        problem = "is a file, not a folder";
    else if (access(f.full, W_OK | X_OK) != 0)
        problem = "may not be written by this user";
    if (problem) doctor_find(out, "where", f.path, "problem", problem, NULL);
    storage_folder_close(&f);
done:
    return result;
}

status storage_probe_read_only(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    bool known;
    TRY(storage_folder_find(c, out, &f, &known, e));
    if (known && storage_has_option(f.mount, "ro"))
        doctor_find(out, "where", f.shown, "mount", f.mount->point, NULL);
    storage_folder_close(&f);
done:
    return result;
}

typedef struct storage_space {
    double bytes, free_bytes;
    double inodes, free_inodes;
} storage_space;

// A folder of files that stands for a machine has no file system of its own: its file /statvfs has a line "POINT BYTES
// FREE INODES FREE" for each mount.
static bool read_copied(const char *line, const char *point, storage_space *out)
{
    const size_t bytes = strlen(point);
    return strncmp(line, point, bytes) == 0 && line[bytes] == ' ' &&
           sscanf(line + bytes, "%lf %lf %lf %lf", &out->bytes, &out->free_bytes, &out->inodes,
                  &out->free_inodes) == 4;
}

static status read_space(const doctor_context *c, const storage_folder *f, storage_space *out,
                         bool *known, err *e)
{
    status result = OK;
    struct statvfs v;
    char *lines = NULL;
    bool denied;
    *known = !*c->root && statvfs(f->full, &v) == 0;
    if (*known)
        *out = (storage_space){.bytes = (double)v.f_blocks * (double)v.f_frsize,
                               .free_bytes = (double)v.f_bavail * (double)v.f_frsize,
                               .inodes = (double)v.f_files,
                               .free_inodes = (double)v.f_favail};
    if (!*c->root) return OK;
    TRY(doctor_read(c, "/statvfs", &lines, &denied, e));
    for (char *rest = lines, *line; rest && !*known && (line = strsep(&rest, "\n"));)
        *known = read_copied(line, f->mount->point, out);
done:
    free(lines);
    return result;
}

// Opens the folder and reads its space; *known is false where the check is blind.
static status open_space(const doctor_context *c, doctor_findings *out, storage_folder *f,
                         storage_space *space, bool *known, err *e)
{
    status result = OK;
    TRY(storage_folder_find(c, out, f, known, e));
    if (!*known) return OK;
    result = read_space(c, f, space, known, e);
    if (result != OK)
        storage_folder_close(f);
    else if (!*known)
        doctor_blind(out, "statvfs does not answer for %s", f->shown);
done:
    return result;
}

status storage_probe_space(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    storage_space s;
    bool known;
    char free_text[24], size[24], wanted[24];
    const double gib = 1024.0 * 1024 * 1024, want = doctor_threshold(c, "disk_free_gib", 10) * gib;
    TRY(open_space(c, out, &f, &s, &known, e));
    if (known && s.bytes > 0 && s.free_bytes < want) {
        text_bytes(free_text, s.free_bytes);
        text_bytes(size, s.bytes);
        text_bytes(wanted, want);
        doctor_find_as(out, s.free_bytes < LEAST_BYTES ? DOCTOR_ERROR : DOCTOR_WARNING, "where",
                       f.shown, "free", free_text, "size", size, "mount", f.mount->point, "wanted",
                       wanted, NULL);
    }
    if (known) doctor_measure(out, "disk_free_gib", s.free_bytes / gib, "GiB", false);
    storage_folder_close(&f);
done:
    return result;
}

// File systems that make inodes as they need them, such as btrfs, have 0 of 0.
status storage_probe_inodes(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    storage_space s;
    bool known;
    char left[32], all[32];
    TRY(open_space(c, out, &f, &s, &known, e));
    if (known && s.inodes > 0 && s.free_inodes < LEAST_INODES) {
        snprintf(left, sizeof left, "%.0f", s.free_inodes);
        snprintf(all, sizeof all, "%.0f", s.inodes);
        doctor_find_as(out, s.free_inodes < 1 ? DOCTOR_ERROR : DOCTOR_WARNING, "where", f.shown,
                       "left", left, "all", all, "mount", f.mount->point, NULL);
    }
    storage_folder_close(&f);
done:
    return result;
}

// /proc/locks has "1: FLOCK  ADVISORY  WRITE 712 fd:01:131 0 EOF"; a lock that waits has "->" after the number.
static bool is_lock(const char *line, const struct stat *folder, int *pid)
{
    unsigned major_number, minor_number;
    uint64_t inode;
    const char *rest = strstr(line, " FLOCK ");
    return rest && !strstr(line, "->") &&
           sscanf(rest, " FLOCK ADVISORY WRITE %d %x:%x:%" SCNu64, pid, &major_number,
                  &minor_number, &inode) == 4 &&
           inode == folder->st_ino && major_number == major(folder->st_dev) &&
           minor_number == minor(folder->st_dev);
}

status storage_probe_in_use(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    struct stat info;
    bool denied;
    int pid;
    char *lines = NULL, number[16];
    TRY(storage_folder_open(c, c->folder, &f, e));
    TRY(doctor_read(c, "/proc/locks", &lines, &denied, e));
    if (!lines) doctor_blind(out, "/proc/locks cannot be read");
    const bool looks = f.exists && stat(f.full, &info) == 0;
    for (char *rest = lines, *line; looks && rest && (line = strsep(&rest, "\n"));) {
        if (!is_lock(line, &info, &pid)) continue;
        snprintf(number, sizeof number, "%d", pid);
        doctor_find(out, "where", f.shown, "pid", number, NULL);
        break;
    }
done:
    free(lines);
    storage_folder_close(&f);
    return result;
}
