// batches.h -- the micro-batches of a trainer. It owns the loader and the sampler, the memory of
// every micro-batch of a step on the device, and the hash of the first step's batches.
#ifndef TRIREME_TRAIN_BATCHES_H
#define TRIREME_TRAIN_BATCHES_H

#include "base/text.h"
#include "graph/execute.h"
#include "parallel/schedule.h"
#include "train/trainer.h"

typedef struct trainer_batches trainer_batches;

// A micro-batch on the device.
typedef struct trainer_batch {
    void *ids;    // [micro_batch, inputs] I32 of this rank's tokens, or vectors in the compute type
    void *labels; // [micro_batch, labels], or the arrays of graph_loss_arrays
    // [micro_batch, tokens of this rank] the position at which the token's document begins; NULL: samples
    // are no packed documents
    int32_t *documents;
    // Device scalar: the rows that hold a sample, which are the first ones; the others are padding.
    // NULL: the labels say it, and padding rows have the label IGNORED_LABEL.
    int64_t *filled;
    graph_labelled_rows labelled; // the rows with a label
} trainer_batch;

// Counts memory, or allocates it and opens the loader.
status batches_allocate(trainer *t, err *e);
void batches_close(trainer *t);

// The shape of a sample of model m: of its full sequence, of which a rank may have some tokens.
dataset_shape batches_sample_shape(const model *m);
// Samples of the step, once its batches are loaded. Of the ranks that read the same batches one counts
// them; the others return 0.
int64_t batches_samples(const trainer *t);
// The hash of all batches of step 1; 0: this rank has read none.
uint64_t batches_first_hash(const trainer *t);

status run_load_batch(trainer *t, const schedule_instr *x, err *e);
// Copies this rank's tokens of `inputs` [micro_batch samples] (ids I32 or vectors F32; of packed documents
// ids and their starts, as dataset.h says) and of `labels` from the host into the memory of micro-batch `micro`, on stream `on`. The first `samples` samples are
// data, the others padding. This is for batches that the loader does not read. Nothing is copied on a
// rank that reads no batches.
void batches_upload(trainer *t, device_stream_kind on, int micro, const void *inputs,
                    const void *labels, int64_t samples);
// Appends " (samples 12, 40)": the numbers, in the data set, of this rank's samples of a micro-batch of the step that
// runs. Appends nothing where the data set determines their order itself.
status batches_name_samples(const trainer *t, int micro, text *out, err *e);
// Reads again the batches that were read ahead. No step has begun.
void batches_forget(trainer *t);
// A number of how many rows each micro-batch computes in the loss.
uint64_t batches_labelled_rows(const trainer *t);
// A micro-batch of the step; NULLs on a rank that reads no batches.
trainer_batch batches_get(const trainer *t, int micro);

#endif
