// loader.h -- reads this rank's batches ahead on one background thread, into memory allocated at
// opening.
//
// The loader is a pure function of the step and micro-batch asked for; it only guesses that the
// next one follows. So seeking costs nothing and a position never has to be saved apart from the
// step number.
#ifndef TRIREME_DATA_LOADER_H
#define TRIREME_DATA_LOADER_H

#include "data/dataset.h"
#include "data/sampler.h"

typedef struct loader loader;

typedef struct loader_options {
    dataset *data;  // borrowed
    sampler *order; // borrowed; used by the loader's thread only from now on; NULL with read_own
    uint64_t global_batch;
    int64_t micro_batch,
        own_batch; // samples a forward pass; samples a step on this rank (a multiple of it)
    int rank, ranks;
    int depth;  // batches read ahead, >= 2
    void *host; // memory for the batches (loader_host_bytes), borrowed: e.g. pinned; NULL: the
                // loader allocates its own
} loader_options;

typedef struct loader_batch {
    const void *inputs; // [micro_batch, shape.inputs]
    const void *labels; // [micro_batch, shape.labels]
    int64_t samples;    // less than micro_batch where this rank's own data have ended; the others
                        // are blank: inputs and targets 0, label ids -100
    uint64_t first; // logical number in the global stream of its first sample: step*G + rank*own +
                    // micro*micro_batch
    uint64_t hash; // XXH3 of inputs and labels, for the check that no two ranks read the same data;
                   // 0 without any sample
} loader_batch;

size_t loader_host_bytes(const loader_options *o);
status loader_open(const loader_options *o, loader **out, err *e);
void loader_close(loader *l); // NULL allowed; stops the thread

// The batch of (step, micro), both from 0. Valid until loader_release of it; at most depth-1 may be
// held.
status loader_next(loader *l, uint64_t step, int64_t micro, loader_batch *out, err *e);
void loader_release(loader *l);                // the oldest batch held
double loader_waited_seconds(const loader *l); // time that loader_next had to wait, in all

#endif
