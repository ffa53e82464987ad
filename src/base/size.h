// size.h -- products and sums of sizes that users choose. They never overflow: a result that is too
// large becomes SIZE_TOO_LARGE, and every further sum and product keeps that value. So callers
// check a calculation once, at its end, with size_fits.
#ifndef TRIREME_BASE_SIZE_H
#define TRIREME_BASE_SIZE_H

#include "base/target.h"

#include <stdbool.h>
#include <stdint.h>

#define SIZE_TOO_LARGE ((uint64_t)INT64_MAX) // also as an int64_t
#define SIZE_MOST      (UINT64_C(1) << 60)   // no machine has more bytes

static inline uint64_t size_mul(uint64_t a, uint64_t b)
{
    uint64_t out;
    return __builtin_mul_overflow(a, b, &out) || out > SIZE_TOO_LARGE ? SIZE_TOO_LARGE : out;
}

static inline uint64_t size_add(uint64_t a, uint64_t b)
{
    uint64_t out;
    return __builtin_add_overflow(a, b, &out) || out > SIZE_TOO_LARGE ? SIZE_TOO_LARGE : out;
}

// Rounds n up to a multiple of `to`.
static inline uint64_t size_align(uint64_t n, uint64_t to)
{
    return n > SIZE_TOO_LARGE - to ? SIZE_TOO_LARGE : (n + to - 1) / to * to;
}

ON_DEVICE static inline int64_t size_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

ON_DEVICE static inline int64_t size_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Returns n / by, rounded up. n is at least 0, by at least 1.
ON_DEVICE static inline int64_t size_ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static inline bool size_fits(uint64_t n)
{
    return n <= SIZE_MOST;
}

#endif
