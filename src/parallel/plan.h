// plan.h -- what lives where: a row for every parameter, the buckets that travel together, which
// moves take them from one placement to another, and the exact bytes of every category on this
// rank. Built once by a pure function before step 0; printed by `trireme explain`.
//
// Weights, gradients and optimizer state each lie in one flat array, parameters in the order of
// blocks. How much of a parameter an array holds is its *level*: all of it, or this rank's part on
// one or both data-parallel axes, cut along dim 0 as torch.chunk and FSDP2 cut. Nothing is padded
// but the starts. A bucket is a run of whole blocks; where weights or gradients are not kept whole,
// a bucket is whole for a while in a slot, laid out as in the whole array.
#ifndef TRIREME_PARALLEL_PLAN_H
#define TRIREME_PARALLEL_PLAN_H

#include "base/dtype.h"
#include "base/text.h"
#include "comm/segment.h"
#include "parallel/mesh.h"
#include "parallel/policy.h"
#include "parallel/strategy.h"

#include <stdbool.h>

// Which axes a parameter is cut on: bit 0 inner (dp_shard), bit 1 outer (dp_replicate).
// GROUP: over small groups of neighbours on the inner axis, where weights are kept between forward
// and backward (reshard_after_forward: K).
typedef enum plan_layout {
    LAYOUT_FULL,
    LAYOUT_DP_SHARD,
    LAYOUT_DP_REPLICATE,
    LAYOUT_DP,
    LAYOUT_POST_FORWARD,
    LAYOUTS
} plan_layout;

// What the plan must know of a parameter (model/ gives it), of this tensor-parallel rank.
typedef struct plan_param {
    const char *name;
    int64_t rows, cols; // of this tensor-parallel part; cols 1 for a vector
    bool is_matrix;     // two or more dimensions
    bool tp_sharded;    // every tensor-parallel rank has its part
    bool tp_partial;    // whole on each, but their gradients are summands
} plan_param;

// Block `block` uses parameter `param`.
typedef struct plan_use {
    int param, block;
} plan_use;

typedef struct plan_row {
    const char *name;          // borrowed
    int64_t rows, cols, count; // of this tensor-parallel part
    int bucket;                // -1: on another stage
    int stage;                 // the first that has it
    int64_t offset[LAYOUTS];   // first element in an array of that level
    int64_t tied_grad;         // in the array of second gradients; -1: none
    int block, last_block;     // on this stage, the first and the last that use it
    bool decays;
    bool counted;    // this rank counts it in the gradient norm
    bool tp_partial; // gradients are summed over tp first
    bool tied;       // the first and the last stage both have it
} plan_row;

typedef struct plan_bucket {
    int first_row, rows;                    // in plan->order
    int64_t first[LAYOUTS], count[LAYOUTS]; // elements
    int first_block, last_block;            // that declare its parameters
} plan_bucket;

// What a rank sends over: an axis of the mesh, or one of these process groups.
enum {
    GROUP_POST_FORWARD =
        AXES,    // the small group that keeps weight shards between forward and backward
    GROUP_TIED,  // the first and the last stage, which share weights
    GROUP_DP,    // both data-parallel axes at once
    GROUP_WORLD, // all ranks
    PROCESS_GROUPS
};

// One step from a placement to another, on one axis, of every row: `segment` is by place in
// plan->order.
typedef struct plan_redistribution_step {
    int axis; // or GROUP_POST_FORWARD
    placement_collective collective;
    plan_layout from, to;  // what is held before and after
    comm_segment *segment; // offsets count from the bucket's start; NULL: the bucket is one run
} plan_redistribution_step;

enum { PLAN_REDISTRIBUTION_STEPS = 2 };
typedef struct plan_redistribution {
    int count;
    plan_redistribution_step step[PLAN_REDISTRIBUTION_STEPS];
    plan_layout layout; // of the array (or slot) that they work in, in place
} plan_redistribution;

enum { BUCKET_ALIGN = 16, FILE_ALIGN = 2048 }; // elements; a page of the smallest type

typedef enum plan_category {
    BYTES_WEIGHTS, // in the type that is computed in
    BYTES_MASTER,  // fp32 copies of weights of another type
    BYTES_GRADIENTS,
    BYTES_OPTIMIZER,
    BYTES_BUFFERS,     // gathered weights, gradients before their reduction, compression, tiers
    BYTES_ACTIVATIONS, // kept from forward to backward, and handed between blocks
    BYTES_WORKSPACE,   // values that die within one block
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

typedef struct plan {
    plan_options o;                          // without chunk_blocks, cost, use and the next
    bool *input_grad_in_place;               // [blocks]
    int coord[AXES];                         // this rank's coordinates
    policies policy;                         // as it is in effect
    plan_layout weight, gradient, optimizer; // of the three arrays
    bool weight_slots;                       // weights are whole only while they are used
    bool gradient_slots;                     // gradients likewise
    bool keeps_post_forward_shards; // of weights, among neighbours, from forward to backward
    int chunks, *chunk_first;       // part k of the model is blocks part[k] … part[k+1]-1
    int *chunk_of_block;            // [blocks]
    int rows, buckets;
    plan_row *row;    // by parameter
    int *order;       // the rows of this stage, as they lie in the arrays
    int local_rows;   // so many
    int *first_use;   // [blocks+1]: which of used_bucket are a block's
    int *used_bucket; // by block of this stage, in order: the buckets that it uses
    plan_bucket *bucket;
    int64_t elements[LAYOUTS]; // of each flat array
    int64_t tied_grads;        // elements of the array of second gradients
    plan_redistribution
        unshard; // weights: as kept -> whole (the first move takes parts from the array)
    plan_redistribution unshard_post_forward; // weights: as kept from forward to backward -> whole
    plan_redistribution reduce_micro_batch;   // gradients: summands -> as kept, every micro-batch
    plan_redistribution reduce_step;          // … -> as the optimizer needs them
    plan_redistribution all_gather_updated;   // weights: as the optimizer leaves them -> as kept
    uint64_t bytes[CATEGORIES];
    uint64_t tier_bytes[TIERS];        // state beyond the device, by where it is
    double sent_bytes[PROCESS_GROUPS]; // bytes that this rank sends in a step (traffic.h)
} plan;

// Elements of a row, relative to its whole.
typedef struct plan_shard {
    int64_t first, count;
} plan_shard;

// `params` in the order of blocks (of first use). Fills everything but the bytes of buffers,
// activations, work, data and below. E_USAGE where the options exclude each other.
status plan_make(const plan_options *o, const plan_param *params, int count, plan **out, err *e);
void plan_free(plan *p); // NULL allowed

// What the rank at coordinates `at` holds of a row at a level (torch.chunk along dim 0, inner axis
// first).
plan_shard plan_local_shard(const plan *p, const plan_row *r, plan_layout l, const int at[AXES]);
// Which part of the model block b belongs to, on which stage, and which of its chunks that is.
static inline int plan_part_of(const plan *p, int block)
{
    return p->chunk_of_block[block];
}
static inline int plan_stage_of(const plan *p, int block)
{
    return plan_part_of(p, block) % p->o.mesh.size[AXIS_PP];
}
// Is block b on this rank's stage?
bool plan_has_block(const plan *p, int block);
// The buckets of which a block of this stage uses a parameter, ascending; none of another stage's.
typedef struct plan_buckets {
    const int *items;
    int count;
} plan_buckets;
static inline plan_buckets plan_buckets_of(const plan *p, int block)
{
    const int first = p->first_use[block];
    return (plan_buckets){p->used_bucket + first, p->first_use[block + 1] - first};
}
// Does block b use a parameter of this bucket?
bool plan_block_uses(const plan *p, int block, int bucket);
// Are weights shared by the first and the last stage?
bool plan_ties_stages(const plan *p);
// Does the bucket have such weights?
bool plan_bucket_is_tied(const plan *p, int bucket);
uint64_t plan_bytes(const plan *p);
const char *plan_category_name(plan_category c);
const char *memory_tier_name(memory_tier t);
const char *plan_state_name(plan_state t);
void plan_print_policy(const plan *p, text *out); // "zero2", "ddp x zero3"
void plan_print(const plan *p, bool json, text *out);

#endif
