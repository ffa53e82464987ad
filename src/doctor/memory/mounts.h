// mounts.h -- finds a path's file system in the text of /proc/mounts. The checks of /dev/shm use it.
#ifndef TRIREME_DOCTOR_MEMORY_MOUNTS_H
#define TRIREME_DOCTOR_MEMORY_MOUNTS_H

#include <stdbool.h>

typedef struct mount_entry {
    char point[256], type[64], options[512];
} mount_entry;

// The entry that an absolute path lies in: that with the longest matching folder, of which the last one counts, because
// it hides those before it. False where there is none.
bool mount_of(const char *mounts, const char *path, mount_entry *out);

#endif
