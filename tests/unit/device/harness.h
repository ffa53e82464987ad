// harness.h -- shared by the device tests: random numbers, and a context in which kernels run.
#ifndef TRIREME_TESTS_DEVICE_HARNESS_H
#define TRIREME_TESTS_DEVICE_HARNESS_H

#include "base/rng.h"
#include "device/cpu/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A context of `threads` threads at the level that TRIREME_CPU names. Fails the test on an error.
static inline cpu_context harness_open(int threads)
{
    cpu_context x;
    err e = {0};
    if (cpu_context_open(&(device_options){.threads = threads}, &x, &e) != OK)
        fail_msg("%s", e.text);
    return x;
}

// Runs a call of `kernels`, which are those of `level`, with a workspace of exactly the bytes that it
// needs. It starts with bytes of 0xff, and the bytes beyond it must stay as they are.
static inline void harness_run(const cpu_kernels *kernels, cpu_level level, cpu_context *x,
                               const kernel_call *call)
{
    enum { BEYOND = 64 };
    const size_t bytes = kernel_workspace_bytes(cpu_kernel_needs(level), call);
    unsigned char *memory = aligned_alloc(
        KERNEL_WORKSPACE_ALIGN, (bytes / KERNEL_WORKSPACE_ALIGN + 2) * KERNEL_WORKSPACE_ALIGN);
    assert_non_null(memory);
    memset(memory, 0xff, bytes + BEYOND);
    x->workspace = memory;
    kernels->run[call->kind](x, &call->u);
    for (int i = 0; i < BEYOND; i++)
        if (memory[bytes + (size_t)i] != 0xff)
            fail_msg("%s writes beyond its workspace of %zu bytes", kernel_name(call->kind), bytes);
    free(memory);
}

// `count` floats, uniform with mean 0 and variance 1. The caller frees them.
static inline float *harness_random(int64_t count, uint64_t seed)
{
    float *x = malloc(sizeof(float) * (size_t)(count > 0 ? count : 1));
    rng_key key = rng_key_make(seed, RNG_MOCK, 0, 0);
    for (int64_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        rng_philox(key, (uint64_t)i, words);
        for (int64_t j = 0; j < 4 && i + j < count; j++)
            x[i + j] = (rng_uniform(words[j]) - 0.5f) * 3.4641016f;
    }
    return x;
}

static inline float *harness_zeros(int64_t count)
{
    return calloc((size_t)(count > 0 ? count : 1), sizeof(float));
}

// The numbers x rounded to a 16-bit type. The caller frees them.
static inline uint16_t *harness_low(const float *x, int64_t count, dtype type)
{
    uint16_t *y = malloc(2 * (size_t)(count > 0 ? count : 1));
    dtype_convert(y, type, x, F32, (size_t)count);
    return y;
}

#endif
