// powersgd_tensors.h -- PowerSGD's state as tensors of a checkpoint. Each rank that sums a gradient has
// errors of its own, which cannot be combined without changing bits. So a tensor's name says to which
// of these ranks and to which tensor-parallel rank it belongs.
#ifndef TRIREME_TRAIN_POWERSGD_TENSORS_H
#define TRIREME_TRAIN_POWERSGD_TENSORS_H

#include "store/safetensors.h"
#include "train/compress/powersgd.h"
#include "train/trainer.h"

typedef struct powersgd_tensor {
    char name[PARAM_NAME_BYTES + 64];
    powersgd_part part;
    int param, rank; // the rank that has it
    int64_t rows, cols;
} powersgd_tensor;

typedef struct powersgd_tensors {
    powersgd_tensor *items; // [count]
    int count;
} powersgd_tensors;

// All tensors of this job's mesh, the same on every rank; none with another hook. The caller frees
// out->items.
status powersgd_tensors_list(const trainer *t, powersgd_tensors *out, err *e);
// Whether there is state to save. The same on every rank.
bool powersgd_tensors_exist(const trainer *t);
// Takes this rank's state from a checkpoint. Where the checkpoint's tensors are not exactly those of this
// job's mesh, PowerSGD starts at zero as in a new run, and trainer_note says so.
status powersgd_tensors_load(trainer *t, const safetensors *state, err *e);

#endif
