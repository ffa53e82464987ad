// strategy.h -- every choice of how a job is parallelized, except the sizes of the mesh. The job
// file's keys are read into a `strategy`; the job, the trainer's options and the plan's options
// each hold a copy of it. A new setting is a key in config/job_keys.c, a member here,
// and the code that reads the member.
//
// It deliberately does not know sizes of the model, the batch or the mesh.
#ifndef TRIREME_PARALLEL_STRATEGY_H
#define TRIREME_PARALLEL_STRATEGY_H

#include "base/dtype.h"
#include "base/mesh.h"
#include "base/recompute.h"
#include "parallel/memory_tier.h"
#include "parallel/pipeline.h"
#include "parallel/policy.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum plan_state {
    PLAN_WEIGHTS,
    PLAN_GRADIENTS,
    PLAN_OPTIMIZER_STATE,
    PLAN_STATES
} plan_state;

typedef enum strategy_no_sync {
    NO_SYNC_FALSE, // gradients are reduced after each micro-batch
    NO_SYNC_TRUE,  // gradients of a step's micro-batches are summed before they are reduced
    NO_SYNC_AUTO,  // strategy_resolve chooses one of the two
    NO_SYNC_MODES
} strategy_no_sync;

typedef enum strategy_hook_kind {
    HOOK_NONE,
    HOOK_FP16,
    HOOK_BF16,
    HOOK_POWERSGD,
    HOOKS
} strategy_hook_kind;

// The names in the job file, by enumerator; ended by NULL.
extern const char *const NO_SYNC_NAMES[NO_SYNC_MODES + 1];
extern const char *const HOOK_NAMES[HOOKS + 1];
extern const char *const RECOMPUTE_NAMES[RECOMPUTES + 1];

// Compression of the gradient reduction, as a DDP communication hook. The numbers are PowerSGD's.
typedef struct strategy_hook {
    strategy_hook_kind kind;
    int64_t rank;       // rank of the approximation
    int64_t start_step; // first step that compresses
    double min_compression_rate, epsilon;
    bool error_feedback, warm_start;
} strategy_hook;

typedef struct strategy_pipeline {
    pipeline_schedule schedule; // without effect on a mesh of one stage
    int virtual_stages;         // model chunks of each stage; without effect on one stage
    const int *chunk_blocks;    // blocks of each model chunk; NULL: the plan balances them by cost
    bool sends_wait;            // of the communicator: a send waits until its receive has begun
} strategy_pipeline;

typedef struct strategy_offload {
    memory_tier tier[PLAN_STATES];
    const char *path;     // folder of the file tier; NULL: none given
    int64_t block_bytes;  // of one request to a file
    int64_t depth;        // requests in flight
    int64_t slots;        // state slots of each state, at least 2; 0: 3
    bool updates_on_host; // optimizer steps of state on the host run there, where that is swapped
    // The host's memory and the device's are two. No key: the description of the device says it.
    bool host_is_apart;
} strategy_offload;

// Pointers are borrowed, but for those of a job, which owns them.
typedef struct strategy {
    policies dp;
    strategy_no_sync no_sync;
    // 1: free unsharded weights after forward; 0: keep them for backward; K: keep shards of them in
    // post-forward groups of K ranks.
    int reshard_after_forward;
    bool sequence_parallel; // without effect when tp is 1
    strategy_pipeline pipeline;
    int64_t bucket_bytes; // fp32 gradients in one bucket
    dtype reduce_dtype;   // type in which ranks sum gradients
    strategy_hook hook;
    strategy_offload offload;
    recompute_mode recompute;
    bool packs_shards; // of the communicator: shards of many segments travel through a workspace
    size_t comm_bytes; // that each communicator takes when it opens
    // True: a parameter on which the loss does not depend has gradient zero. False: it is an error.
    bool zero_unused_parameters;
} strategy;

// What no_sync means for these policies and for gradients that are swapped (memory_tier.h) or not: are
// the gradients of a step's micro-batches summed before they are reduced? `auto` means yes, unless a
// policy shards gradients over several ranks. Gradients that are swapped can be reduced only once a step,
// so it means yes for them.
bool strategy_no_sync_of(strategy_no_sync mode, const policies *dp, const policy_axes *over,
                         bool swapped, const mesh *m);
// The strategy with every choice that depends on the mesh: no_sync auto becomes true or false,
// and without pipeline stages the schedule is 1f1b with one chunk.
strategy strategy_resolve(const strategy *s, const mesh *m);

#endif
