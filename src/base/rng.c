// rng.c -- keys and derived draws of the counter-based generator. The code for initial weights,
// data order and sampling calls it; the dropout kernels call rng_philox directly. It has no state.
#include "base/rng.h"

#include <math.h>

// The finaliser of SplitMix64: every output bit depends on every input bit.
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

rng_key rng_key_make(uint64_t seed, rng_use use, uint64_t a, uint64_t b)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = mix(seed + golden);
    h = mix(h + golden + (uint64_t)use);
    h = mix(h + golden + a);
    h = mix(h + golden + b);
    return (rng_key){{(uint32_t)h, (uint32_t)(h >> 32)}};
}

uint32_t rng_word(rng_key key, uint64_t index)
{
    uint32_t words[4];
    rng_philox(key, index / 4, words);
    return words[index % 4];
}

// Box-Muller on the four words of one counter: two words give two numbers.
static void four_normals(rng_key key, uint64_t counter, float out[4])
{
    uint32_t words[4];
    rng_philox(key, counter, words);
    for (int i = 0; i < 4; i += 2) {
        // In (0, 1], so that the logarithm is finite.
        float u = (float)((words[i] >> 8) + 1) * 0x1p-24f;
        float radius = sqrtf(-2.0f * logf(u)), angle = 6.2831853f * rng_uniform(words[i + 1]);
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

float rng_normal(rng_key key, uint64_t index)
{
    float four[4];
    four_normals(key, index / 4, four);
    return four[index % 4];
}

void rng_normals(rng_key key, uint64_t first, size_t count, float *out)
{
    float four[4];
    for (size_t i = 0; i < count;) {
        const uint64_t index = first + i;
        const size_t skip = (size_t)(index % 4), left = count - i;
        const size_t take = left < 4 - skip ? left : 4 - skip;
        four_normals(key, index / 4, four);
        for (size_t k = 0; k < take; k++) out[i + k] = four[skip + k];
        i += take;
    }
}
