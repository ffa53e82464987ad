// storage.h -- the inside of this room: where the folder of a run lies, and what its file system and its disk are. Only
// files of this room include it.
#ifndef TRIREME_DOCTOR_STORAGE_STORAGE_H
#define TRIREME_DOCTOR_STORAGE_STORAGE_H

#include "doctor/check.h"

// A line of /proc/mounts.
typedef struct storage_mount {
    const char *source, *point, *type, *options;
} storage_mount;

typedef struct storage_mounts {
    char *chars; // of which the lines are parts
    storage_mount *mount;
    int count;
} storage_mounts;

// Reads /proc/mounts. A machine without it has no mounts. The caller calls storage_mounts_close.
status storage_mounts_open(const doctor_context *c, storage_mounts *out, err *e);
void storage_mounts_close(storage_mounts *m);
// The mount that holds an absolute path; NULL: none.
const storage_mount *storage_mount_of(const storage_mounts *m, const char *path);
// Returns whether an option is set: "noac", or "actimeo=0" with its value. NULL options have none.
bool storage_has_option(const storage_mount *m, const char *option);

enum { STORAGE_DISK_BYTES = 64 };

// A folder or file of the user's, and what holds it.
typedef struct storage_folder {
    char *shown; // as the user wrote it; "." is the working folder
    char *
        full; // for calls of the system: below the root. The path, or its nearest parent that exists
    char *path;  // the same without the root, absolute and without links
    bool exists; // the path itself does
    storage_mounts mounts;
    const storage_mount *mount; // NULL: not known
    char disk
        [STORAGE_DISK_BYTES]; // "nvme0n1", a folder of /sys/block; "": it has none, or it is not known
} storage_folder;

// Looks at the folder of the context (train.out), or at another path. The caller calls storage_folder_close.
status storage_folder_open(const doctor_context *c, const char *path, storage_folder *out, err *e);
void storage_folder_close(storage_folder *f);

// Opens the folder of the context and finds its mount. Where it is not known, the check is blind, and *known is false.
status storage_folder_find(const doctor_context *c, doctor_findings *out, storage_folder *f,
                           bool *known, err *e);

// The files of the folder's disk: "/sys/block/nvme0n1/queue/rotational". False where the folder has no disk or the file does
// not exist.
bool storage_disk_number(const doctor_context *c, const storage_folder *f, const char *file,
                         int64_t *out);

doctor_probe storage_probe_writable, storage_probe_read_only, storage_probe_space,
    storage_probe_inodes, storage_probe_in_use;
doctor_probe storage_probe_memory, storage_probe_network, storage_probe_objects,
    storage_probe_nfs_soft, storage_probe_nfs_locks, storage_probe_nfs_attributes,
    storage_probe_sync, storage_probe_barriers;
doctor_probe storage_probe_rotational, storage_probe_scheduler, storage_probe_read_ahead,
    storage_probe_sectors, storage_probe_errors, storage_probe_nvme, storage_probe_temperature,
    storage_probe_raid_degraded, storage_probe_raid_rebuilds;
doctor_probe storage_probe_pressure, storage_probe_dirty, storage_probe_memfd;
doctor_probe storage_probe_data_missing, storage_probe_data_readable, storage_probe_data_empty,
    storage_probe_data_network;

#endif
