// plan.h -- what one rank stores: a row for every parameter, the buckets that are communicated
// together, the redistributions of each bucket, and the exact bytes of every category. A pure
// function builds it once before step 0; `trireme explain` prints it. It knows no memory, no
// streams and no communicators.
//
// Weights, gradients and optimizer state are three flat arrays. Each holds the parameters of this
// stage in the order of blocks. The *layout* of an array says how much of each parameter it holds:
// the full parameter, or this rank's shard on one or both data-parallel axes. Parameters are
// sharded along dim 0, into the shards that torch.chunk and FSDP2 make. Only starts are aligned;
// nothing else is padded. A *bucket* is a run of blocks. Where an array holds shards, a bucket that
// is in use also lies unsharded in a slot, in the layout of the full array.
#ifndef TRIREME_PARALLEL_PLAN_H
#define TRIREME_PARALLEL_PLAN_H

#include "base/dtype.h"
#include "base/text.h"
#include "comm/segment.h"
#include "parallel/mesh.h"
#include "parallel/policy.h"
#include "parallel/strategy.h"

#include <stdbool.h>

// Over which axes the parameters of a flat array are sharded.
typedef enum plan_layout {
    LAYOUT_FULL,         // none
    LAYOUT_DP_SHARD,     // dp_shard, the inner axis (bit 0)
    LAYOUT_DP_REPLICATE, // dp_replicate, the outer axis (bit 1)
    LAYOUT_DP,           // both: the outer axis shards the inner axis' shard
    LAYOUT_POST_FORWARD, // the post-forward group (reshard_after_forward: K), weights only
    LAYOUTS
} plan_layout;

// The two data-parallel axes, and the layout that is sharded over that axis alone.
typedef struct plan_dp_axis {
    axis axis;
    plan_layout layout;
} plan_dp_axis;

enum { PLAN_DP_AXES = 2 };
// In the order in which gradients are summed: inner axis first.
extern const plan_dp_axis PLAN_DP_AXIS[PLAN_DP_AXES];
// Is an array of this layout sharded over axis a?
bool plan_layout_shards(plan_layout l, axis a);

// A parameter as the model describes it, on this tensor-parallel rank.
typedef struct plan_param {
    const char *name;
    int64_t rows, cols; // of the tensor-parallel shard; cols is 1 for a vector
    bool is_matrix;     // two or more dimensions
    bool tp_sharded;    // every tensor-parallel rank has another shard
    bool tp_partial;    // replicated over tp, but the gradient of each tp rank is PARTIAL
} plan_param;

// Block `block` uses parameter `param`.
typedef struct plan_use {
    int param, block;
} plan_use;

// A parameter in the plan. Rows of the plan are parameters; rows of a parameter are its dim 0.
typedef struct plan_row {
    const char *name;          // borrowed
    int64_t rows, cols, count; // of the tensor-parallel shard; count is rows * cols
    int bucket;                // -1: on another stage
    int stage;                 // the first stage that uses it
    int64_t offset[LAYOUTS];   // its first element in an array of that layout
    int64_t tied_grad;         // its first element in the array of tied gradients; -1: none
    int block, last_block;     // the first and the last block of this stage that use it
    bool decays;               // weight decay applies
    bool counted;              // this rank counts it in the gradient norm
    bool tp_partial;           // its gradient is first summed over tp
    bool tied;                 // the first and the last stage both use it
} plan_row;

typedef struct plan_bucket {
    int first_row, rows;                    // plan->order[first_row … first_row+rows-1]
    int64_t first[LAYOUTS], count[LAYOUTS]; // elements in an array of that layout
    int first_block, last_block;            // the blocks whose parameters it holds
} plan_bucket;

// A process group is an axis of the mesh or one of these.
enum {
    GROUP_POST_FORWARD = AXES, // ranks that keep weight shards between forward and backward
    GROUP_TIED,                // the first and the last stage, which share tied weights
    GROUP_DP,                  // both data-parallel axes flattened
    GROUP_WORLD,               // all ranks
    PROCESS_GROUPS
};

// One collective of a redistribution, for all buckets.
typedef struct plan_redistribution_step {
    int axis; // or GROUP_POST_FORWARD
    placement_collective collective;
    plan_layout from, to; // layout before and after
    // [local_rows] in the order of plan->order, with offsets from the bucket's start. NULL: the
    // collective treats the bucket as one run.
    comm_segment *segment;
} plan_redistribution_step;

enum { PLAN_REDISTRIBUTION_STEPS = 2 };
typedef struct plan_redistribution {
    int count; // of steps; 0: nothing to do
    plan_redistribution_step step[PLAN_REDISTRIBUTION_STEPS];
    plan_layout layout; // of the array or slot in which the collectives work, in place
} plan_redistribution;

// Alignment of buckets and rows, in elements. FILE_ALIGN elements of the smallest type are a page.
enum { BUCKET_ALIGN = 16, FILE_ALIGN = 2048 };

typedef enum plan_category {
    BYTES_WEIGHTS,     // in the compute type
    BYTES_MASTER,      // fp32 master weights, where the compute type is another
    BYTES_GRADIENTS,   // fp32
    BYTES_OPTIMIZER,   // optimizer state
    BYTES_BUFFERS,     // unsharded weights, unreduced gradients, compression, tiers
    BYTES_ACTIVATIONS, // saved for backward, and activations and gradients between blocks
    BYTES_WORKSPACE,   // values that live within one block
    BYTES_DATA,        // batches on the device and read ahead on the host
    BYTES_KERNELS,     // tables and sums of the trainer's kernels
    BYTES_RUNTIME,     // measured, not planned: code, libraries, stacks, scratch of the device
    CATEGORIES
} plan_category;

typedef struct plan_options {
    mesh mesh;
    int rank;          // whose plan
    strategy strategy; // plan_make resolves it (strategy_resolve)
    int state_tensors; // optimizer state, fp32 numbers per weight
    dtype compute;
    bool decay_all;
    int micros; // of a step, on each data-parallel rank
    // [blocks] the input gradient of the block replaces its output gradient in memory; NULL: that of
    // no block
    const bool *input_grad_in_place;
    const double *cost; // per block
    int blocks;
    const plan_use *use; // which block uses which parameter, in any order
    int uses;
} plan_options;

// How weights and gradients go from one layout to another.
typedef struct plan_redistributions {
    // Weights: array -> LAYOUT_FULL in a slot. The first step reads shards from the array.
    plan_redistribution unshard;
    // Weights: LAYOUT_POST_FORWARD -> LAYOUT_FULL in a slot.
    plan_redistribution unshard_post_forward;
    // Gradients of each micro-batch: PARTIAL -> the policy's gradient placement.
    plan_redistribution reduce_micro_batch;
    // Gradients of the step: that placement -> the layout of the optimizer state.
    plan_redistribution reduce_step;
    // Updated weights: the layout of the optimizer state -> the layout of the weights.
    plan_redistribution all_gather_updated;
} plan_redistributions;

// What the plan knows of blocks.
typedef struct plan_blocks {
    int *chunk;                // [blocks] the model chunk of a block
    int *first_use;            // [blocks+1] where a block's run of used_bucket begins
    int *used_bucket;          // the buckets that each block of this stage uses, ascending
    bool *input_grad_in_place; // [blocks] see plan_options
} plan_blocks;

typedef struct plan {
    plan_options o;                          // without chunk_blocks, cost, use and the next
    int coord[AXES];                         // this rank's coordinates
    policies policy;                         // in effect: gradients PARTIAL under no_sync
    plan_layout weight, gradient, optimizer; // of the three arrays
    bool weight_slots;              // blocks use weights from slots, where they lie unsharded
    bool gradient_slots;            // blocks write gradients to slots
    bool keeps_post_forward_shards; // of weights, in the post-forward group
    int chunks;                     // model chunks of all stages
    int *chunk_first;               // [chunks+1] chunk k is blocks chunk_first[k] … [k+1]-1
    int rows, buckets;
    plan_row *row; // [rows] by parameter
    int *order;    // [local_rows] rows of this stage, as they lie in the arrays
    int local_rows;
    plan_bucket *bucket;       // [buckets]
    int64_t elements[LAYOUTS]; // of a flat array of that layout
    int64_t tied_grads;        // elements of the array of tied gradients
    plan_redistributions redistribute;
    plan_blocks blocks;
    uint64_t bytes[CATEGORIES];
    uint64_t tier_bytes[TIERS];        // state beyond the device, by tier
    double sent_bytes[PROCESS_GROUPS]; // bytes that this rank sends in a step (traffic.h)
} plan;

// A run of elements of a row, counted from the row's first element.
typedef struct plan_shard {
    int64_t first, count;
} plan_shard;

// `params` come in the order of the blocks that first use them. The plan borrows their names. Fills
// everything but the bytes of buffers, activations, workspace, data, kernels and runtime, and
// sent_bytes. E_USAGE where the options exclude each other.
status plan_make(const plan_options *o, const plan_param *params, int count, plan **out, err *e);
void plan_free(plan *p); // NULL allowed

// The shard of a row that the rank at these coordinates has in an array of layout l.
plan_shard plan_local_shard(const plan *p, const plan_row *r, plan_layout l, const int coord[AXES]);
// The model chunk of block b, and its pipeline stage.
static inline int plan_chunk_of(const plan *p, int block)
{
    return p->blocks.chunk[block];
}
static inline int plan_stage_of(const plan *p, int block)
{
    return plan_chunk_of(p, block) % p->o.mesh.size[AXIS_PP];
}
// Is the block on this rank's stage?
bool plan_has_block(const plan *p, int block);
// The buckets that hold the parameters of a block, ascending. Empty for a block of another stage.
// Borrowed from the plan.
typedef struct plan_buckets {
    const int *items;
    int count;
} plan_buckets;
static inline plan_buckets plan_buckets_of(const plan *p, int block)
{
    const int first = p->blocks.first_use[block];
    return (plan_buckets){p->blocks.used_bucket + first, p->blocks.first_use[block + 1] - first};
}
// Does the block use a parameter of this bucket?
bool plan_block_uses(const plan *p, int block, int bucket);
// Are there weights that the first and the last stage share?
bool plan_ties_stages(const plan *p);
// Does the bucket have such weights?
bool plan_bucket_is_tied(const plan *p, int bucket);
uint64_t plan_bytes(const plan *p);              // of all categories
const char *plan_category_name(plan_category c); // "weights", …
const char *memory_tier_name(memory_tier t);
const char *plan_state_name(plan_state t);
void plan_print_policy(const plan *p, text *out); // "zero2", "ddp x zero3"
// Appends the plan as lines of text, or as one JSON object without a newline.
void plan_print(const plan *p, bool json, text *out);

#endif
