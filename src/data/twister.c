// twister.c -- MT19937. The sampler and the order of Megatron-LM draw from it. See twister.h.
#include "data/twister.h"

enum { SHIFT = 397 };

void twister_seed(twister *m, uint32_t seed)
{
    m->word[0] = seed;
    for (uint32_t i = 1; i < TWISTER_WORDS; i++)
        m->word[i] = 1812433253u * (m->word[i - 1] ^ (m->word[i - 1] >> 30)) + i;
    m->next = TWISTER_WORDS;
}

static void refill(twister *m)
{
    for (int i = 0; i < TWISTER_WORDS; i++) {
        uint32_t y = (m->word[i] & 0x80000000u) | (m->word[(i + 1) % TWISTER_WORDS] & 0x7fffffffu);
        m->word[i] = m->word[(i + SHIFT) % TWISTER_WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    m->next = 0;
}

uint32_t twister_draw(twister *m)
{
    if (m->next == TWISTER_WORDS) refill(m);
    uint32_t y = m->word[m->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t twister_draw_wide(twister *m)
{
    uint64_t high = twister_draw(m);
    return high << 32 | twister_draw(m);
}

uint64_t twister_draw_to(twister *m, uint64_t most)
{
    uint64_t mask = most, drawn;
    for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
    do drawn = (most <= UINT32_MAX ? twister_draw(m) : twister_draw_wide(m)) & mask;
    while (drawn > most);
    return drawn;
}
