// loader.h -- reads this rank's batches ahead on one background thread, into memory that is
// allocated at opening.
//
// A batch depends only on its step and micro-batch. The loader reads the following batches ahead as
// a guess. So a seek costs nothing, and the step number is all that a checkpoint has to save.
#ifndef TRIREME_DATA_LOADER_H
#define TRIREME_DATA_LOADER_H

#include "data/dataset.h"
#include "data/sampler.h"

typedef struct loader loader;

typedef struct loader_options {
    dataset *data;  // borrowed
    sampler *order; // borrowed; only the loader's thread uses it from now on; NULL with read_own
    uint64_t global_batch; // samples per step on all ranks
    int64_t micro_batch;   // samples per forward pass
    int64_t local_batch;   // samples per step on this rank, a multiple of micro_batch
    uint64_t first;        // of a step, the first sample of this rank
    int rank, ranks;
    int depth; // batches in the ring, >= 2
    // Borrowed memory for the batches, loader_host_bytes long, for example pinned; NULL: the loader
    // allocates it.
    void *host;
} loader_options;

typedef struct loader_batch {
    const void *inputs; // [micro_batch, shape.inputs]
    const void *labels; // [micro_batch, dataset_label_elements]
    // Samples in the batch. Fewer than micro_batch where read_own has ended; then the other rows are
    // padding rows: inputs and regression targets are 0, label ids are -100.
    int64_t samples;
    // Number of the first sample in the global stream:
    // step * global_batch + loader_options.first + micro * micro_batch
    uint64_t first;
    // XXH3-64 of inputs and labels, 0 for a batch without samples. The trainer compares it over
    // ranks, because no two ranks may read the same data.
    uint64_t hash;
} loader_batch;

size_t loader_host_bytes(const loader_options *o);
// Starts the thread. The owner calls loader_close. E_USAGE: the batch sizes do not fit together.
status loader_open(const loader_options *o, loader **out, err *e);
void loader_close(loader *l); // NULL allowed; stops the thread

// Waits for the batch of (step, micro), which both count from 0. The batch is valid until the
// loader_release that returns it; the caller may hold at most depth - 1 batches.
status loader_next(loader *l, uint64_t step, int64_t micro, loader_batch *out, err *e);
// Reads again the batches that it has read ahead. The caller holds none.
void loader_forget(loader *l);
void loader_release(loader *l);                // returns the oldest batch that the caller holds
double loader_waited_seconds(const loader *l); // total time that loader_next has waited

#endif
