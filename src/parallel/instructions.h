// instructions.h -- the table of instructions. The row of a kind has everything that more than one
// file needs to know about it.
//
// schedule.c makes instructions. verify.c, simulate.c, replay.c, traffic.c, draw.c and the printer
// read the rows and name no kind; train/step.c executes each kind on the stream of its row. A row
// describes an instruction by its effects on resources. A resource is a set of slots, which the
// schedule assigns, or of results, which exist once they are written. The table knows no device and
// no communicator.
#ifndef TRIREME_PARALLEL_INSTRUCTIONS_H
#define TRIREME_PARALLEL_INSTRUCTIONS_H

#include "device/device.h"
#include "parallel/schedule.h"

// ---- Resources

// What identifies a value of a resource.
typedef enum instr_owner {
    OWNER_STEP,   // the step has one
    OWNER_MICRO,  // a micro-batch
    OWNER_BUCKET, // a bucket of this stage
    OWNER_PASS,   // a block of a micro-batch
} instr_owner;

// The first ones are slots: memory that holds the value of one owner at a time. The others are
// results: they need no memory of their own, or memory that no other value ever takes.
typedef enum instr_resource {
    RES_ACT_SLOT,      // saved activations, by chunk
    RES_WGRAD_SLOT,    // what dgrad saves for wgrad, by chunk
    RES_ACT_GRAD_SLOT, // activation gradients between blocks and stages
    RES_WEIGHT_SLOT,   // unsharded weights
    RES_GRAD_SLOT,     // full gradients before their reduction
    RES_STATE_SLOT,    // PLAN_STATES resources: weights, gradients, optimizer that are swapped
    RES_SLOTS = RES_STATE_SLOT + PLAN_STATES,
    RES_BATCH = RES_SLOTS, // inputs and labels of a micro-batch, on the device
    RES_STEP,              // the numbers of the step, on the device
    RES_OUTPUT,            // the output of a block
    RES_INPUT_GRAD,        // the gradient of the input of a block
    RES_WEIGHT_GRAD,       // the gradients of the weights of a block
    RES_GRAD_SUM,          // gradients of a bucket on this rank, as far as they are computed
    RES_POST_FORWARD,      // local shard of a bucket in the post-forward group
    RES_TIED_SUM,          // gradients of tied weights, summed over the first and last stage
    RES_REDUCED_MICRO,     // gradients of some micro-batches, reduced
    RES_REDUCED,           // gradients of the step, reduced
    RES_AGREED,            // loss, gradient norm and finite flag, equal on all ranks
    RES_UPDATED,           // updated weights, as the optimizer leaves them
    RES_GATHERED,          // updated weights, on every rank that stores them
    RESOURCES
} instr_resource;

typedef struct instr_resource_row {
    instr_owner owner;
    const char *slot;             // "weight slot"; NULL for results
    const char *value;            // "the weights of", before the owner
    const char *missing;          // "are not unsharded", after it
    const char *present;          // "are unsharded already"
    bool by_chunk;                // every chunk of the stage has slots of its own
    bool due[PASS_EVAL + 1];      // the owners of this stage have it at the end of such a list
    bool outlives[PASS_EVAL + 1]; // slots may be taken at the end of such a list
} instr_resource_row;

const instr_resource_row *instr_resource_row_of(instr_resource r);
// How many owners a resource has on the stage of this plan. OWNER_PASS counts all blocks.
int instr_owners(const plan *p, instr_resource r);
// How many groups of slots a resource has (1, or one a chunk), and how many slots are in a group.
int instr_slot_groups(const plan *p, instr_resource r);
int instr_slot_count(const schedule *s, instr_resource r, int group);

// ---- Effects

typedef enum instr_access {
    ACCESS_END,      // no effect: follows the last one of a row
    ACCESS_READ,     // the value must be there
    ACCESS_MODIFY,   // the slot must hold the value; a result is there afterwards, if not before
    ACCESS_WRITE,    // the result must not be there yet, and is there afterwards
    ACCESS_ALLOCATE, // the slot must be free, and holds the owner's value afterwards
    ACCESS_FREE,     // the slot must hold the owner's value, and is free afterwards
    ACCESS_PRECEDE,  // the value must not be there yet
} instr_access;

// Which owners of the resource an effect is about.
typedef enum instr_whose {
    OF_THIS,         // the instruction's own micro-batch, block or bucket
    OF_BLOCK_BEFORE, // the same micro-batch, the block before
    OF_BLOCK_AFTER,  // the same micro-batch, the block after
    OF_ITS_BUCKETS,  // every bucket that the block uses
    OF_ALL_BUCKETS,
    OF_ALL_MICROS,
} instr_whose;

// Which member of the instruction names the slot of an effect.
typedef enum instr_where {
    IN_RESULT,     // none: the resource has no slots
    IN_SLOT,       // slot
    IN_WGRAD_SLOT, // wgrad_slot
    IN_GRAD_IN,    // grad_in
    IN_GRAD_OUT,   // grad_out
    IN_STATE,      // state[], of the resource's state
    IN_ANY_SLOT,   // none: whichever slot holds the owner
} instr_where;

// Whether an effect takes place, which depends on the plan and on members of the instruction.
// Conditions on weights, gradients and state are those of the group of the bucket in question.
typedef enum instr_when {
    NEVER,
    ALWAYS,
    WHEN_HAS_BLOCK_BEFORE,     // the block is not the first of the model
    WHEN_HAS_BLOCK_AFTER,      // the block is not the last of the model
    WHEN_HAS_INPUT_GRAD,       // the backward of the block computes the gradient of its input
    WHEN_HAS_NO_BACKWARD,      // training, and the block has no backward
    WHEN_ENDS_BLOCK_BEFORE,    // training, and the block before, in this chunk, has no backward
    WHEN_TRAINING,             // not in an evaluation
    WHEN_STAGE_READS_BATCHES,  // the stage has the first or the last block of the model
    WHEN_INPUT_IS_LOCAL,       // no message brought the input of the block
    WHEN_OUTPUT_GRAD_IS_LOCAL, // no message brought the gradient of its output
    WHEN_SENDS_INPUT_GRAD,     // a message sends the gradient of its input
    WHEN_SPLIT_BACKWARD,       // the pipeline schedule runs dgrad and wgrad as two instructions
    WHEN_FUSED_BACKWARD,
    WHEN_INPUT_GRAD_IN_PLACE, // the gradient of the input replaces that of the output
    WHEN_INPUT_GRAD_APART,    // the gradient of the input needs another slot
    WHEN_WEIGHT_SLOTS,        // weights are full only while a slot holds them
    WHEN_TRAINS,              // the bucket is not frozen
    WHEN_ADDS_TO_GRADIENTS,   // training, and the pass computes gradients of the bucket
    WHEN_ADDS_IN_SLOT,        // likewise, and they are full only while a slot holds them
    WHEN_IN_GRAD_SLOT,        // gradients of the bucket are in a gradient slot
    WHEN_NOT_IN_GRAD_SLOT,    // only reduced shards remain, although the plan has gradient slots
    WHEN_FULL,                // `full` of the instruction
    WHEN_SHARD,               // not `full`
    WHEN_POST_FORWARD,
    WHEN_UNSHARDS_SWAPPED, // weights are swapped in, not kept by the post-forward group
    WHEN_WRITES_UPDATED,   // `what` is state that the optimizer updates
    WHEN_LAST,
    WHEN_NOT_LAST,
    WHEN_LAST_OF_TIED,     // the last reduction of a bucket with tied weights
    WHEN_SWAPPED,          // the resource's state is swapped
    WHEN_UPDATED_IN_SLOT,  // the update has the resource's state in a slot
    WHEN_SWAPPED_IN,       // likewise, and its old value is needed
    WHEN_ONLY_SWAPPED_OUT, // likewise, and its old value is not needed
    WHEN_ON_HOST,          // `on_host` of the instruction
    WHEN_WITH_NEXT,        // `with_next` of the instruction
    WHEN_MOVES_FILE,       // the state `what` of the bucket is in a file
    WHEN_USES_FILE,        // a state slot of the instruction holds state of a file
    WHEN_LOW_RANK,         // the communication hook is powersgd
    INSTR_WHENS
} instr_when;

typedef struct instr_effect {
    instr_access access;
    // RES_STATE_SLOT with IN_SLOT means the slots of the instruction's `what`.
    instr_resource resource;
    instr_whose whose;
    instr_where where;
    instr_when when;
} instr_effect;

enum { INSTR_EFFECTS = 18, INSTR_REASONS = 2 };

// ---- Rows

// The subject of an instruction, which determines what its `micro` and `index` mean.
typedef enum instr_subject { ABOUT_STEP, ABOUT_MICRO, ABOUT_BLOCK, ABOUT_BUCKET } instr_subject;

// Messages of one channel arrive in the order in which they were sent.
typedef enum instr_channel { CHANNEL_ACTIVATIONS, CHANNEL_GRADIENTS, CHANNELS } instr_channel;

// Which other stages an instruction meets.
typedef enum instr_meeting {
    MEETS_NOBODY,
    MEETS_RECEIVER, // it sends a message
    MEETS_SENDER,   // it waits for a message
    MEETS_ENDS,     // the first and the last stage
    MEETS_ALL_STAGES,
} instr_meeting;

typedef struct instr_peers {
    instr_meeting meeting;
    instr_channel channel; // of a message
    int stage_step; // of a message: 1 to or from the next stage, -1 to or from the previous one
} instr_peers;

// What an instruction sends to other ranks.
typedef enum instr_payload {
    SENDS_NOTHING,
    SENDS_PASS,            // the values that the block's pass sums over tp
    SENDS_OUTPUT,          // the output of the block
    SENDS_INPUT_GRAD,      // the input gradient of the block
    SENDS_WEIGHTS,         // the weights of the bucket, for a pass
    SENDS_UPDATED_WEIGHTS, // the updated weights of the bucket
    SENDS_GRADIENTS,       // the gradients of the bucket
    SENDS_TIED_GRADIENTS,  // the tied gradients of the bucket
    SENDS_AGREED,          // loss, norm, finite flag
    PAYLOADS
} instr_payload;

// The text that follows the name in the printed line of an instruction. {micro}, {index}, {slot},
// {peer} and {what} are replaced by these members.
typedef struct instr_line {
    const char *text;
    instr_when when; // when `addition` follows; it may depend only on members of the instruction
    const char *addition;
} instr_line;

// Whether the host does more for an instruction than to issue work, so that a device which records issued
// work and replays it cannot do without the host (capture.h).
typedef struct instr_host {
    instr_when when;
    const char *why; // "the host waits for the loader"
} instr_host;

typedef struct instr_row {
    const char *name;
    device_stream_kind stream;
    instr_subject subject;
    unsigned computes; // COMPUTES_ bits (plan.h)
    instr_peers peers;
    instr_payload sends;
    instr_host host[INSTR_REASONS]; // the first whose condition holds
    instr_line line;
    instr_effect effect[INSTR_EFFECTS + 1]; // ends with ACCESS_END
} instr_row;

const instr_row *instr_row_of(schedule_instr_kind k);
// Is it one end of a message between two stages?
static inline bool instr_is_message(const schedule_instr *x)
{
    const instr_meeting m = instr_row_of(x->kind)->peers.meeting;
    return m == MEETS_RECEIVER || m == MEETS_SENDER;
}
// Does a kind have this effect on this resource, in some plan?
bool instr_has_effect(schedule_instr_kind k, instr_access access, instr_resource r);
// The kind of a pass that computes this (COMPUTES_ bits).
schedule_instr_kind instr_computing(unsigned computes);

// ---- Effects of one instruction

// One effect on one owner. `owner` numbers micro-batches, buckets, or passes block by block.
typedef struct instr_use {
    instr_access access;
    instr_resource resource;
    int group; // of slots
    int slot;  // the instruction's number, not checked; -1 for IN_ANY_SLOT or no slot
    bool any_slot;
    int owner;
} instr_use;

typedef status instr_use_fn(void *given, const instr_use *use, err *e);

// What *x, whose members are in their ranges, does in list s of plan p. Calls `visit` for each
// effect, in the order of the row, and returns the first status that is not OK.
status instr_each_use(const plan *p, const schedule *s, const schedule_instr *x,
                      instr_use_fn *visit, void *given, err *e);
// Must the owner have the result at the end of a list of this pass, where the resource is due? Not
// if it is on another stage, and in training not if it is frozen or has no backward.
bool instr_is_due(const plan *p, schedule_pass pass, instr_resource r, int owner);
// "micro 3", "bucket 0", "micro 3 block 1", "the step".
void instr_owner_print(const plan *p, instr_resource r, int owner, text *out);
// Why the host is needed for *x; NULL: it only issues work.
const char *instr_needs_host(const plan *p, const schedule *s, const schedule_instr *x);
// Whether a condition holds that depends only on members of the instruction.
bool instr_when_holds(instr_when when, const schedule_instr *x);

#endif
