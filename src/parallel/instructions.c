// instructions.c -- the table of instructions and of the resources that they act on. See
// instructions.h. instr_effects.c works out what a row means for one instruction.
//
// A new kind needs its line in SCHEDULE_INSTRS (schedule.h), its row here and its function run_NAME
// in train/. A kind without a row, and a row without one of its fields, do not compile.
#include "parallel/instructions.h"

// ---- Resources

// clang-format off
#define RESOURCE(owner, slot, value, missing, present, ...) \
    {owner, slot, value, missing, present, __VA_ARGS__}
#define IN_CHUNKS         .by_chunk = true
#define DUE(pass)         .due = {[pass] = true}
#define OUTLIVES(pass)    .outlives = {[pass] = true}
#define NOTHING_MORE      .by_chunk = false
#define STATE_SLOT(state) [RES_STATE_SLOT + (state)]
// clang-format on

static const instr_resource_row RESOURCE_ROWS[RESOURCES] = {
    [RES_ACT_SLOT] = RESOURCE(OWNER_MICRO, "activation slot", "the activations of", "are not saved",
                              "are saved already", IN_CHUNKS, OUTLIVES(PASS_EVAL)),
    [RES_WGRAD_SLOT] = RESOURCE(OWNER_MICRO, "wgrad slot", "what dgrad saved for wgrad of",
                                "is not there", "is there already", IN_CHUNKS),
    [RES_ACT_GRAD_SLOT] = RESOURCE(OWNER_PASS, "activation-gradient slot", "the input gradient of",
                                   "has no slot", "has a slot already", NOTHING_MORE),
    [RES_WEIGHT_SLOT] = RESOURCE(OWNER_BUCKET, "weight slot", "the weights of", "are not unsharded",
                                 "are unsharded already", NOTHING_MORE),
    [RES_GRAD_SLOT] = RESOURCE(OWNER_BUCKET, "gradient slot", "the gradients of", "have no slot",
                               "have a slot already", NOTHING_MORE),
    STATE_SLOT(PLAN_WEIGHTS) = RESOURCE(OWNER_BUCKET, "weight state slot", "the weight shard of",
                                        "is not swapped in", "is swapped in already", NOTHING_MORE),
    STATE_SLOT(PLAN_GRADIENTS) =
        RESOURCE(OWNER_BUCKET, "gradient state slot", "the gradient shard of", "is not swapped in",
                 "is swapped in already", NOTHING_MORE),
    STATE_SLOT(PLAN_OPTIMIZER_STATE) =
        RESOURCE(OWNER_BUCKET, "optimizer state slot", "the optimizer state of",
                 "is not swapped in", "is swapped in already", NOTHING_MORE),
    [RES_BATCH] = RESOURCE(OWNER_MICRO, NULL, "the batch of", "is not loaded", "was loaded before",
                           NOTHING_MORE),
    [RES_STEP] = RESOURCE(OWNER_STEP, NULL, "the numbers of", "are not loaded",
                          "were loaded before", NOTHING_MORE),
    [RES_OUTPUT] = RESOURCE(OWNER_PASS, NULL, "the output of", "was neither computed nor received",
                            "was computed before", DUE(PASS_EVAL)),
    [RES_INPUT_GRAD] =
        RESOURCE(OWNER_PASS, NULL, "the input gradient of", "was neither computed nor received",
                 "was computed before", NOTHING_MORE),
    [RES_WEIGHT_GRAD] = RESOURCE(OWNER_PASS, NULL, "the weight gradient of", "is not computed",
                                 "was computed before", DUE(PASS_TRAIN)),
    [RES_GRAD_SUM] = RESOURCE(OWNER_BUCKET, NULL, "the gradients of", "are not computed",
                              "were computed before", NOTHING_MORE),
    [RES_POST_FORWARD] = RESOURCE(OWNER_BUCKET, NULL, "the post-forward shard of", "is not kept",
                                  "is kept already", NOTHING_MORE),
    [RES_TIED_SUM] = RESOURCE(OWNER_BUCKET, NULL, "the tied gradients of",
                              "are not summed over the stages", "were summed before", NOTHING_MORE),
    [RES_REDUCED_MICRO] = RESOURCE(OWNER_BUCKET, NULL, "the gradients of", "are in no slot",
                                   "were reduced before", NOTHING_MORE),
    [RES_REDUCED] = RESOURCE(OWNER_BUCKET, NULL, "the gradients of", "are not reduced",
                             "were reduced for the last time before", NOTHING_MORE),
    [RES_AGREED] = RESOURCE(OWNER_STEP, NULL, "the gradient norm of", "is not agreed",
                            "was agreed before", NOTHING_MORE),
    [RES_UPDATED] = RESOURCE(OWNER_BUCKET, NULL, "the weights of", "are not updated",
                             "were updated before", NOTHING_MORE),
    [RES_GATHERED] = RESOURCE(OWNER_BUCKET, NULL, "the updated weights of", "are not gathered",
                              "were gathered before", DUE(PASS_TRAIN)),
};

const instr_resource_row *instr_resource_row_of(instr_resource r)
{
    return &RESOURCE_ROWS[r];
}

// ---- Rows

// All fields are parameters, so that a row cannot leave one out.
// clang-format off
#define ROW(name, stream, subject, computes, peers, sends, host, line, effects) \
    {name, stream, subject, computes, peers, sends, host, line, effects}
#define ALONE                                   {MEETS_NOBODY, CHANNEL_ACTIVATIONS, 0}
#define SENDER(channel, stage_step)             {MEETS_RECEIVER, channel, stage_step}
#define RECEIVER(channel, stage_step)           {MEETS_SENDER, channel, stage_step}
#define TOGETHER(meeting)                       {meeting, CHANNEL_ACTIVATIONS, 0}
#define NO_HOST                                 {{NEVER, NULL}}
#define HOST(when, why)                         {{when, why}}
#define HOSTS(...)                              {__VA_ARGS__}
#define LINE(text)                              {text, NEVER, ""}
#define LINE_AND(text, when, addition)          {text, when, addition}
#define LINE_OF_MESSAGE(way) \
    LINE_AND(" micro {micro} block {index} " way " stage {peer}", WHEN_WITH_NEXT, ", with the next")
#define EFFECTS(...)                            {__VA_ARGS__}
#define READS(resource, whose, where, when)     {ACCESS_READ, resource, whose, where, when}
#define MODIFIES(resource, whose, where, when)  {ACCESS_MODIFY, resource, whose, where, when}
#define WRITES(resource, whose, when)           {ACCESS_WRITE, resource, whose, IN_RESULT, when}
#define ALLOCATES(resource, whose, where, when) {ACCESS_ALLOCATE, resource, whose, where, when}
#define FREES(resource, whose, where, when)     {ACCESS_FREE, resource, whose, where, when}
#define PRECEDES(resource, whose, where, when)  {ACCESS_PRECEDE, resource, whose, where, when}
// clang-format on

// Copies the inputs and labels of a micro-batch to the device.
static const instr_row LOAD_BATCH_ROW =
    ROW("LOAD_BATCH", STREAM_COPY, ABOUT_MICRO, COMPUTES_NOTHING, ALONE, SENDS_NOTHING,
        HOST(ALWAYS, "the host waits for the loader"), LINE(" micro {micro}"),
        EFFECTS(WRITES(RES_BATCH, OF_THIS, ALWAYS)));

// Copies the numbers of the step to the device. Whoever runs after it needs no number from the host.
static const instr_row LOAD_STEP_ROW =
    ROW("LOAD_STEP", STREAM_COMPUTE, ABOUT_STEP, COMPUTES_NOTHING, ALONE, SENDS_NOTHING,
        HOST(ALWAYS, "the host writes the numbers of the step"), LINE(""),
        EFFECTS(READS(RES_BATCH, OF_ALL_MICROS, IN_RESULT, WHEN_STAGE_READS_BATCHES),
                WRITES(RES_STEP, OF_THIS, ALWAYS)));

// Copies from the host or reads from a file: this rank's shard into a state slot, or full gradients
// into a gradient slot, where the sum over micro-batches continues.
static const instr_row SWAP_IN_ROW =
    ROW("SWAP_IN", STREAM_COPY, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_NOTHING,
        HOST(WHEN_MOVES_FILE, "the host reads a file"), LINE(" {what} of bucket {index}"),
        EFFECTS(ALLOCATES(RES_STATE_SLOT, OF_THIS, IN_SLOT, WHEN_SHARD),
                ALLOCATES(RES_GRAD_SLOT, OF_THIS, IN_SLOT, WHEN_FULL)));

// Brings back what SWAP_IN brings.
static const instr_row SWAP_OUT_ROW =
    ROW("SWAP_OUT", STREAM_COPY, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_NOTHING,
        HOST(WHEN_MOVES_FILE, "the host writes a file"), LINE(" {what} of bucket {index}"),
        EFFECTS(FREES(RES_STATE_SLOT, OF_THIS, IN_SLOT, WHEN_SHARD),
                FREES(RES_GRAD_SLOT, OF_THIS, IN_SLOT, WHEN_FULL),
                READS(RES_UPDATED, OF_THIS, IN_RESULT, WHEN_WRITES_UPDATED)));

// All-gathers the weights of a bucket for use.
static const instr_row UNSHARD_ROW =
    ROW("UNSHARD", STREAM_COMM, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_WEIGHTS,
        HOST(WHEN_USES_FILE, "the host waits for a file"),
        LINE_AND(" bucket {index} into weight slot {slot}", WHEN_POST_FORWARD,
                 " from the post-forward group"),
        EFFECTS(READS(RES_POST_FORWARD, OF_THIS, IN_RESULT, WHEN_POST_FORWARD),
                FREES(RES_STATE_SLOT + PLAN_WEIGHTS, OF_THIS, IN_STATE, WHEN_UNSHARDS_SWAPPED),
                ALLOCATES(RES_WEIGHT_SLOT, OF_THIS, IN_SLOT, ALWAYS)));

// Keeps this rank's shard of the post-forward group for the UNSHARD before backward.
static const instr_row RESHARD_POST_FORWARD_ROW =
    ROW("RESHARD_POST_FORWARD", STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE,
        SENDS_NOTHING, NO_HOST, LINE(" bucket {index}, its shard stays for backward"),
        EFFECTS(READS(RES_WEIGHT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                WRITES(RES_POST_FORWARD, OF_THIS, ALWAYS)));

static const instr_row RESHARD_ROW =
    ROW("RESHARD", STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_NOTHING, NO_HOST,
        LINE(" bucket {index}, weight slot {slot} is free"),
        EFFECTS(FREES(RES_WEIGHT_SLOT, OF_THIS, IN_SLOT, ALWAYS)));

static const instr_row ALLOC_GRAD_ROW =
    ROW("ALLOC_GRAD", STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_NOTHING, NO_HOST,
        LINE(" bucket {index} in gradient slot {slot}"),
        EFFECTS(ALLOCATES(RES_GRAD_SLOT, OF_THIS, IN_SLOT, ALWAYS)));

// Receives the input of a block from the previous stage.
static const instr_row RECV_ACT_ROW =
    ROW("RECV_ACT", STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, RECEIVER(CHANNEL_ACTIVATIONS, -1),
        SENDS_NOTHING, NO_HOST, LINE_OF_MESSAGE("from"),
        EFFECTS(ALLOCATES(RES_ACT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                WRITES(RES_OUTPUT, OF_BLOCK_BEFORE, ALWAYS)));

#define READS_WEIGHTS READS(RES_WEIGHT_SLOT, OF_ITS_BUCKETS, IN_ANY_SLOT, WHEN_WEIGHT_SLOTS)
// The effects of every pass that may add to the gradients of weights.
#define ADDS_TO_GRADIENTS                                                                          \
    PRECEDES(RES_REDUCED, OF_ITS_BUCKETS, IN_RESULT, WHEN_ADDS_TO_GRADIENTS),                      \
        MODIFIES(RES_GRAD_SLOT, OF_ITS_BUCKETS, IN_ANY_SLOT, WHEN_ADDS_IN_SLOT),                   \
        MODIFIES(RES_GRAD_SUM, OF_ITS_BUCKETS, IN_RESULT, WHEN_ADDS_TO_GRADIENTS)

// Runs the forward pass of a block. The block with the loss also computes its first gradients.
static const instr_row FORWARD_ROW =
    ROW("FORWARD", STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_FORWARD, ALONE, SENDS_PASS, NO_HOST,
        LINE(" micro {micro} block {index}"),
        EFFECTS(READS(RES_STEP, OF_THIS, IN_RESULT, WHEN_TRAINING),
                READS(RES_OUTPUT, OF_BLOCK_BEFORE, IN_RESULT, WHEN_HAS_BLOCK_BEFORE), READS_WEIGHTS,
                ALLOCATES(RES_ACT_SLOT, OF_THIS, IN_SLOT, WHEN_INPUT_IS_LOCAL),
                READS(RES_ACT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                FREES(RES_ACT_SLOT, OF_THIS, IN_SLOT, WHEN_ENDS_BLOCK_BEFORE), ADDS_TO_GRADIENTS,
                WRITES(RES_OUTPUT, OF_THIS, ALWAYS)));

// Sends the output of a block to the next stage.
static const instr_row SEND_ACT_ROW =
    ROW("SEND_ACT", STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, SENDER(CHANNEL_ACTIVATIONS, 1),
        SENDS_OUTPUT, NO_HOST, LINE_OF_MESSAGE("to"),
        EFFECTS(READS(RES_OUTPUT, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_ACT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                FREES(RES_ACT_SLOT, OF_THIS, IN_SLOT, WHEN_HAS_NO_BACKWARD)));

// Receives the output gradient of a block from the next stage.
static const instr_row RECV_GRAD_ROW =
    ROW("RECV_GRAD", STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, RECEIVER(CHANNEL_GRADIENTS, 1),
        SENDS_NOTHING, NO_HOST, LINE_OF_MESSAGE("from"),
        EFFECTS(ALLOCATES(RES_ACT_GRAD_SLOT, OF_BLOCK_AFTER, IN_GRAD_OUT, WHEN_FUSED_BACKWARD),
                ALLOCATES(RES_WGRAD_SLOT, OF_THIS, IN_WGRAD_SLOT, WHEN_SPLIT_BACKWARD),
                WRITES(RES_INPUT_GRAD, OF_BLOCK_AFTER, ALWAYS)));

// Runs dgrad and wgrad of a block together. An input gradient that is computed in place takes over
// the slot of the output gradient. Otherwise its slot is allocated before the output gradient's is
// freed.
static const instr_row BACKWARD_ROW =
    ROW("BACKWARD", STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_DGRAD | COMPUTES_WGRAD, ALONE, SENDS_PASS,
        NO_HOST, LINE(" micro {micro} block {index}"),
        EFFECTS(READS(RES_OUTPUT, OF_THIS, IN_RESULT, ALWAYS),
                PRECEDES(RES_INPUT_GRAD, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_INPUT_GRAD, OF_BLOCK_AFTER, IN_RESULT, WHEN_HAS_BLOCK_AFTER),
                ADDS_TO_GRADIENTS, READS_WEIGHTS, FREES(RES_ACT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                ALLOCATES(RES_ACT_GRAD_SLOT, OF_THIS, IN_GRAD_OUT, WHEN_INPUT_GRAD_APART),
                FREES(RES_ACT_GRAD_SLOT, OF_BLOCK_AFTER, IN_GRAD_IN, WHEN_HAS_BLOCK_AFTER),
                ALLOCATES(RES_ACT_GRAD_SLOT, OF_THIS, IN_GRAD_IN, WHEN_INPUT_GRAD_IN_PLACE),
                READS(RES_ACT_GRAD_SLOT, OF_THIS, IN_GRAD_OUT, WHEN_HAS_INPUT_GRAD),
                WRITES(RES_INPUT_GRAD, OF_THIS, ALWAYS), WRITES(RES_WEIGHT_GRAD, OF_THIS, ALWAYS)));

// Runs dgrad of a block. Gradients between the blocks of a chunk lie in its wgrad slot, because
// wgrad reads them later. The input gradient of the chunk's first block lies in an
// activation-gradient slot.
static const instr_row BACKWARD_INPUT_ROW =
    ROW("BACKWARD_INPUT", STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_DGRAD, ALONE, SENDS_PASS, NO_HOST,
        LINE(" micro {micro} block {index}"),
        EFFECTS(READS(RES_OUTPUT, OF_THIS, IN_RESULT, ALWAYS),
                PRECEDES(RES_INPUT_GRAD, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_INPUT_GRAD, OF_BLOCK_AFTER, IN_RESULT, WHEN_HAS_BLOCK_AFTER),
                ADDS_TO_GRADIENTS, READS_WEIGHTS, READS(RES_ACT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                ALLOCATES(RES_WGRAD_SLOT, OF_THIS, IN_WGRAD_SLOT, WHEN_OUTPUT_GRAD_IS_LOCAL),
                READS(RES_WGRAD_SLOT, OF_THIS, IN_WGRAD_SLOT, ALWAYS),
                ALLOCATES(RES_ACT_GRAD_SLOT, OF_THIS, IN_GRAD_OUT, WHEN_SENDS_INPUT_GRAD),
                WRITES(RES_INPUT_GRAD, OF_THIS, ALWAYS)));

// Runs wgrad of a block, some time after its dgrad.
static const instr_row BACKWARD_WEIGHT_ROW =
    ROW("BACKWARD_WEIGHT", STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_WGRAD, ALONE, SENDS_PASS, NO_HOST,
        LINE(" micro {micro} block {index}"),
        EFFECTS(READS(RES_INPUT_GRAD, OF_THIS, IN_RESULT, ALWAYS),
                PRECEDES(RES_WEIGHT_GRAD, OF_THIS, IN_RESULT, ALWAYS), ADDS_TO_GRADIENTS,
                READS_WEIGHTS, FREES(RES_ACT_SLOT, OF_THIS, IN_SLOT, ALWAYS),
                FREES(RES_WGRAD_SLOT, OF_THIS, IN_WGRAD_SLOT, ALWAYS),
                WRITES(RES_WEIGHT_GRAD, OF_THIS, ALWAYS)));

// Sends the input gradient of a block to the previous stage.
static const instr_row SEND_GRAD_ROW =
    ROW("SEND_GRAD", STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, SENDER(CHANNEL_GRADIENTS, -1),
        SENDS_INPUT_GRAD, NO_HOST, LINE_OF_MESSAGE("to"),
        EFFECTS(READS(RES_INPUT_GRAD, OF_THIS, IN_RESULT, ALWAYS),
                FREES(RES_ACT_GRAD_SLOT, OF_THIS, IN_GRAD_IN, ALWAYS)));

// Sums the gradients of tied weights over the first and the last stage. Both receive the sum.
static const instr_row REDUCE_TIED_GRAD_ROW =
    ROW("REDUCE_TIED_GRAD", STREAM_COMM, ABOUT_BUCKET, COMPUTES_NOTHING, TOGETHER(MEETS_ENDS),
        SENDS_TIED_GRADIENTS, NO_HOST, LINE(" bucket {index}"),
        EFFECTS(PRECEDES(RES_REDUCED, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_GRAD_SLOT, OF_THIS, IN_SLOT, WHEN_IN_GRAD_SLOT),
                READS(RES_REDUCED_MICRO, OF_THIS, IN_RESULT, WHEN_NOT_IN_GRAD_SLOT),
                PRECEDES(RES_GRAD_SLOT, OF_THIS, IN_ANY_SLOT, WHEN_NOT_IN_GRAD_SLOT),
                MODIFIES(RES_GRAD_SUM, OF_THIS, IN_RESULT, ALWAYS),
                WRITES(RES_TIED_SUM, OF_THIS, ALWAYS)));

// Reduces the gradients of a bucket to the placement in which they are stored. The last REDUCE_GRAD
// of a step reduces them to the placement in which the optimizer reads them.
static const instr_row REDUCE_GRAD_ROW =
    ROW("REDUCE_GRAD", STREAM_COMM, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_GRADIENTS,
        HOST(WHEN_LOW_RANK, "powersgd depends on the number of the step"),
        LINE_AND(" bucket {index}", WHEN_NOT_LAST, " (more to come)"),
        EFFECTS(PRECEDES(RES_REDUCED, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_GRAD_SUM, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_TIED_SUM, OF_THIS, IN_RESULT, WHEN_LAST_OF_TIED),
                FREES(RES_GRAD_SLOT, OF_THIS, IN_SLOT, WHEN_IN_GRAD_SLOT),
                READS(RES_REDUCED_MICRO, OF_THIS, IN_RESULT, WHEN_NOT_IN_GRAD_SLOT),
                PRECEDES(RES_GRAD_SLOT, OF_THIS, IN_ANY_SLOT, WHEN_NOT_IN_GRAD_SLOT),
                ALLOCATES(RES_STATE_SLOT + PLAN_GRADIENTS, OF_THIS, IN_STATE, WHEN_SWAPPED),
                MODIFIES(RES_REDUCED_MICRO, OF_THIS, IN_RESULT, WHEN_NOT_LAST),
                WRITES(RES_REDUCED, OF_THIS, WHEN_LAST)));

// All ranks agree on the loss, the gradient norm and whether all gradients are finite.
static const instr_row CLIP_GRAD_NORM_ROW =
    ROW("CLIP_GRAD_NORM", STREAM_COMM, ABOUT_STEP, COMPUTES_NOTHING, TOGETHER(MEETS_ALL_STAGES),
        SENDS_AGREED, NO_HOST, LINE(""),
        EFFECTS(READS(RES_STEP, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_REDUCED, OF_ALL_BUCKETS, IN_RESULT, WHEN_TRAINS),
                WRITES(RES_AGREED, OF_THIS, ALWAYS)));

// The optimizer updates this rank's shard of a bucket.
static const instr_row OPTIMIZER_STEP_ROW =
    ROW("OPTIMIZER_STEP", STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, SENDS_NOTHING,
        HOSTS({WHEN_ON_HOST, "the host updates the weights"},
              {WHEN_USES_FILE, "the host waits for a file"}),
        LINE_AND(" bucket {index}", WHEN_ON_HOST, " on the host"),
        EFFECTS(READS(RES_AGREED, OF_THIS, IN_RESULT, ALWAYS),
                READS(RES_REDUCED, OF_THIS, IN_RESULT, ALWAYS),
                FREES(RES_STATE_SLOT + PLAN_GRADIENTS, OF_THIS, IN_STATE, WHEN_UPDATED_IN_SLOT),
                MODIFIES(RES_STATE_SLOT + PLAN_WEIGHTS, OF_THIS, IN_STATE, WHEN_SWAPPED_IN),
                ALLOCATES(RES_STATE_SLOT + PLAN_WEIGHTS, OF_THIS, IN_STATE, WHEN_ONLY_SWAPPED_OUT),
                MODIFIES(RES_STATE_SLOT + PLAN_OPTIMIZER_STATE, OF_THIS, IN_STATE,
                         WHEN_UPDATED_IN_SLOT),
                WRITES(RES_UPDATED, OF_THIS, ALWAYS)));

// All-gathers the updated shards to every rank that stores the weights.
static const instr_row ALL_GATHER_UPDATED_ROW = ROW(
    "ALL_GATHER_UPDATED", STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE,
    SENDS_UPDATED_WEIGHTS, NO_HOST, LINE(" bucket {index}"),
    EFFECTS(READS(RES_UPDATED, OF_THIS, IN_RESULT, ALWAYS), WRITES(RES_GATHERED, OF_THIS, ALWAYS)));

#define ROW_OF(KIND, name) [KIND] = &KIND##_ROW,
static const instr_row *const ROWS[INSTRS] = {SCHEDULE_INSTRS(ROW_OF)};

const instr_row *instr_row_of(schedule_instr_kind k)
{
    return ROWS[k];
}

const char *instr_name(schedule_instr_kind k)
{
    return ROWS[k]->name;
}

bool instr_has_effect(schedule_instr_kind k, instr_access access, instr_resource r)
{
    for (const instr_effect *f = ROWS[k]->effect; f->access != ACCESS_END; f++)
        if (f->access == access && f->resource == r) return true;
    return false;
}

schedule_instr_kind instr_computing(unsigned computes)
{
    int k = 0;
    while (ROWS[k]->computes != computes) k++;
    return (schedule_instr_kind)k;
}
