// twister.h -- MT19937 (Matsumoto and Nishimura, 1998), the random numbers of PyTorch's randperm on CPUs and of numpy's
// RandomState.
#ifndef TRIREME_DATA_TWISTER_H
#define TRIREME_DATA_TWISTER_H

#include <stdint.h>

enum { TWISTER_WORDS = 624 };

typedef struct twister {
    uint32_t word[TWISTER_WORDS];
    int next;
} twister;

void twister_seed(twister *m, uint32_t seed);
uint32_t twister_draw(twister *m);
uint64_t twister_draw_wide(twister *m); // 64 bits, the upper half first
// A number in 0 … most as RandomState draws it: masked draws until one is not above `most`.
uint64_t twister_draw_to(twister *m, uint64_t most);

#endif
