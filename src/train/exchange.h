// exchange.h -- the messages between ranks outside of a step's schedule: digests of weights,
// shards of state for rank 0, and predictions. It owns memory for some numbers of
// each rank, the count of messages to rank 0, and on a device with memory of its own a buffer from which
// messages go on to the host. All collectives are over all ranks, on the compute stream.
#ifndef TRIREME_TRAIN_EXCHANGE_H
#define TRIREME_TRAIN_EXCHANGE_H

#include "train/trainer.h"

typedef struct trainer_exchange trainer_exchange;

// Counts memory, or allocates it.
status exchange_allocate(trainer *t, err *e);
void exchange_close(trainer *t);

// Each rank contributes this many numbers: one for each parameter group, and one more.
int exchange_numbers(const trainer *t);
// Sets this rank's number `index`, on the compute stream: to `number`, or to a digest of the `bytes`
// bytes of device memory at x (0 for NULL).
void exchange_set_number(trainer *t, int index, uint64_t number);
void exchange_set_digest(trainer *t, int index, const void *x, int64_t bytes);
// Gathers the numbers of all ranks: (*all)[rank * exchange_numbers(t) + index]. *all is on the host
// and valid until the next call. Collective over all ranks.
status exchange_gather(trainer *t, const uint64_t **all, err *e);
// Sends `bytes` of device memory to rank 0 and waits until they are received.
status exchange_send(trainer *t, const void *x, size_t bytes, err *e);
// Receives on rank 0 what rank `rank` sends with exchange_send, into any memory of the host.
status exchange_receive(trainer *t, void *host, size_t bytes, int rank, err *e);
// Copies `bytes` of any memory of the host from rank `root` to all ranks. Collective over all ranks.
status exchange_broadcast(trainer *t, void *host, size_t bytes, int root, err *e);

#endif
