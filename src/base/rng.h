// rng.h -- counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011).
//
// A draw is a pure function of (key, counter). There is no state, so a value depends neither on the
// rank or thread that draws it nor on earlier draws. A key derives from (seed, use). A counter is a
// logical position: a parameter's element, or a token's position in the global batch.
#ifndef TRIREME_BASE_RNG_H
#define TRIREME_BASE_RNG_H

#include "base/target.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rng_key {
    uint32_t k[2];
} rng_key;

// The use of a stream of random numbers. It is part of the key, so that two uses never share draws.
typedef enum rng_use {
    RNG_INIT = 1,
    RNG_DROPOUT,
    RNG_SHUFFLE,
    RNG_SAMPLE,
    RNG_MOCK,
    RNG_POWERSGD
} rng_use;

// The finaliser of SplitMix64: every output bit depends on every input bit.
ON_DEVICE static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// Mixes seed, use and two further words (a parameter's index, a step, …) into a key.
ON_DEVICE static inline rng_key rng_key_make(uint64_t seed, rng_use use, uint64_t a, uint64_t b)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = rng_mix(seed + golden);
    h = rng_mix(h + golden + (uint64_t)use);
    h = rng_mix(h + golden + a);
    h = rng_mix(h + golden + b);
    return (rng_key){{(uint32_t)h, (uint32_t)(h >> 32)}};
}

// Four independent uniform 32-bit words for one counter.
ON_DEVICE static inline void rng_philox(rng_key key, uint64_t counter, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// Returns the 32-bit word of element `index`: word index%4 of counter index/4.
ON_DEVICE static inline uint32_t rng_word(rng_key key, uint64_t index)
{
    uint32_t words[4];
    rng_philox(key, index / 4, words);
    // Not words[index % 4]: a GPU has no indexed registers.
    const uint32_t low = index & 1 ? words[1] : words[0], high = index & 1 ? words[3] : words[2];
    return index & 2 ? high : low;
}

// Maps a word to a uniform number in [0, 1) with 24 random bits.
ON_DEVICE static inline float rng_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

// Returns the standard normal number of element `index`, by Box-Muller. Four elements share the
// words of one counter.
float rng_normal(rng_key key, uint64_t index);
// Like rng_normal, for elements first … first+count-1. out is [count] F32.
void rng_normals(rng_key key, uint64_t first, size_t count, float *out);

#endif
