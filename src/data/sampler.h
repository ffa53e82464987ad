// sampler.h -- which sample is the n-th of the run. A pure function, so that a position is one
// number and resuming is exact.
//
//   shuffle     every sample once an epoch; a keyed permutation (Feistel network with cycle
//   walking) in O(1) memory; depends on seed and epoch only sequential  sample n mod N torch what
//   DistributedSampler(shuffle=True, seed, drop_last=False) gives rank r of R as its k-th; O(N)
//   memory for the permutation
#ifndef TRIREME_DATA_SAMPLER_H
#define TRIREME_DATA_SAMPLER_H

#include "base/err.h"

#include <stdint.h>

typedef enum sample_order { ORDER_SHUFFLE, ORDER_SEQUENTIAL, ORDER_TORCH, ORDERS } sample_order;

typedef struct sampler sampler;
// samples: N > 0. rank and ranks are used by torch only.
status sampler_open(sample_order order, uint64_t samples, uint64_t seed, int rank, int ranks,
                    sampler **out, err *e);
void sampler_close(sampler *s); // NULL allowed

// Sample of position `at` of the global stream (shuffle, sequential): at / N is the epoch.
// For torch `at` must be one of this rank's: see sampler_at.
uint64_t sampler_sample(sampler *s, uint64_t at);

// The sample of step `step` (from 0), own sequence i of this rank (0 <= i < global_batch/ranks):
// shuffle and sequential take stream position step*G + rank*G/ranks + i; torch takes this rank's
// (step*G/ranks + i)-th index, epoch after epoch.
uint64_t sampler_at(sampler *s, uint64_t step, uint64_t global_batch, uint64_t i);
double sampler_epoch(const sampler *s, uint64_t step,
                     uint64_t global_batch); // epochs finished after `step` steps

#endif
