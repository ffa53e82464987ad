// ckpt_location.c -- tells whether this process sees the folder that another process is writing a checkpoint into.
// The trainer's ranks ask before they write.
#include "base/file.h"
#include "ckpt/ckpt_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

// The identity of the running kernel; empty where it has none.
static status kernel_of(char out[40], err *e)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    status result = OK;
    char *read = NULL;
    out[0] = 0;
    if (!file_exists(path)) return OK;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &read, NULL, e));
    read[strcspn(read, "\n")] = 0;
    snprintf(out, 40, "%s", read);
done:
    free(read);
    return result;
}

status ckpt_location_of(const char *folder, ckpt_location *out, err *e)
{
    status result = OK;
    struct stat info;
    const char *slash = strrchr(folder, '/');
    *out = (ckpt_location){.name = ""};
    if (stat(folder, &info) != 0) {
        result = err_errno(e, "cannot look at %s", folder);
        goto done;
    }
    snprintf(out->name, sizeof out->name, "%s", slash ? slash + 1 : folder);
    out->device = info.st_dev;
    TRY(kernel_of(out->kernel, e));
done:
    return result;
}

// Returns whether both processes use one page cache for the folder.
static status is_same_mount(const char *folder, const ckpt_location *location, bool *is, err *e)
{
    status result = OK;
    struct stat info;
    char kernel[40];
    TRY(kernel_of(kernel, e));
    *is = kernel[0] && strcmp(kernel, location->kernel) == 0 && stat(folder, &info) == 0 &&
          info.st_dev == location->device;
done:
    return result;
}

static bool is_nfs_or_smb(const char *folder)
{
    enum { NFS = 0x6969, SMB = 0x517B };
    static const uint32_t CIFS = 0xFF534D42, SMB2 = 0xFE534D42;
    struct statfs info;
    if (statfs(folder, &info) != 0) return true;
    const uint32_t type = (uint32_t)info.f_type;
    return type == NFS || type == SMB || type == CIFS || type == SMB2;
}

status ckpt_location_find(const char *out, const ckpt_location *location, char **folder, err *e)
{
    status result = OK;
    char *checkpoints = NULL, *path = NULL, *file = NULL;
    bool same;
    *folder = NULL;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    TRY(file_join(checkpoints, location->name, &path, e));
    TRY(file_join(path, CKPT_STATE_TENSORS, &file, e));
    if (access(file, W_OK) != 0) goto done;
    TRY(is_same_mount(path, location, &same, e));
    if (!same && is_nfs_or_smb(path)) goto done;
    *folder = path;
    path = NULL;
done:
    free(checkpoints);
    free(path);
    free(file);
    return result;
}
