// compress.h -- gradients that travel smaller than they are: in a shorter type (train.reduce_dtype,
// the fp16 and bf16 hooks) or as the product of two thin matrices (PowerSGD, Vogels et al. 2019;
// see powersgd.h), or both. Between a gradient that is a sum of summands and one that is reduced,
// whatever the policy.
//
// A shorter type is rounded to before each move of the plan and once by each sum. PowerSGD acts on
// the first moves of a gradient that sum at all (every micro-batch's where there are such, else the
// step's), over both data-parallel axes at once; what is left for later moves are the rows that it
// does not take. Its factors and errors are part of a checkpoint.
#ifndef TRIREME_PARALLEL_COMPRESS_H
#define TRIREME_PARALLEL_COMPRESS_H

#include "parallel/bucket.h"

typedef struct compressor compressor;

typedef struct compress_options {
    const plan *plan; // borrowed
    device *device;
    comm *comm;         // for memory that other ranks read
    comm *const *along; // by axis; borrowed
    comm *data;         // both data-parallel axes
    double scale;       // fp16: gradients are multiplied by it before, divided after; more than 0
    uint64_t seed;      // of PowerSGD's first factors; the same on every rank
} compress_options;

// The type that gradients travel in.
dtype compress_type(const plan *p);
// Bytes that compress_open will allocate.
uint64_t compress_bytes(const plan *p);
// *out is NULL where the plan wants no compression, or has nothing to sum over ranks.
status compress_open(const compress_options *o, compressor **out, err *e);
void compress_close(compressor *c); // NULL allowed

// As bucket_redistribute with `own` NULL and fp32, for &p->micro or &p->step: bucket b at `at`, memory of
// comm_alloc. Of parts that are not this rank's, `at` holds nothing of meaning afterwards. `step`
// counts finished optimizer steps. Collective over the axes of the moves, and over `data`.
status compress_redistribute(compressor *c, const plan_redistribution *m, int b, float *at,
                             uint64_t step, device_stream *on, err *e);

// PowerSGD's state, NULL with another hook; borrowed. NULL allowed.
struct powersgd *compress_powersgd(compressor *c);

// Forgets what PowerSGD has kept of earlier steps: for gradients that were not finite, or whose
// scale has changed. Between steps, on every rank alike. NULL allowed.
void compress_restart(compressor *c);

#endif
