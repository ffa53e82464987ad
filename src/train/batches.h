// batches.h -- the micro-batches of a trainer. It owns the loader and the sampler, the batch slots
// on the device with their events, and the hash of the first step's batches. The schedule assigns
// the slots.
#ifndef TRIREME_TRAIN_BATCHES_H
#define TRIREME_TRAIN_BATCHES_H

#include "parallel/schedule.h"
#include "train/trainer.h"

typedef struct trainer_batches trainer_batches;

// A micro-batch on the device.
typedef struct trainer_batch {
    void *ids;    // [micro_batch, inputs] I32 of this rank's tokens, or vectors in the compute type
    void *labels; // [micro_batch, labels]
    int64_t padding; // the last samples of the micro-batch, which are padding
} trainer_batch;

// Counts memory, or allocates it and opens the loader.
status batches_allocate(trainer *t, err *e);
void batches_close(trainer *t);

// Whether this rank reads batches: its stage has the first or the last block.
bool batches_are_read(const trainer *t);
// The shape of a sample of model m: of its full sequence, of which a rank may have some tokens.
dataset_shape batches_sample_shape(const model *m);
// Starts a step: sets the count of samples to 0.
void batches_start_step(trainer *t);
// Samples of this step so far. Of the ranks that read the same batches one counts them; the others
// return 0.
int64_t batches_samples(const trainer *t);
// The hash of all batches of step 1; 0: this rank has read none.
uint64_t batches_first_hash(const trainer *t);

status run_load_batch(trainer *t, const schedule_instr *x, err *e);
// Copies this rank's tokens of `inputs` [micro_batch samples] (ids I32 or vectors F32) and of `labels`
// from the host into a slot, on stream `on`. The last `padding` samples are padding rows. This is for batches that the
// loader does not read. Nothing is copied on a rank that reads no batches.
void batches_upload(trainer *t, device_stream_kind on, int slot, const void *inputs,
                    const void *labels, int64_t padding);
// The slot's micro-batch.
trainer_batch batches_get(const trainer *t, int slot);
// Frees the slot after the work that the compute stream has so far, which is the last to read it.
void batches_free_slot(trainer *t, int slot);

#endif
