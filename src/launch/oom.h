// oom.h -- tells a process that the kernel killed for lack of memory from one that somebody killed.
#ifndef TRIREME_LAUNCH_OOM_H
#define TRIREME_LAUNCH_OOM_H

#include <stdbool.h>
#include <stdint.h>

// Counts the processes that the kernel has killed for lack of memory so far: those of this control group, and of the
// machine.
typedef struct oom_count {
    uint64_t group, machine;
    bool has_group; // the kernel counts those of this control group
} oom_count;

// Called before processes start, and when signal 9 has ended one. `root` stands before /proc and /sys; "" is this
// machine.
oom_count oom_read(const char *root);
// Returns why, as a sentence, where one of this process's children has been killed since `before`; else NULL.
const char *oom_explain(oom_count before, const char *root);

#endif
