// plan.h -- what one rank stores: a row for every parameter, the buckets that are communicated
// together, the redistributions of each parameter group, and the exact bytes of every category. A
// pure function builds it once before step 0; `trireme explain` prints it. It knows no memory, no
// streams and no communicators.
//
// A *parameter group* is a set of parameters with one policy, one pair of process groups, one compute
// type, one set of memory tiers and one optimizer rule. It may be frozen. A job without groups has
// one. Weights, gradients and optimizer state are flat arrays. Each holds the parameters of this
// stage group by group, and within a group in the order of blocks. The *layout* of a group's part of
// an array says how much of each parameter it holds: the full parameter, or this rank's shard.
// Parameters are sharded along dim 0, into the shards that torch.chunk and FSDP2 make. Only starts
// are aligned; nothing else is padded. A *bucket* is a run of blocks of one group. Where an array
// holds shards, a bucket that is in use also lies unsharded in a slot, in the full layout.
#ifndef TRIREME_PARALLEL_PLAN_H
#define TRIREME_PARALLEL_PLAN_H

#include "base/dtype.h"
#include "base/mesh.h"
#include "base/text.h"
#include "comm/segment.h"
#include "parallel/policy.h"
#include "parallel/strategy.h"

#include <stdbool.h>

// Over which levels of its process groups a parameter is sharded (policy.h).
typedef enum plan_layout {
    LAYOUT_FULL,         // none
    LAYOUT_INNER,        // the inner level (bit 0)
    LAYOUT_OUTER,        // the outer level (bit 1)
    LAYOUT_BOTH,         // both: the outer level shards the inner level's shard
    LAYOUT_POST_FORWARD, // the post-forward group (reshard_after_forward: K), weights only
    LAYOUT_PACKED,       // none, and the rows are packed (STORAGE_NF4), weights only
    LAYOUTS
} plan_layout;

// The layout that is sharded over this level alone.
static inline plan_layout plan_level_layout(policy_level l)
{
    return (plan_layout)(1 << l);
}
// Is an array of this layout sharded over the level?
static inline bool plan_layout_shards(plan_layout l, policy_level level)
{
    return l <= LAYOUT_BOTH && ((unsigned)l >> level & 1);
}

// The flat arrays of a rank.
typedef enum plan_array {
    ARRAY_WEIGHTS,      // in the compute type of each group, or in packed rows
    ARRAY_POST_FORWARD, // weight shards that the post-forward group keeps; likewise
    ARRAY_GRADIENTS,    // F32, as are the following
    ARRAY_MASTER,       // master weights, where the compute type is not F32 or the host updates
    ARRAY_M,            // the optimizer's running averages, where the rule has them
    ARRAY_V,
    ARRAY_AVERAGE, // the moving average of the weights
    PLAN_ARRAYS
} plan_array;

// Rows of a parameter that adjacent ranks of the axes over which it is sharded have alike, each with a summand of the
// gradient: heads of keys and values that are fewer than the ranks. They are the last rows of the shard.
typedef struct plan_shared {
    int64_t first_row;
    int ranks; // 0 or 1: none
} plan_shared;

// A parameter as the model describes it, on this rank.
typedef struct plan_param {
    const char *name;
    int64_t rows, cols; // of the shard that the rank computes with; cols is 1 for a vector
    int group;          // its parameter group
    bool decays;        // weight decay applies
    mesh_axes sharded;  // the axes over which every rank computes with another shard
    mesh_axes partial;  // the axes over which every rank has it, but with a PARTIAL gradient
    plan_shared shared;
} plan_param;

// Bits that say what a pass over a block computes.
enum {
    COMPUTES_NOTHING = 0,
    COMPUTES_FORWARD = 1,
    COMPUTES_DGRAD = 2,
    COMPUTES_WGRAD = 4,
    COMPUTES = 8
};

// Block `block` uses parameter `param`.
typedef struct plan_use {
    int param, block;
    // The passes (COMPUTES_ bits) of the block that compute the gradient of this use; 0: any may, but of
    // the forward passes only that of the last block.
    unsigned writes;
} plan_use;

// A parameter in the plan. Rows of the plan are parameters; rows of a parameter are its dim 0.
typedef struct plan_row {
    const char *name;          // borrowed
    int64_t rows, cols, count; // of the shard that the rank computes with; count is rows * cols
    int bucket;                // -1: on another stage
    int stage;                 // the first stage that uses it
    int group;                 // its parameter group
    int64_t offset[LAYOUTS];   // its first element, from the start of its bucket in that layout
    int64_t tied_grad;         // its first element in the array of tied gradients; -1: none
    int64_t tied_shard;        // likewise, where only its shards are in that array
    unsigned writes;           // the passes of this stage that compute its gradient
    int block, last_block;     // the first and the last block of this stage that use it
    bool decays;               // weight decay applies
    int64_t counted;           // its first elements, which this rank counts in the gradient norm
    // The axes beside pp and those of its group: its gradient is first summed over the first set; every rank of
    // the second has the row.
    mesh_axes partial, copies;
    // Elements from `shared` on are summed over the shared group, after that; `count`: none.
    int64_t shared;
    bool tied; // the first and the last stage both use it
} plan_row;

typedef struct plan_bucket {
    int group;                      // the plan group of its parameters (see plan_group)
    int first_row, rows;            // plan->order[first_row … first_row+rows-1]
    int64_t count[LAYOUTS];         // elements in that layout
    size_t start[PLAN_ARRAYS];      // bytes before it in the array in memory
    size_t swap_start[PLAN_STATES]; // bytes before it on the tier, for state that is swapped
    int first_block, last_block;    // the blocks whose parameters it holds
    // The block whose use of the parameters is reduced by itself, in each micro-batch; -1: none.
    int second_use;
} plan_bucket;

// A process group is a set of axes without those of one rank (mesh_axes_in_use), or one of these.
enum {
    GROUP_POST_FORWARD = AXES_ALL + 1, // ranks that keep weight shards between forward and backward
    GROUP_TIED,                        // the first and the last stage, which share tied weights
    GROUP_WORLD,                       // all ranks
    GROUP_SHARED,                      // ranks that have the same heads of keys and values
    PROCESS_GROUPS
};

// One collective of a redistribution, for all buckets.
typedef struct plan_redistribution_step {
    int group; // process group: axes, or GROUP_POST_FORWARD
    int ranks; // of the process group
    placement_collective collective;
    plan_layout from, to; // layout before and after
    // [local_rows] in the order of plan->order, with offsets from the bucket's start. NULL: the
    // collective treats the bucket as one run.
    comm_segment *segment;
    // Of gradients with PowerSGD: likewise, without the rows that it factors. NULL: there is none.
    comm_segment *rest;
} plan_redistribution_step;

enum { PLAN_REDISTRIBUTION_STEPS = 2 };
typedef struct plan_redistribution {
    int count; // of steps; 0: nothing to do
    plan_redistribution_step step[PLAN_REDISTRIBUTION_STEPS];
    plan_layout layout; // of the array or slot in which the collectives work, in place
} plan_redistribution;

// Alignment of the sizes of buckets and of the starts of rows, in elements. In the smallest type,
// SWAP_ALIGN elements are BUCKET_START_BYTES, and FILE_ALIGN elements are a page.
enum { BUCKET_ALIGN = 16, SWAP_ALIGN = 128, FILE_ALIGN = 2048 };
// In an array a bucket starts at a multiple of so many bytes, whatever the element type is. A kernel or
// a collective then reads and writes it with the widest transfers that a device has.
enum { BUCKET_START_BYTES = 256 };

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

// What the plan needs to know of a parameter group.
typedef struct plan_group_options {
    policies dp;
    policy_axes over; // the process groups that the policies are for
    memory_tier tier[PLAN_STATES];
    dtype compute; // the type of its weights in use
    // STORAGE_NF4: its arrays of weights hold packed rows, also where they are sharded. Elements of these arrays are words of
    // 4 bytes, which travel as F32. The group is frozen, and all its parameters are matrices.
    storage_type storage;
    bool frozen; // no gradient, no optimizer state
    bool has_m, has_v, has_average;
} plan_group_options;

typedef struct plan_options {
    mesh mesh;
    int rank;                        // whose plan
    strategy strategy;               // plan_make resolves it (strategy_resolve)
    const plan_group_options *group; // [groups]
    int groups;                      // 1 or more
    int first_backward; // the first block with a backward; none before it has a trainable parameter
    int micros;         // of a step, on each data-parallel rank
    bool
        batches_everywhere; // every stage reads batches: its blocks need the documents of the tokens
    bool preferences;       // the step has the sums of preference losses (kernel_step_sums)
    int norm_groups;        // whose squares of gradients the step sums apart; 0: none
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
    // Weights: array -> LAYOUT_FULL in a slot. The first step reads shards from the array. Packed rows become LAYOUT_PACKED
    // in the slot, and are then unpacked.
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
    int *chunk;            // [blocks] the model chunk of a block
    int *first_use;        // [blocks+1] where a block's run of used_bucket begins
    int *used_bucket;      // the buckets that each block of this stage uses, ascending
    unsigned char *writes; // [uses] the passes of that block that add to gradients of that bucket
    bool *input_grad_in_place; // [blocks] see plan_options
} plan_blocks;

// A parameter group in the plan. Groups that differ in nothing that the plan knows share their
// buckets: these belong to the first of such groups, its *representative*.
typedef struct plan_group {
    plan_group_options o;
    int representative;            // the index of the first group with equal options
    mesh_axes axes[POLICY_LEVELS]; // the process group of each level; axes in use only
    policies policy;               // in effect: gradients PARTIAL under no_sync
    bool no_sync;                  // the gradients of a step are summed before they are reduced
    plan_layout weight, gradient, optimizer;
    bool swapped[PLAN_STATES];      // the state passes through state slots (memory_tier.h)
    bool updates_on_host;           // the host's processor updates the state where it lies
    bool weight_slots;              // blocks use weights from slots, where they lie unsharded
    bool gradient_slots;            // blocks write gradients to slots
    bool keeps_post_forward_shards; // of weights, in the post-forward group
    int first_bucket, buckets;      // 0 buckets where another group is the representative
    plan_redistributions redistribute;
} plan_group;

typedef struct plan {
    plan_options o;  // without chunk_blocks, cost, use, group and the next
    int coord[AXES]; // this rank's coordinates
    int groups;
    plan_group *group;   // [groups]
    mesh_axes kept_over; // the axes whose ranks the post-forward groups divide
    // Of the shared groups: the axes whose ranks they divide, and the ranks of each; 0: there are none.
    mesh_axes shared_over;
    int shared_ranks;
    int chunks;       // model chunks of all stages
    int *chunk_first; // [chunks+1] chunk k is blocks chunk_first[k] … [k+1]-1
    int rows, buckets;
    plan_row *row; // [rows] by parameter
    int *order;    // [local_rows] rows of this stage, as they lie in the arrays
    int local_rows;
    plan_bucket *bucket;                   // [buckets]
    size_t array_bytes[PLAN_ARRAYS];       // of the arrays in memory
    size_t swap_bytes[TIERS][PLAN_STATES]; // of swapped state, on its tier
    int64_t tied_grads;                    // elements of the array of tied gradients
    plan_blocks blocks;
    uint64_t bytes[CATEGORIES]; // of the device's memory; where the host's is the same, of both
    uint64_t host_bytes[CATEGORIES];   // of the host's memory, where that is another
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

// The group that a bucket belongs to.
static inline const plan_group *plan_group_of(const plan *p, int bucket)
{
    return &p->group[p->bucket[bucket].group];
}
// The axes of both levels: the ranks that have a shard or a replica of its parameters.
static inline mesh_axes plan_group_axes(const plan_group *g)
{
    return g->axes[LEVEL_INNER] | g->axes[LEVEL_OUTER];
}
// Does the state of this group pass through state slots to be used? A state that the group does not
// have, as plain sgd has none of the optimizer, does not.
static inline bool plan_is_swapped(const plan_group *g, plan_state what)
{
    return g->swapped[what];
}
// Does the update of this group read or write the state in a state slot?
static inline bool plan_updates_in_slot(const plan_group *g, plan_state what)
{
    return g->swapped[what] && !g->updates_on_host;
}
// The layout of a group's reduced gradients in memory. Where they are swapped, only the optimizer's
// shards come back.
static inline plan_layout plan_gradient_layout(const plan_group *g)
{
    return g->swapped[PLAN_GRADIENTS] ? g->optimizer : g->gradient;
}
// Does the host update one of the groups?
bool plan_updates_on_host(const plan *p);
// Does one of the groups keep this state on this tier?
bool plan_any_on_tier(const plan *p, plan_state what, memory_tier t);
// Does a rank of this group have the array, in an array of the device or on a tier?
bool plan_group_has(const plan_group *g, plan_array a);
// The layout of a group's part of an array, its element type, and the state that the array is of.
plan_layout plan_array_layout(const plan_group *g, plan_array a);
dtype plan_array_type(const plan_group *g, plan_array a);
plan_state plan_array_state(plan_array a);
// The bytes of a bucket in an array; 0 where its group has no such array.
size_t plan_bucket_bytes(const plan *p, int bucket, plan_array a);
// The bytes of a bucket of a swapped state on its tier; 0 where the state is not swapped.
size_t plan_bucket_swap_bytes(const plan *p, int bucket, plan_state what);
// The elements of an array of layout l that a row of parameter r takes: columns, or the words of a packed row.
int64_t plan_row_width(const plan *p, const plan_row *r, plan_layout l);
// The elements of a slot for the weights of a bucket, in the group's compute type: the unsharded weights, and behind them
// the gathered packed rows where these are sharded.
int64_t plan_weight_slot(const plan *p, int bucket);
// The bytes of such a slot before the gathered packed rows.
size_t plan_packed_start(const plan *p, int bucket);
// The entry of the job's list of groups that group g belongs to; the number of entries for the job's own settings. A group
// of packed weights stands before the group of the same entry that has the entry's other parameters.
int plan_group_entry(const plan *p, int group);
// The number of ranks of a process group.
int plan_group_ranks(const plan *p, int process_group);
// This rank's index in a process group.
int plan_group_index(const plan *p, int process_group);
// Lists the process groups that a rank opens (PROCESS_GROUPS at most); the same list on every rank.
int plan_process_groups(const plan *p, int out[PROCESS_GROUPS]);

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
// Does this stage read batches? The first block reads inputs, the last one labels, and where sequences are
// packed documents, every block reads their starts.
bool plan_reads_batches(const plan *p);
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
// The passes (COMPUTES_ bits) of a block of this stage that add to gradients of the bucket.
unsigned plan_block_writes(const plan *p, int block, int bucket);
// Are the gradients of this group reduced after each of several micro-batches?
bool plan_reduces_micro_batches(const plan *p, const plan_group *g);
// Are there weights that the first and the last stage share?
bool plan_ties_stages(const plan *p);
// Does the bucket have such weights?
bool plan_bucket_is_tied(const plan *p, int bucket);
uint64_t plan_bytes(const plan *p);              // of all categories, in the device's memory
uint64_t plan_host_bytes(const plan *p);         // likewise in the host's, where that is another
const char *plan_category_name(plan_category c); // "weights", …
const char *memory_tier_name(memory_tier t);
const char *plan_state_name(plan_state t);
void plan_print_policy(const plan *p, text *out); // "zero2", "ddp x zero3"
// Appends the plan as lines of text, or as one JSON object without a newline.
void plan_print(const plan *p, bool json, text *out);

#endif
