// rng.c -- normal numbers from the counter-based generator. The code for initial weights calls it. It has
// no state.
#include "base/rng.h"

#include "base/normal.h"

// Two words of a counter give two numbers.
static void four_normals(rng_key key, uint64_t counter, float out[4])
{
    uint32_t words[4];
    rng_philox(key, counter, words);
    normal_pair(words[0], words[1], out);
    normal_pair(words[2], words[3], out + 2);
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
