// group.h -- walks the control groups of this process, from its own to the topmost that is visible, in versions 1 and 2.
// The checks of limits of memory, cores and processes use it. base/cgroup.h says how much memory is left.
#ifndef TRIREME_DOCTOR_MEMORY_GROUP_H
#define TRIREME_DOCTOR_MEMORY_GROUP_H

#include "doctor/check.h"

typedef enum group_resource { GROUP_MEMORY, GROUP_CPU, GROUP_PIDS } group_resource;

// The group at `folder` (below the root): version 1 or 2. Returns false to end the walk.
typedef bool group_visit(const doctor_context *c, const char *folder, int version, void *arg);
status group_walk(const doctor_context *c, group_resource of, group_visit *visit, void *arg,
                  err *e);

// The smallest number in FOLDER/NAME over all groups, and the folder that has it. UINT64_MAX: no group has a limit.
typedef struct group_limit {
    uint64_t value;
    char folder[256];
} group_limit;
// `name` of version 1 may be NULL: there is no such limit in it.
status group_least(const doctor_context *c, group_resource of, const char *name_v2,
                   const char *name_v1, group_limit *out, err *e);

// The number behind `key` in the file of the nearest group that has one. False: no group has it.
status group_counted(const doctor_context *c, group_resource of, const char *name_v2,
                     const char *name_v1, const char *key, uint64_t *count, bool *found, err *e);

#endif
