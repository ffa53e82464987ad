// ref_reduce.c -- reference of the sum of squares, for the gradient norm, and of the digest of a
// tensor, for the comparison of replicas.
#include "device/cpu/ref/ref.h"

#include <string.h>

static void add_squares(const kernel_sum_squares_args *p, int64_t first, int64_t count)
{
    double sum = 0;
    for (int64_t i = first; i < first + count; i++) {
        double v = ref_load(p->x, i, p->type);
        sum += v * v;
    }
    *p->sum += sum;
}

void ref_sum_squares(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_sum_squares_args *p = args;
    if (!p->segment) add_squares(p, 0, p->count);
    for (int64_t s = 0; p->segment && s < p->segments; s++)
        add_squares(p, p->segment[s].src, p->segment[s].count);
}

static uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void ref_digest(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_digest_args *p = args;
    uint64_t sum = 0;
    for (int64_t offset = 0; offset < p->bytes; offset += 4) {
        uint32_t word = 0;
        size_t left = (size_t)(p->bytes - offset);
        memcpy(&word, (const unsigned char *)p->x + offset, left < 4 ? left : 4);
        sum += mix64(word | (p->index0 + (uint64_t)offset / 4) << 32);
    }
    *p->digest += sum;
}
