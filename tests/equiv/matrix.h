// matrix.h -- for tests: every way of training that Trireme has, as points of one table; and one
// point run in this process, with a thread for every rank, on a tiny model with weights drawn from
// the seed. What must be equal to what, and how equal, is said here once.
#ifndef TRIREME_TESTS_MATRIX_H
#define TRIREME_TESTS_MATRIX_H

#include "train/trainer.h"

// A point has one of the values of each dimension, by number. Value 0 is that of the reference.
typedef enum dim {
    DIM_MODEL,
    DIM_REPLICATE,
    DIM_SHARD,
    DIM_PP,
    DIM_TP,
    DIM_OUTER, // the policy over dp_replicate
    DIM_INNER, // over dp_shard
    DIM_SCHEDULE,
    DIM_MICROS,
    DIM_NO_SYNC,
    DIM_RESHARD,
    DIM_RECOMPUTE,
    DIM_TIER,
    DIM_PRECISION,
    DIMS
} dim;

typedef struct point {
    int v[DIMS];
} point;

enum { MATRIX_RANKS = 8, MATRIX_STEPS = 10, MATRIX_WEIGHTS = 1 << 15, MATRIX_NAME = 400 };

const char *matrix_dim(dim d);
int matrix_values(dim d);
const char *matrix_value(dim d, int v);
void matrix_print(const point *p, char out[MATRIX_NAME]);
// The reverse of matrix_print; what is not named is as in the reference. False: not understood.
bool matrix_parse(const char *name, point *out);

// Fits in 8 ranks, is legal (by the plan's and the pipeline's own checks), and no value that makes
// no difference to it (the policy of an axis of one rank) is other than 0.
bool matrix_legal(const point *p);
int matrix_ranks(const point *p);
// Policies, mesh, schedule, tiers, batch: what of a trainer's options a point says.
void matrix_options(const point *p, trainer_options *o);

// EXACT: losses and weights are those of the reference, bit for bit. CLOSE: sums are made in
// another order, hence within matrix_tolerance of it.
typedef enum nearness { MATRIX_EXACT, MATRIX_CLOSE } nearness;
nearness matrix_nearness(const point *p);
double matrix_tolerance(const point *p);
// ddp, one stage, everything on the device, nothing computed again; data-parallel size,
// micro-batches, tensor-parallel size and precision as in p.
point matrix_reference(const point *p);
// The same sequences on one rank, in one micro-batch.
point matrix_one_rank(const point *p, int64_t *micro_batch);

// ---- Running

// How a point is run, beyond what it is. Zeroed: on the cpu device, a sequence a micro-batch.
typedef struct matrix_run {
    int steps; // 0: MATRIX_STEPS
    int64_t micro_batch;
    bool late; // on the late device
    int late_order;
    const char *folder;                  // of the file tier
    int64_t patience_ms;                 // how long a rank waits for another; 0: for ever
    void (*opened)(device *d, int rank); // may replace d->ops until `closing`
    void (*closing)(device *d, int rank);
} matrix_run;

typedef struct outcome {
    status result;
    char error[256];
    double loss[MATRIX_STEPS], norm[MATRIX_STEPS];
    int64_t weights;
    float weight[MATRIX_WEIGHTS];
} outcome;

void matrix_execute(const point *p, const matrix_run *how, outcome *out);

typedef struct difference {
    bool same;            // losses and weights, every bit
    double loss, weights; // the largest relative ones; of weights, norm by norm of all
} difference;
difference matrix_compare(const outcome *a, const outcome *b);

#endif
