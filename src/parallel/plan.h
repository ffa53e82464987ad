// plan.h -- what lives where: a row for every parameter, the buckets that are reduced together, and
// the exact bytes of every category on this rank. Built once by a pure function before step 0;
// printed by `trireme explain`.
//
// Weights, gradients and optimizer state each lie in one flat array, parameters in the order of
// blocks and at the same offset in all of them. A bucket is the range of one or more whole blocks,
// padded so that every rank's part of it is equal.
#ifndef TRIREME_PARALLEL_PLAN_H
#define TRIREME_PARALLEL_PLAN_H

#include "base/dtype.h"
#include "base/text.h"
#include "parallel/mesh.h"
#include "parallel/policy.h"

#include <stdbool.h>

// What the plan must know of a parameter (model/ gives it).
typedef struct plan_param {
    const char *name;
    int64_t count;
    int block;      // whose backward is the last to add to its gradient
    bool is_matrix; // two or more dimensions
} plan_param;

typedef struct plan_row {
    const char *name;     // borrowed
    int64_t first, count; // elements in the flat arrays
    int bucket;
    bool decays;
} plan_row;

typedef struct bucket_range {
    int64_t first, count; // count is a multiple of ranks * BUCKET_ALIGN
    int first_block, last_block;
} bucket_range;

enum { BUCKET_ALIGN = 16 };

typedef enum category {
    BYTES_WEIGHTS,     // fp32 master weights
    BYTES_LOW_WEIGHTS, // the copy that is computed in, when it has another type
    BYTES_GRADIENTS,
    BYTES_OPTIMIZER,
    BYTES_ACTIVATIONS, // kept from forward to backward, and handed between blocks
    BYTES_WORK,        // values that die within one block
    BYTES_DATA,        // batches on the device and read ahead on the host
    BYTES_KERNELS,     // scratch memory of the device's kernels
    BYTES_RUNTIME,     // the program itself: code, libraries, stacks
    CATEGORIES
} category;

typedef struct plan {
    mesh mesh;
    const policy *policy;
    int rows, buckets;
    plan_row *row;
    bucket_range *bucket;
    int64_t elements; // of each flat array
    int state_tensors;
    dtype compute;
    uint64_t bytes[CATEGORIES];
} plan;

typedef struct plan_options {
    mesh mesh;
    const policy *policy;
    int64_t bucket_bytes; // of fp32 gradients
    int state_tensors;    // optimizer state, fp32 numbers per weight
    dtype compute;
    bool decay_all;
} plan_options;

// `params` in the order of blocks (of first use). Fills everything but the bytes of activations,
// work, data and below.
status plan_make(const plan_options *o, const plan_param *params, int count, plan **out, err *e);
void plan_free(plan *p); // NULL allowed
uint64_t plan_bytes(const plan *p);
const char *category_name(category c);
void plan_print(const plan *p, bool json, text *out);

#endif
