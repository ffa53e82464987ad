// compress.h -- gradients that are sent compressed: in a shorter element type (train.reduce_dtype,
// the fp16 and bf16 hooks), as the product of two thin matrices (PowerSGD, see powersgd.h), or
// both. parallel/hook.h says which rows are compressed, and into how many elements.
//
// Gradients are rounded to the shorter type before each collective, and once by each sum. PowerSGD
// replaces the first redistribution of a group's gradients that communicates: the one after each
// micro-batch, or else the one at the end of the step. Its factors are summed over both levels of the
// group at once. Later redistributions send only the rows that PowerSGD does not factor. The factors
// and the errors of PowerSGD are part of a checkpoint.
#ifndef TRIREME_TRAIN_COMPRESS_H
#define TRIREME_TRAIN_COMPRESS_H

#include "comm/comm.h"
#include "device/kernel_needs.h"
#include "parallel/calls.h"

typedef struct compressor compressor;

typedef struct compress_options {
    // Borrowed.
    const plan *plan;
    device *device;
    // The group of all ranks; comm_alloc on it gives the memory that other ranks read.
    comm *comm;
    // fp16: gradients are multiplied by it before they are sent, and divided after. More than 0.
    double scale;
    // Seed of PowerSGD's first factors; the same on every rank.
    uint64_t seed;
} compress_options;

// Bytes that compress_open will allocate on a device whose kernels have these needs.
uint64_t compress_bytes(const plan *p, const kernel_needs *needs);
// *out is NULL when the plan compresses nothing or sums nothing over ranks.
status compress_open(const compress_options *o, compressor **out, err *e);
void compress_close(compressor *c); // NULL allowed

// Whether a compressed call takes place when `step` optimizer steps are finished.
bool compress_is_due(const compressor *c, const schedule_call *k, uint64_t step);
// Before a compressed call: gives `gradients` [bucket], F32 memory of comm_alloc, or PowerSGD's factors of them the
// form in which they are sent. Returns the memory in which the call works.
void *compress_begin(compressor *c, const schedule_call *k, int bucket, float *gradients,
                     uint64_t step, device_stream *on);
// After it: gives them their own form again. Only this rank's shards in `gradients` have meaning then.
void compress_end(compressor *c, const schedule_call *k, int bucket, float *gradients,
                  device_stream *on);

// PowerSGD's state, borrowed; NULL with another hook. NULL allowed.
struct powersgd *compress_powersgd(compressor *c);

// Called on every rank after each step; `step` counts finished optimizer steps, this one included.
// With `restart`, PowerSGD forgets the factors and errors of this and earlier steps: gradients were
// not finite, or the loss scale has changed. NULL allowed.
void compress_end_step(compressor *c, uint64_t step, bool restart);

#endif
