// cgroup.h -- the control groups of this process, versions 1 and 2: where their files are, and how much memory
// their limits leave.
//
// The memory budget and the reason of a kill use it. It changes no group.
#ifndef TRIREME_BASE_CGROUP_H
#define TRIREME_BASE_CGROUP_H

#include "base/text.h"

#include <stdint.h>

// Appends the path of this process in a hierarchy: what follows `marker` in the first line of /proc/self/cgroup
// that holds it ("0::" of version 2, ":memory:" of version 1). Appends nothing where there is no such line. `root`
// stands before /proc; "" is this machine.
void cgroup_add_path(text *path, const char *root, const char *marker);

// Returns the bytes that the limits of this process's group and of the groups above it leave, or UINT64_MAX where
// none has a limit. Pages of files, which the kernel can drop, count as left. `root` stands before /proc and /sys; ""
// is this machine.
uint64_t cgroup_memory_left(const char *root);

#endif
