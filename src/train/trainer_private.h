// trainer_private.h -- a trainer, for the files of train/ and infer/. It is the plan, the schedules and
// the models, and one object for each task. Each object's header says what it owns, and only the
// object's own file knows its members.
#ifndef TRIREME_TRAIN_TRAINER_PRIVATE_H
#define TRIREME_TRAIN_TRAINER_PRIVATE_H

#include "device/kernels.h"
#include "graph/execute.h"
#include "train/batches/batches.h"
#include "train/blocks.h"
#include "train/captures.h"
#include "train/compress/compress.h"
#include "train/exchange.h"
#include "train/groups.h"
#include "train/memory.h"
#include "train/results.h"
#include "train/segments.h"
#include "train/slots.h"
#include "train/spans/spans.h"
#include "train/state.h"
#include "train/tiers/tiers.h"
#include "train/trainer.h"
#include "train/workspace.h"

#include <stdlib.h>
#include <string.h>

// The pass over the blocks that runs.
typedef struct trainer_pass {
    const schedule *list; // that runs
    const model *running; // the model of its passes
    int next;             // number of the next instruction
    // nonfinite.c repeats a step to find the tensor that has a NaN or Inf. bad_row: the first row
    // of the plan that has one; -1: none.
    bool inspects;
    int bad_row;
    const schedule_instr *bad_pass;   // the first one whose values are not finite; NULL: none
    bool received_bad;                // they came from another stage
    const graph_run_outputs *outputs; // receives predictions instead of the loss; NULL: the loss
} trainer_pass;

// A step that a program takes in parts (step_parts.c).
typedef enum trainer_part { PART_NONE, PART_FORWARD, PART_BACKWARD, PART_STEP } trainer_part;

typedef struct trainer_parts {
    bool open;         // the step has begun and has not ended
    trainer_part last; // the last part of the micro-batch
    int micro;         // the micro-batch
    double began;      // clock_seconds
    // This rank's sums of the micro-batches before, if the host has read them.
    bool knows_sums;
    double loss, count;
} trainer_parts;

// The program's reduction of gradients (bucket_hook.c).
typedef struct trainer_hooks {
    trainer_hook run; // NULL: REDUCE_GRAD makes the planned calls
    void *arg;
    // While it runs: the bucket, and the planned calls in its place.
    const trainer_bucket *bucket;
    const schedule_call *call; // [calls]
    int calls;
} trainer_hooks;

typedef struct trainer_saving trainer_saving;

struct trainer {
    trainer_options
        o; // o.groups is `group` where the options have none, and `packed` where weights are packed
    param_group group;   // all parameters, by the job's own settings
    param_groups packed; // the groups, with those of packed weights apart; its items are owned
    plan *plan;
    schedule schedule; // of a training step
    schedule forward;  // of the evaluation of one micro-batch
    model *model;      // for training
    model *eval;       // for evaluation; NULL without a validation set
    double flops;      // of this rank's blocks, one micro-batch

    trainer_memory *memory;
    trainer_groups *groups;
    trainer_batches *batches;
    trainer_blocks *blocks;
    trainer_state *state;
    trainer_segments *segments;
    trainer_workspace *workspace;
    trainer_slots *slots;
    trainer_tiers *tiers;
    trainer_results *results;
    trainer_exchange *exchange;
    trainer_captures *captures;
    trainer_spans *spans;
    trainer_saving *saving; // NULL: no checkpoint is written beside steps
    compressor *compressor; // NULL: gradients are reduced as they are
    char *note;             // a warning for the user; NULL: none

    trainer_pass pass;
    trainer_parts parts;
    trainer_hooks hook;
};

static inline const device_ops *trainer_ops(const trainer *t)
{
    return t->o.device->ops;
}

static inline device_stream *trainer_stream(const trainer *t, device_stream_kind k)
{
    return groups_stream(t->groups, k);
}

// The communicator of a process group or of a GROUP_…; NULL when it has one rank.
static inline comm *trainer_group(const trainer *t, int group)
{
    return groups_comm(t->groups, group);
}

static inline void trainer_order(const trainer *t, device_stream_kind before,
                                 device_stream_kind later)
{
    groups_order(t->groups, before, later);
}

// The largest size of one weight in its compute type.
size_t trainer_weight_bytes(const trainer *t);

// The address of row r in a bucket that starts at `bucket` and has layout l.
static inline float *trainer_row_ptr(const plan_row *r, float *bucket, plan_layout l)
{
    return bucket + r->offset[l];
}

// trainer.c Where the pointer that `object` points to is NULL, allocates `bytes` zeros for it:
// objects are made when memory is counted, and kept when it is allocated.
status trainer_object(void *object, size_t bytes, err *e);

// trainer.c The first of the sequences of a step that this rank reads.
uint64_t trainer_first_sample(const trainer *t);

// traffic.c
// Lists the calls of s, whose passes are those of m.
status trainer_list_calls(const trainer *t, const model *m, schedule *s, err *e);

// activity.c
// Encodes *x as one number that is not 0. Decoded, it reads like a line of schedule_print, such as
// "REDUCE_GRAD bucket 3". A member that is too large for its bits becomes the largest that fits.
uint64_t activity_pack(const schedule_instr *x);
void activity_describe(uint64_t what, char *out, size_t room);
void trainer_open_activity(trainer *t);
// Records that this rank executes *x now. NULL says that it is between steps.
void trainer_show_activity(trainer *t, const schedule_instr *x);

// step.c
typedef status (*run_fn)(trainer *t, const schedule_instr *x, err *e);
// Executes schedule s of model m, which starts without written gradients and with free slots. Does not
// wait for the streams at its end.
status trainer_run(trainer *t, const schedule *s, const model *m, err *e);
// The same in two calls: begins the list, and executes its instructions before number `end`.
status trainer_run_begin(trainer *t, const schedule *s, const model *m, err *e);
status trainer_run_to(trainer *t, int end, err *e);
// trainer_step in two calls: begins the training list, and executes what is left of it. *out lacks the seconds.
status trainer_step_begin(trainer *t, bool stop, err *e);
status trainer_step_end(trainer *t, trainer_step_result *out, err *e);

// step_state.c: changes the placement of weights and gradients
status run_unshard(trainer *t, const schedule_instr *x, err *e);
status run_reshard_post_forward(trainer *t, const schedule_instr *x, err *e);
status run_reshard(trainer *t, const schedule_instr *x, err *e);
status run_alloc_grad(trainer *t, const schedule_instr *x, err *e);
status run_reduce_tied_grad(trainer *t, const schedule_instr *x, err *e);
status run_reduce_grad(trainer *t, const schedule_instr *x, err *e);
status run_all_gather_updated(trainer *t, const schedule_instr *x, err *e);

// bucket_hook.c Reduces the full gradients of x's bucket by the program's hook, which stands for the last of `calls`
// calls at c: those over the bucket's parameter group. The earlier ones are issued.
status trainer_run_hook(trainer *t, const schedule_instr *x, const schedule_call *c, int calls,
                        float *gradients, err *e);

// step_update.c Adds the squares of a bucket's reduced gradients to the sums on stream `on`. Of rows
// that several ranks have in full, this rank adds its share.
void trainer_add_squares(trainer *t, int bucket, const float *gradients, device_stream *on);
status run_optimizer_step(trainer *t, const schedule_instr *x, err *e);

// weights.c
// Draws or reads the initial weights. Collective over all ranks.
status trainer_fill_weights(trainer *t, err *e);

// transfer.c
// Whether parameter p has this kind of state.
bool trainer_has_state(const trainer *t, trainer_state_kind part, int p);

// save/save_beside.c
status saving_allocate(trainer *t, err *e);
void saving_close(trainer *t);

// nonfinite.c
status trainer_inspect(trainer *t, int bucket, const float *gradients, err *e);
// Looks at the values that instruction x has written, in a step that is repeated.
status trainer_inspect_values(trainer *t, const schedule_instr *x, err *e);
// Returns E_NUMERIC with the name of the tensor. Collective over all ranks.
status trainer_name_nonfinite(trainer *t, err *e);

#endif
