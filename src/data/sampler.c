// sampler.c -- maps a position of the run to a sample number. The loader's thread calls it. It
// deliberately does not know what a sample is, nor micro-batches.
//
// Shuffle is a Feistel network over the smallest 4^k >= N values: each value has a left and a right
// part of k bits, so each round is a bijection. A result that is not below N goes through the network
// again until it is. There are at most 4N values, so that takes fewer than four passes on average.
#include "data/sampler.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "data/twister.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

enum { FEISTEL_ROUNDS = 8 };

struct sampler {
    sampler_order order;
    uint64_t samples, seed, rank, ranks;
    bool has_first;
    uint64_t first;        // of sampler_begin_at
    uint32_t *permutation; // [samples] torch: of `epoch`, once it is built
    uint64_t epoch;
    bool built;
};

status sampler_open(sampler_order order, uint64_t samples, uint64_t seed, int rank, int ranks,
                    sampler **out, err *e)
{
    status result = OK;
    sampler *s = NULL;
    if (samples == 0) return err_set(e, E_USAGE, "data: found no samples, valid is 1 or more");
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return err_set(e, E_INTERNAL, "sampler: rank %d of %d", rank, ranks);
    if (order == ORDER_TORCH && samples > UINT32_MAX)
        return err_set(e, E_USAGE,
                       "data.order: torch: found %" PRIu64 " samples, valid is at most %" PRIu32
                       ", larger sets need shuffle",
                       samples, UINT32_MAX);
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a sampler", e));
    *s = (sampler){.order = order,
                   .samples = samples,
                   .seed = seed,
                   .rank = (uint64_t)rank,
                   .ranks = (uint64_t)ranks};
    if (order == ORDER_TORCH)
        TRY(alloc_array(&s->permutation, samples, sizeof *s->permutation,
                        "the samples of data.order torch", e));
    *out = s;
    s = NULL;
done:
    sampler_close(s);
    return result;
}

void sampler_close(sampler *s)
{
    if (!s) return;
    free(s->permutation);
    free(s);
}

void sampler_begin_at(sampler *s, uint64_t first)
{
    s->has_first = true;
    s->first = first;
}

static uint64_t feistel(rng_key key, int width, uint64_t value)
{
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    uint64_t left = value >> width, right = value & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t word[4];
        rng_philox(key, round << 32 | right, word);
        uint64_t mixed = left ^ (word[0] & mask);
        left = right;
        right = mixed;
    }
    return left << width | right;
}

static uint64_t shuffle(const sampler *s, uint64_t epoch, uint64_t position)
{
    rng_key key = rng_key_make(s->seed, RNG_SHUFFLE, epoch, 0);
    int width = 1;
    while (width < 32 && (uint64_t)1 << (2 * width) < s->samples) width++;
    do position = feistel(key, width, position);
    while (position >= s->samples);
    return position;
}

// torch.randperm(N) of a CPU generator with seed + epoch. From 2^32/20 samples on, PyTorch draws 64
// bits so that the remainder is not biased, and uses the inside-out form of the shuffle.
static void torch_permutation(sampler *s, uint64_t epoch)
{
    twister m;
    uint32_t *p = s->permutation;
    uint64_t n = s->samples;
    twister_seed(&m, (uint32_t)(s->seed + epoch));
    bool narrow = n < UINT32_MAX / 20;
    for (uint64_t i = 0; i < n; i++) p[i] = (uint32_t)i;
    for (uint64_t i = 0; narrow && i + 1 < n; i++) {
        uint64_t j = i + twister_draw(&m) % (n - i);
        uint32_t saved = p[i];
        p[i] = p[j];
        p[j] = saved;
    }
    for (uint64_t i = 0; !narrow && i < n; i++) {
        uint64_t j = twister_draw_wide(&m) % (i + 1);
        p[i] = p[j];
        p[j] = (uint32_t)i;
    }
    s->epoch = epoch;
    s->built = true;
}

static uint64_t torch_epoch_positions(const sampler *s)
{
    return (s->samples + s->ranks - 1) / s->ranks * s->ranks;
}

uint64_t sampler_sample(sampler *s, uint64_t position)
{
    if (s->order == ORDER_SEQUENTIAL || s->order == ORDER_MEGATRON) return position % s->samples;
    if (s->order == ORDER_SHUFFLE) return shuffle(s, position / s->samples, position % s->samples);
    uint64_t positions = torch_epoch_positions(s), epoch = position / positions;
    if (!s->built || s->epoch != epoch) torch_permutation(s, epoch);
    return s->permutation[position % positions % s->samples];
}

uint64_t sampler_step_sample(sampler *s, uint64_t step, uint64_t global_batch, uint64_t i)
{
    uint64_t own = global_batch / s->ranks;
    if (s->order == ORDER_TORCH) return sampler_sample(s, (step * own + i) * s->ranks + s->rank);
    const uint64_t first = s->has_first ? s->first : s->rank * own;
    return sampler_sample(s, step * global_batch + first + i);
}

double sampler_epoch(const sampler *s, uint64_t step, uint64_t global_batch)
{
    uint64_t length = s->order == ORDER_TORCH ? torch_epoch_positions(s) : s->samples;
    return (double)step * (double)global_batch / (double)length;
}
