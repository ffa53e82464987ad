// exchange.h -- what ranks tell each other outside of a step's schedule: digests of weights, questions of
// rank 0, and pieces of state that are sent to it. It owns two numbers of memory for each rank, and
// the count of messages to rank 0. Everything goes over all ranks, on the compute stream.
#ifndef TRIREME_TRAIN_EXCHANGE_H
#define TRIREME_TRAIN_EXCHANGE_H

#include "train/trainer.h"

typedef struct trainer_exchange trainer_exchange;

// Counts memory, or allocates it.
status exchange_allocate(trainer *t, err *e);
void exchange_close(trainer *t);

// Every rank's digest of `bytes` bytes at x (NULL: 0) and its `number`: (*all)[2 * rank] and
// (*all)[2 * rank + 1], on the host until the next call. Collective over all ranks.
status exchange_digests(trainer *t, const void *x, int64_t bytes, uint64_t number,
                        const uint64_t **all, err *e);
// question[2] of rank 0, on every rank. Collective over all ranks.
status exchange_question(trainer *t, int64_t question[2], err *e);
// Sends `bytes` of device memory to rank 0 and waits until they are received.
status exchange_send(trainer *t, const void *x, size_t bytes, err *e);

#endif
