// packed.h -- frozen weights that are stored as packed NF4 rows (base/nf4.h): packs a full parameter into this rank's
// shards, and unpacks rows of shards. Called by the files that read and write state.
#ifndef TRIREME_TRAIN_PACKED_H
#define TRIREME_TRAIN_PACKED_H

#include "train/trainer.h"

// Quantises the full parameter p, each of its tensors by itself, and keeps the rows of this rank's shard. `full` is of the
// host's memory, F32; it is rounded to the compute type first. So the bytes are those that bitsandbytes gives the tensors
// of the folder in the compute type, on every mesh. Where the folder `from` (NULL: none) holds a tensor as bitsandbytes
// saves it, in rows that fit, its own bytes are kept.
status packed_write(trainer *t, int p, const safetensors *from, const float *full, err *e);
// Unpacks shard s of row r, which is of packed rows, into the shard that a rank computes with, `to`: the values that its
// blocks compute with.
void packed_to_rows(const trainer *t, const plan_row *r, plan_shard s, const void *packed,
                    float *to);
// Sets *same to whether this rank's shard unpacks to the values of `full`.
status packed_compare(trainer *t, int p, const float *full, bool *same, err *e);

#endif
