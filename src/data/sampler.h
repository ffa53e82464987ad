// sampler.h -- which sample is the n-th of the run. It is a pure function, so a position is one
// number and resuming is exact.
//
//   shuffle      each sample once per epoch, in the order of a keyed permutation that depends only
//                on seed and epoch; O(1) memory
//   sequential   sample n mod N
//   torch        the samples that PyTorch's DistributedSampler(shuffle=True, seed, drop_last=False)
//                gives to each rank when set_epoch is called every epoch; O(N) memory
//   megatron     sample n mod N, as sequential: the dataset itself has its samples in the order of
//                Megatron-LM's GPTDataset (dataset_order_as_megatron)
#ifndef TRIREME_DATA_SAMPLER_H
#define TRIREME_DATA_SAMPLER_H

#include "base/err.h"

#include <stdint.h>

typedef enum sampler_order {
    ORDER_SHUFFLE,
    ORDER_SEQUENTIAL,
    ORDER_TORCH,
    ORDER_MEGATRON,
    ORDERS
} sampler_order;

typedef struct sampler sampler;
// `samples` is N > 0, at most 2^32 - 1 for torch. Only torch uses `rank` and `ranks`. One thread at
// a time may use a sampler.
status sampler_open(sampler_order order, uint64_t samples, uint64_t seed, int rank, int ranks,
                    sampler **out, err *e);
void sampler_close(sampler *s); // NULL allowed
// Sets where this rank's run of a step's sequences begins, from 0, where ranks have runs of unequal length
// (batch_split.h). Not for torch, which gives every rank equally many.
void sampler_begin_at(sampler *s, uint64_t first);

// The sample at a position of the global stream. For all orders but torch the epoch is
// position / N. For torch an epoch is the list that DistributedSampler deals out: ceil(N/R)*R
// positions, of which those beyond N repeat the first ones; the position belongs to rank
// position % R. The first call of an epoch builds its permutation.
uint64_t sampler_sample(sampler *s, uint64_t position);

// The i-th sample of this rank in step `step`, where 0 <= i < G/R for a global batch of G, a
// multiple of R. All orders but torch use stream position step*G + first + i, where first is rank*G/R or that of
// sampler_begin_at. Torch uses this
// rank's (step*G/R + i)-th sample, epoch after epoch.
uint64_t sampler_step_sample(sampler *s, uint64_t step, uint64_t global_batch, uint64_t i);

// The number of epochs that are finished after `step` steps.
double sampler_epoch(const sampler *s, uint64_t step, uint64_t global_batch);

#endif
