// vec_init.c -- vector form of the initial values of parameters. The compiler makes vectors of the loops
// over base/normal.h, so every level gives the bits of rng_normal.
#include "base/normal.h"
#include "device/cpu/vec.h"

enum {
    GRAIN = 16384, // elements for which it pays to wake a thread; a multiple of the 4 of a counter
    BATCH = 1024,  // elements drawn from a time
};

// out [n] = normal numbers of the words of full counters. n is a multiple of 4, from most BATCH +
// 4.
VEC_INLINE void normals(const uint32_t *words, int64_t n, float *out)
{
    float radius[BATCH / 2 + 2], sine[BATCH / 2 + 2], cosine[BATCH / 2 + 2];
    for (int64_t i = 0; i < n / 2; i++) radius[i] = normal_log(words[2 * i] >> 8);
    for (int64_t i = 0; i < n / 2; i++)
        normal_sincos(normal_angle(words[2 * i + 1]), &sine[i], &cosine[i]);
    for (int64_t i = 0; i < n / 2; i++) {
        const float r = sqrtf(-2 * radius[i]);
        out[2 * i] = r * cosine[i];
        out[2 * i + 1] = r * sine[i];
    }
}

// Uniform numbers first … last-1, from -std to std.
static void uniform_part(const kernel_init_args *p, int64_t first, int64_t last)
{
    uint32_t scratch[BATCH + 8 * VL];
    for (int64_t from = first; from < last; from += BATCH) {
        const int64_t count = size_min(BATCH, last - from);
        const uint32_t *words = VEC(random)(p->key, p->index0 + (uint64_t)from, count, scratch);
        for (int64_t i = 0; i < count; i++)
            p->y[from + i] = p->std * (2 * rng_uniform(words[i]) - 1);
    }
}

static void init_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_init_args *p = args;
    uint32_t scratch[BATCH + 8 * VL];
    float random[BATCH + 4];
    for (int64_t from = first; from < last && p->normal; from += BATCH) {
        const int64_t count = size_min(BATCH, last - from);
        // Words are drawn from the first element of a counter on.
        const uint64_t index = p->index0 + (uint64_t)from;
        const int64_t skip = (int64_t)(index % 4), all = size_ceil_div(skip + count, 4) * 4;
        normals(VEC(random)(p->key, index - (uint64_t)skip, all, scratch), all, random);
        for (int64_t i = 0; i < count; i++) p->y[from + i] = p->std * random[skip + i];
    }
    if (p->uniform) uniform_part(p, first, last);
    for (int64_t i = first; i < last && !p->normal && !p->uniform; i++) p->y[i] = p->constant;
}

void VEC(init)(const cpu_context *x, const void *args)
{
    const kernel_init_args *p = args;
    VEC(share)(x, p, p->count, GRAIN, init_part);
}
