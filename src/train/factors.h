// factors.h -- PowerSGD's state as tensors of a checkpoint, and back. Each data-parallel rank has
// errors of its own, which cannot be put together without changing bits: a tensor is named by the
// data-parallel and the tensor-parallel rank that it belongs to.
#ifndef TRIREME_TRAIN_FACTORS_H
#define TRIREME_TRAIN_FACTORS_H

#include "train/powersgd.h"
#include "train/state.h"

typedef struct factor {
    char name[PARAM_NAME_BYTES + 64];
    powersgd_part part;
    int param, rank; // the rank whose it is
    int64_t rows, cols;
} factor;

typedef struct factors {
    factor *at;
    int count;
} factors;

// All tensors of this job's mesh, the same on every rank; none with another hook. The caller frees
// out->at.
status factors_list(const trainer *t, factors *out, err *e);
// Has the trainer anything to save? The same on every rank.
bool factors_carried(const trainer *t);
// One tensor, into out of rank 0 (NULL elsewhere). Collective over the comm.
status factor_read(trainer *t, const factor *f, float *out, err *e);
// As trainer_ask_state, for the others in trainer_serve.
status trainer_ask_factor(trainer *t, const factors *all, int number, float *out, err *e);
// Takes this rank's from a checkpoint. Where it has not exactly those of this job's mesh, all start
// at zero, as in a new run, and trainer_note says so.
status factors_load(trainer *t, const safetensors *state, err *e);

#endif
