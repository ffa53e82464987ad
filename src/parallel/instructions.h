// instructions.h -- the table of instructions. The row of a kind has everything that more than one
// file needs to know about it.
//
// schedule.c makes instructions. verify.c, simulate.c, replay.c, calls.c, draw.c and the printer
// read the rows and name no kind; train/step.c executes each kind on the stream of its row.
// instr_effects.c says what an instruction does to resources. A resource is a set of slots, which the
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

// ---- Accesses

typedef enum instr_access {
    ACCESS_READ,     // the value must be there
    ACCESS_MODIFY,   // the slot must hold the value; a result is there afterwards, if not before
    ACCESS_WRITE,    // the result must not be there yet, and is there afterwards
    ACCESS_ALLOCATE, // the slot must be free, and holds the owner's value afterwards
    ACCESS_FREE,     // the slot must hold the owner's value, and is free afterwards
    ACCESS_PRECEDE,  // the value must not be there yet
} instr_access;

// ---- Rows

// The subject of an instruction, which determines what its `micro` and `index` mean.
typedef enum instr_subject { ABOUT_STEP, ABOUT_MICRO, ABOUT_BLOCK, ABOUT_BUCKET } instr_subject;

// Messages of one channel arrive in the order in which they were sent.
typedef enum instr_channel { CHANNEL_ACTIVATIONS, CHANNEL_GRADIENTS, CHANNELS } instr_channel;

// Which other stages an instruction meets.
typedef enum instr_rendezvous {
    WAITS_FOR_NOBODY,
    WAITS_FOR_RECEIVER, // it sends a message
    WAITS_FOR_SENDER,   // it waits for a message
    WAITS_FOR_ENDS,     // the first and the last stage
    WAITS_FOR_ALL_STAGES,
} instr_rendezvous;

typedef struct instr_peers {
    instr_rendezvous waits_for;
    instr_channel channel; // of a message
    int stage_step; // of a message: 1 to or from the next stage, -1 to or from the previous one
} instr_peers;

// What the calls of an instruction carry (calls.h).
typedef enum instr_payload {
    PAYLOAD_NONE,
    PAYLOAD_PASS,            // values of the block's pass
    PAYLOAD_OUTPUT,          // the output of the block, or its gradient
    PAYLOAD_INPUT,           // the input of the block, or its gradient
    PAYLOAD_WEIGHTS,         // the weights of the bucket, for a pass
    PAYLOAD_UPDATED_WEIGHTS, // the updated weights of the bucket
    PAYLOAD_GRADIENTS,       // the gradients of the bucket
    PAYLOAD_TIED_GRADIENTS,  // the tied gradients of the bucket
    PAYLOAD_SUMS,            // the sums of the step: loss, norm, finite flag
    PAYLOADS
} instr_payload;

typedef struct instr_row {
    const char *name;
    device_stream_kind stream;
    instr_subject subject;
    unsigned computes; // COMPUTES_ bits (plan.h)
    instr_peers peers;
    instr_payload payload;
    // Why the host does more for the instruction than to issue work, so that a device which records
    // issued work and replays it cannot do without the host (capture.h): "the host waits for the
    // loader". Returns NULL where it only issues work.
    const char *(*needs_host)(const plan *p, const schedule_instr *x);
    void (*print)(const schedule_instr *x, text *out); // the text that follows the name
} instr_row;

const instr_row *instr_row_of(schedule_instr_kind k);
// Is it one end of a message between two stages?
static inline bool instr_is_message(const schedule_instr *x)
{
    const instr_rendezvous m = instr_row_of(x->kind)->peers.waits_for;
    return m == WAITS_FOR_RECEIVER || m == WAITS_FOR_SENDER;
}
// The kind of a pass that computes this (COMPUTES_ bits).
schedule_instr_kind instr_computing(unsigned computes);

// ---- Uses of one instruction

// One access of one owner's value. `owner` numbers micro-batches, buckets, or passes block by block.
typedef struct instr_use {
    instr_access access;
    instr_resource resource;
    int group; // of slots
    int slot;  // the instruction's number, not checked; -1: the resource has no slots, or any_slot
    bool any_slot; // whichever slot holds the owner's value
    int owner;
} instr_use;

typedef status instr_use_fn(void *given, const instr_use *use, err *e);

// Calls `visit` for each use that *x, whose members are in their ranges, makes in list s of plan p, in
// the order in which the uses take place. Returns the first status that is not OK.
status instr_each_use(const plan *p, const schedule *s, const schedule_instr *x,
                      instr_use_fn *visit, void *given, err *e);
// Must the owner have the result at the end of a list of this pass, where the resource is due? Not
// if it is on another stage, and in training not if it is frozen or has no backward.
bool instr_is_due(const plan *p, schedule_pass pass, instr_resource r, int owner);
// "micro 3", "bucket 0", "micro 3 block 1", "the step".
void instr_owner_print(const plan *p, instr_resource r, int owner, text *out);

#endif
