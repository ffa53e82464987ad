// oom.h -- tells a process that the kernel killed for lack of memory from one that somebody killed.
#ifndef TRIREME_LAUNCH_OOM_H
#define TRIREME_LAUNCH_OOM_H

#include <stdint.h>

// How many processes the kernel has killed for lack of memory so far: those of this control group, and of the
// machine. Called before the workers start, and when signal 9 has ended one.
typedef struct oom_count {
    uint64_t group, machine;
} oom_count;

oom_count oom_read(void);
// Returns why, as a sentence, where one has been killed since `before`; else NULL.
const char *oom_explain(oom_count before);

#endif
