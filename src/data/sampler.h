// sampler.h -- which sample is the n-th of the run. A pure function, so that a position is one
// number and resuming is exact.
//
//   shuffle     every sample once an epoch, by a keyed permutation in O(1) memory that depends on
//               seed and epoch only
//   sequential  sample n mod N
//   torch       what PyTorch's DistributedSampler(shuffle=True, seed, drop_last=False) gives rank r
//               of R as its k-th, with set_epoch called every epoch; O(N) memory
#ifndef TRIREME_DATA_SAMPLER_H
#define TRIREME_DATA_SAMPLER_H

#include "base/err.h"

#include <stdint.h>

typedef enum sample_order { ORDER_SHUFFLE, ORDER_SEQUENTIAL, ORDER_TORCH, ORDERS } sample_order;

typedef struct sampler sampler;
// samples: N > 0; torch takes at most 2^32 - 1. rank and ranks are used by torch only.
// One thread at a time may use a sampler.
status sampler_open(sample_order order, uint64_t samples, uint64_t seed, int rank, int ranks,
                    sampler **out, err *e);
void sampler_close(sampler *s); // NULL allowed

// Sample of position `at` of the global stream. Shuffle and sequential: at / N is the epoch.
// Torch: the list that DistributedSampler deals out, epochs of ceil(N/R)*R positions (filled up
// from their own head), position at belongs to rank at % R. The first call of an epoch builds its
// permutation.
uint64_t sampler_sample(sampler *s, uint64_t at);

// The sample of step `step` (from 0), own sequence i of this rank (0 <= i < global_batch/ranks):
// shuffle and sequential take stream position step*G + rank*G/ranks + i; torch takes this rank's
// (step*G/ranks + i)-th index, epoch after epoch. G is a multiple of ranks.
uint64_t sampler_at(sampler *s, uint64_t step, uint64_t global_batch, uint64_t i);
double sampler_epoch(const sampler *s, uint64_t step,
                     uint64_t global_batch); // epochs finished after `step` steps

#endif
