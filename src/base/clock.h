// clock.h -- the monotonic clock, and whether two processes have the same one.
#ifndef TRIREME_BASE_CLOCK_H
#define TRIREME_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Nanoseconds of the monotonic clock.
static inline int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Seconds of the monotonic clock.
static inline double clock_seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

// Equal numbers: the clocks of two processes are one, that of a start of a machine, in one time namespace. 0: not known.
uint64_t clock_identity(void);

#endif
