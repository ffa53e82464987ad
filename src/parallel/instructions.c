// instructions.c -- the table of instructions and of the resources that they act on. See
// instructions.h. instr_effects.c has the uses of each kind.
//
// A new kind needs its line in SCHEDULE_INSTRS (schedule.h), its row here, its function use_NAME in
// instr_effects.c and its function run_NAME in train/. A kind without one of them, and a row without
// one of its fields, do not compile.
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

// ---- The line of an instruction, after its name

static void print_micro(const schedule_instr *x, text *out)
{
    text_addf(out, " micro %d", x->micro);
}

static void print_pass(const schedule_instr *x, text *out)
{
    text_addf(out, " micro %d block %d", x->micro, x->index);
}

static void print_message(const schedule_instr *x, text *out)
{
    const bool sends = instr_row_of(x->kind)->peers.waits_for == WAITS_FOR_RECEIVER;
    print_pass(x, out);
    text_addf(out, " %s stage %d%s", sends ? "to" : "from", x->peer,
              x->with_next ? ", with the next" : "");
}

static void print_bucket(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d", x->index);
}

static void print_swap(const schedule_instr *x, text *out)
{
    text_addf(out, " %s of bucket %d", plan_state_name(x->what), x->index);
}

static void print_unshard(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d into weight slot %d%s", x->index, x->slot,
              x->post_forward ? " from the post-forward group" : "");
}

static void print_reshard_post_forward(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d, its shard stays for backward", x->index);
}

static void print_reshard(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d, weight slot %d is free", x->index, x->slot);
}

static void print_alloc_grad(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d in gradient slot %d", x->index, x->slot);
}

static void print_reduce_grad(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d%s", x->index, x->last ? "" : " (more to come)");
}

static void print_optimizer_step(const schedule_instr *x, text *out)
{
    text_addf(out, " bucket %d%s", x->index, x->on_host ? " on the host" : "");
}

static void print_nothing(const schedule_instr *x, text *out)
{
    (void)x, (void)out;
}

// ---- Why the host is needed

static const char *needs_nothing(const plan *p, const schedule_instr *x)
{
    return (void)p, (void)x, NULL;
}

static const char *needs_loader(const plan *p, const schedule_instr *x)
{
    return (void)p, (void)x, "the host waits for the loader";
}

static const char *needs_numbers(const plan *p, const schedule_instr *x)
{
    return (void)p, (void)x, "the host writes the numbers of the step";
}

static bool is_in_file(const plan *p, const schedule_instr *x, plan_state what)
{
    const plan_group *g = plan_group_of(p, x->index);
    return plan_is_swapped(g, what) && g->o.tier[what] == TIER_FILE;
}

static const char *needs_read(const plan *p, const schedule_instr *x)
{
    return is_in_file(p, x, x->what) ? "the host reads a file" : NULL;
}

static const char *needs_write(const plan *p, const schedule_instr *x)
{
    return is_in_file(p, x, x->what) ? "the host writes a file" : NULL;
}

// A state slot of the instruction may hold state of a file.
static const char *needs_file(const plan *p, const schedule_instr *x)
{
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0 && is_in_file(p, x, (plan_state)k)) return "the host waits for a file";
    return NULL;
}

static const char *needs_update(const plan *p, const schedule_instr *x)
{
    return x->on_host ? "the host updates the weights" : needs_file(p, x);
}

static const char *needs_step_number(const plan *p, const schedule_instr *x)
{
    const bool low_rank = p->o.strategy.hook.kind == HOOK_POWERSGD;
    return (void)x, low_rank ? "powersgd depends on the number of the step" : NULL;
}

// ---- Rows

// All fields are parameters, so that a row cannot leave one out.
// clang-format off
#define ROW(KIND, stream, subject, computes, peers, payload, needs_host, print)                    \
    static const instr_row KIND##_ROW = {#KIND, stream, subject, computes, peers, payload,         \
                                         needs_host, print}
#define ALONE                       {WAITS_FOR_NOBODY, CHANNEL_ACTIVATIONS, 0}
#define SENDER(channel, stage_step)   {WAITS_FOR_RECEIVER, channel, stage_step}
#define RECEIVER(channel, stage_step) {WAITS_FOR_SENDER, channel, stage_step}
#define TOGETHER(all)               {all, CHANNEL_ACTIVATIONS, 0}
// clang-format on

// Copies the inputs and labels of a micro-batch to the device.
ROW(LOAD_BATCH, STREAM_COPY, ABOUT_MICRO, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE, needs_loader,
    print_micro);

// Copies the numbers of the step to the device. Later instructions need no number from the host.
ROW(LOAD_STEP, STREAM_COMPUTE, ABOUT_STEP, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE, needs_numbers,
    print_nothing);

// Copies from the host or reads from a file: this rank's shard into a state slot, or full gradients
// into a gradient slot, where the sum over micro-batches continues.
ROW(SWAP_IN, STREAM_COPY, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE, needs_read,
    print_swap);

// Brings back what SWAP_IN brings.
ROW(SWAP_OUT, STREAM_COPY, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE, needs_write,
    print_swap);

// All-gathers the weights of a bucket for use.
ROW(UNSHARD, STREAM_COMM, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_WEIGHTS, needs_file,
    print_unshard);

// Keeps this rank's shard of the post-forward group for the UNSHARD before backward.
ROW(RESHARD_POST_FORWARD, STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE,
    needs_nothing, print_reshard_post_forward);

ROW(RESHARD, STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE, needs_nothing,
    print_reshard);

ROW(ALLOC_GRAD, STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE, needs_nothing,
    print_alloc_grad);

// Receives the input of a block from the previous stage.
ROW(RECV_ACT, STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, RECEIVER(CHANNEL_ACTIVATIONS, -1),
    PAYLOAD_INPUT, needs_nothing, print_message);

// Runs the forward pass of a block. The block with the loss also computes its first gradients.
ROW(FORWARD, STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_FORWARD, ALONE, PAYLOAD_PASS, needs_nothing,
    print_pass);

// Sends the output of a block to the next stage.
ROW(SEND_ACT, STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, SENDER(CHANNEL_ACTIVATIONS, 1),
    PAYLOAD_OUTPUT, needs_nothing, print_message);

// Receives the output gradient of a block from the next stage.
ROW(RECV_GRAD, STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, RECEIVER(CHANNEL_GRADIENTS, 1),
    PAYLOAD_OUTPUT, needs_nothing, print_message);

// Runs dgrad and wgrad of a block together.
ROW(BACKWARD, STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_DGRAD | COMPUTES_WGRAD, ALONE, PAYLOAD_PASS,
    needs_nothing, print_pass);

// Runs dgrad of a block.
ROW(BACKWARD_INPUT, STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_DGRAD, ALONE, PAYLOAD_PASS, needs_nothing,
    print_pass);

// Runs wgrad of a block, some time after its dgrad.
ROW(BACKWARD_WEIGHT, STREAM_COMPUTE, ABOUT_BLOCK, COMPUTES_WGRAD, ALONE, PAYLOAD_PASS,
    needs_nothing, print_pass);

// Sends the input gradient of a block to the previous stage.
ROW(SEND_GRAD, STREAM_COMM, ABOUT_BLOCK, COMPUTES_NOTHING, SENDER(CHANNEL_GRADIENTS, -1),
    PAYLOAD_INPUT, needs_nothing, print_message);

// Sums the gradients of tied weights over the first and the last stage. Both receive the sum.
ROW(REDUCE_TIED_GRAD, STREAM_COMM, ABOUT_BUCKET, COMPUTES_NOTHING, TOGETHER(WAITS_FOR_ENDS),
    PAYLOAD_TIED_GRADIENTS, needs_nothing, print_bucket);

// Reduces the gradients of a bucket to the placement in which they are stored. The last REDUCE_GRAD
// of a step reduces them to the placement in which the optimizer reads them.
ROW(REDUCE_GRAD, STREAM_COMM, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_GRADIENTS,
    needs_step_number, print_reduce_grad);

// All ranks agree on the loss, the gradient norm and whether all gradients are finite.
ROW(CLIP_GRAD_NORM, STREAM_COMM, ABOUT_STEP, COMPUTES_NOTHING, TOGETHER(WAITS_FOR_ALL_STAGES),
    PAYLOAD_SUMS, needs_nothing, print_nothing);

// The optimizer updates this rank's shard of a bucket.
ROW(OPTIMIZER_STEP, STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE, PAYLOAD_NONE,
    needs_update, print_optimizer_step);

// All-gathers the updated shards to every rank that stores the weights.
ROW(ALL_GATHER_UPDATED, STREAM_COMPUTE, ABOUT_BUCKET, COMPUTES_NOTHING, ALONE,
    PAYLOAD_UPDATED_WEIGHTS, needs_nothing, print_bucket);

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

void instr_print(const schedule_instr *x, text *out)
{
    text_add(out, ROWS[x->kind]->name);
    ROWS[x->kind]->print(x, out);
}

schedule_instr_kind instr_computing(unsigned computes)
{
    int k = 0;
    while (ROWS[k]->computes != computes) k++;
    return (schedule_instr_kind)k;
}
