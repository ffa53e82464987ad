// matrix.h -- for tests: a table whose points are all ways of training that Trireme has. It says to
// which reference each point must be equal, and how closely. matrix_execute trains a tiny model at
// one point in this process, with a thread for every rank and weights drawn from the seed.
#ifndef TRIREME_TESTS_MATRIX_H
#define TRIREME_TESTS_MATRIX_H

#include "distant/distant_comm.h"
#include "train/trainer.h"

// A point has one value of each dimension, by number. Value 0 is the reference's.
typedef enum dim {
    DIM_MODEL,
    DIM_REPLICATE,
    DIM_SHARD,
    DIM_PP,
    DIM_CP,
    DIM_TP,
    DIM_OUTER, // the policy over dp_replicate
    DIM_INNER, // over dp_shard and cp
    DIM_SCHEDULE,
    DIM_MICROS,
    DIM_NO_SYNC,
    DIM_RESHARD,
    DIM_RECOMPUTE,
    DIM_TIER,
    DIM_PRECISION,
    DIM_GROUPS, // parameter groups
    DIM_SPLIT,  // micro-batches of the data-parallel ranks
    DIMS
} dim;

typedef struct point {
    int v[DIMS];
} point;

enum {
    MATRIX_RANKS = 8,
    MATRIX_STEPS = 4,
    MATRIX_WEIGHTS = 3 << 14,
    MATRIX_NAME = 400,
    MATRIX_GROUPS = 8
};

const char *matrix_dim(dim d);
int matrix_values(dim d);
const char *matrix_value(dim d, int v);
void matrix_print(const point *p, char out[MATRIX_NAME]);
// Reads what matrix_print wrote. Unnamed dimensions get value 0. Returns false for an invalid name.
bool matrix_parse(const char *name, point *out);

// Returns whether the point fits in 8 ranks and passes the checks of the plan and the pipeline. A
// dimension that has no effect (the policy of an axis of one rank) must also have value 0.
bool matrix_legal(const point *p);
// The same on a device with a memory of its own, where the host tier is swapped whatever the tier says.
bool matrix_legal_apart(const point *p);
int matrix_ranks(const point *p);
// Tokens of a sequence.
int64_t matrix_length(const point *p);
// Sets the trainer options that a point determines: policies, mesh, schedule, tiers, batch.
void matrix_options(const point *p, trainer_options *o);
// Fills `out` with the point's parameter groups, where they differ from *o. None: count 0.
param_groups matrix_groups(const point *p, const trainer_options *o,
                           param_group out[MATRIX_GROUPS]);

// The adapters of the point's model; NULL: none. They need its groups.
const model_lora *matrix_lora(const point *p);

// EXACT: losses and weights are bit-identical to the reference's. CLOSE: sums have another order,
// so losses and weights are within matrix_tolerance of the reference's.
typedef enum nearness { MATRIX_EXACT, MATRIX_CLOSE } nearness;
nearness matrix_nearness(const point *p);
double matrix_tolerance(const point *p);
// The reference of p: ddp, one stage, everything on the device, no recomputation. Model,
// data-parallel size, micro-batches, context-parallel and tensor-parallel size and precision are
// those of p, and so is which parameters are frozen or have settings of their own.
point matrix_reference(const point *p);
// The point that trains on the same sequences with one rank, in one micro-batch.
point matrix_one_rank(const point *p, int64_t *micro_batch);

// ---- Running

// How a point is run. Zeros mean: on the cpu device, one sequence in a micro-batch.
typedef struct matrix_run {
    int steps;                   // 0: MATRIX_STEPS
    int64_t micro_batch, length; // of sequences; length 0: that of the point
    int second_host;  // with `processes`: the first rank of a second host; 0: there is one host
    bool processes;   // every rank is a process, not a thread
    bool late;        // on the late device
    bool unkind;      // on the unkind device, over the toy communicator
    bool p2p;         // with `unkind`: several ranks use the communicator p2p
    bool cuda;        // on the GPUs of this machine, which ranks take in turn
    const char *comm; // the communicator of several ranks; NULL: auto
    int late_order;
    bool toy;                       // several ranks use the toy communicator
    const distant_options *distant; // wraps the communicator of each rank; NULL: as it is
    const char *folder;             // of the file tier
    int64_t patience_ms;            // longest wait of a rank for another one; 0: TEST_PATIENCE_MS
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
    bool same;      // losses and weights have the same bits
    double loss;    // the largest relative difference of a loss
    double norm;    // the largest relative difference of a gradient norm
    double weights; // norm of the difference of all weights by the norm of all weights
} difference;
difference matrix_compare(const outcome *a, const outcome *b);
// Whether the difference is allowed. Norms are never compared bit by bit: their summands are sums of
// shards.
bool matrix_allows(const difference *d, nearness n, double tolerance);

#endif
