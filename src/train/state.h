// state.h -- the inside of a trainer, shared by the files of this folder.
#ifndef TRIREME_TRAIN_STATE_H
#define TRIREME_TRAIN_STATE_H

#include "data/loader.h"
#include "graph/execute.h"
#include "optim/clip.h"
#include "store/tier.h"
#include "train/compress.h"
#include "train/trainer.h"

// A piece of memory that the trainer owns. `shared`: other ranks read it (comm_alloc).
typedef struct owned_memory {
    device_memory_kind kind;
    bool shared;
    size_t bytes;
    void *at;
} owned_memory;

// An activation-gradient slot of the schedule.
typedef struct act_grad_slot {
    char *ptr;
    int peer;      // the stage that its last value was sent to
    uint64_t sent; // the number of that message; 0: none is under way
} act_grad_slot;

// Activations of one of this stage's chunks, for every micro-batch that is in flight.
typedef struct trainer_chunk {
    int first, last;                         // blocks first … last-1
    size_t act_bytes, saved_for_wgrad_bytes; // of one slot
    char *act, *held;
    uint64_t *sent; // by act slot: number of the message that reads its output; 0: none
} trainer_chunk;

// Where a block's values lie within a slot of its chunk.
typedef struct block_place {
    size_t input, output, saved; // in the act slot
    size_t held, output_grad;    // in the held slot
} block_place;

// A slot for a bucket, with the events that order its uses.
typedef struct bucket_slot {
    char *at;
    device_event *filled, *freed;
    tier_ticket ticket; // of the request that is under way; 0: none
} bucket_slot;

// The bucket of a file that is looked at while no step runs.
typedef struct window {
    bool open, dirty;
    int bucket;
} window;

struct trainer {
    trainer_options o;
    plan *plan;
    schedule schedule, forward; // of a training step; of an evaluation's micro-batch
    model *model, *eval;        // eval NULL without a validation set
    const model *running;       // the one that the list at hand is for
    double flops;               // of this rank's blocks, one micro-batch
    int micros;
    bool counting; // only counts bytes into the plan

    comm *axis[AXES + 1], *grads, *tie, *data; // data: both data-parallel axes
    comm *agree; // all ranks, a pipeline's stages next to each other; NULL: o.comm
    device_stream *stream[STREAMS];
    device_event **loaded, **consumed; // by batch slot
    device_event *computed, *reduced, *arrived;

    owned_memory *owned;
    int owned_count;
    size_t owned_room;
    char *weights;    // in the type that is computed in, as kept; NULL when in a file
    char *kept;       // parts of them from forward to backward, or NULL
    float *master;    // fp32 weights beside them; NULL when they are fp32
    float *moment[2]; // m and v, or NULL
    float *gradients, *tied_grads;
    bucket_slot *weight_slot, *gradient_slot, *state_slot[PLAN_STATES];
    int *weight_of, *gradient_of; // by bucket: the slot that it is in, -1 none
    tier *tier[PLAN_STATES];
    tier_ticket *flushed[PLAN_STATES]; // by bucket: the request that wrote it last
    window window[PLAN_STATES];
    compressor *compressor; // NULL: gradients travel as they are
    char *note;

    trainer_chunk *chunk;
    block_place *place;     // by block
    char **output_grad_ptr; // [wgrad slots, blocks] where dgrad read its output gradient
    char *work;
    act_grad_slot *act_grad; // [schedule.act_grad_slots]
    char *output_grad;       // gradient of the output of the block that is next in backward
    uint64_t *acts_sent, *grads_sent; // messages so far, by stage
    uint64_t states_sent;             // to rank 0, of parts of the state
    char **ids, **labels;             // by batch slot
    int64_t *blank;                   // by batch slot: how many samples are missing in it
    int64_t samples; // of this step that this rank answers for: of all that read the same, one
    float
        *features; // fp32 vectors before their conversion, when the model computes in another type
    float *rope;
    double *sums, *host_sums;
    void *host_batch;
    uint64_t *digest, *host_digest;

    // Filled for one block at a time.
    void **run_weight;
    float **run_gradient;
    bool **run_grad_written;
    bool *grad_written, *tied_grad_written; // per parameter

    sampler *sampler;
    loader *loader;
    loader_batch batch; // the one in use
    bool batch_held;
    int held_slot;       // whose copy is under way
    uint64_t first_hash; // of all batches of step 1
    clip_result agreed;
    double agreed_scale; // of the gradients that it is about; 0: none yet
    scaler scaler;
    uint64_t steps_done, skipped; // of the steps, so many without an update
    bool stop;
    bool inspecting; // a step is repeated to find the tensor with the NaN
    int bad_row;
    const graph_run_outputs *outputs; // who wants predictions instead of the loss; NULL: nobody
    double seconds[INSTRS];
};

static inline const device_ops *trainer_ops(const trainer *t)
{
    return t->o.device->ops;
}

// Work issued to `later` from now on starts after what `before` has now.
static inline void trainer_order(const trainer *t, device_event *v, device_stream *before,
                                 device_stream *later)
{
    trainer_ops(t)->record(v, before);
    trainer_ops(t)->wait(later, v);
}

// Only stages with the first or the last block read batches.
static inline bool trainer_reads_data(const trainer *t)
{
    return plan_has_block(t->plan, 0) || plan_has_block(t->plan, t->model->blocks - 1);
}

// The array that gradients are in once they are reduced; from a file, their parts alone come back.
static inline plan_layout trainer_gradient_layout(const plan *p)
{
    return p->o.strategy.offload.tier[PLAN_GRADIENTS] == TIER_FILE ? p->optimizer : p->gradient;
}

// memory.c
// Allocates everything, or with t->counting adds it to the plan's bytes.
status trainer_allocate(trainer *t, err *e);
void trainer_free_memory(trainer *t);
size_t trainer_weight_bytes(const trainer *t); // of one element

// traffic.c
status trainer_count_traffic(trainer *t, err *e); // into the plan

// activity.c
// *x as one number that is not 0, and its words as schedule_print has them, "REDUCE_GRAD bucket 3". Of
// numbers too large for their bits, the largest that fits is left.
uint64_t activity_pack(const schedule_instr *x);
void activity_describe(uint64_t what, char *out, size_t room);
void trainer_open_activity(trainer *t);
// This rank is at *x now; NULL: in no step.
void trainer_show_activity(trainer *t, const schedule_instr *x);

// step.c
typedef status (*run_fn)(trainer *t, const schedule_instr *x, err *e);
status trainer_run(trainer *t, const schedule *s, const model *m, err *e);
void trainer_reset_sums(trainer *t);

// step_blocks.c: LOAD_BATCH, FORWARD, BACKWARD…, messages between stages
void trainer_upload(trainer *t, device_stream *on, int slot, const void *inputs,
                    const void *labels);
status run_load_batch(trainer *t, const schedule_instr *x, err *e);
status run_forward(trainer *t, const schedule_instr *x, err *e);
status run_backward(trainer *t, const schedule_instr *x, err *e);
status run_backward_input(trainer *t, const schedule_instr *x, err *e);
status run_backward_weight(trainer *t, const schedule_instr *x, err *e);
status run_recv_act(trainer *t, const schedule_instr *x, err *e);
status run_send_act(trainer *t, const schedule_instr *x, err *e);
status run_recv_grad(trainer *t, const schedule_instr *x, err *e);
status run_send_grad(trainer *t, const schedule_instr *x, err *e);

// step_state.c: weights, gradients and optimizer state between their placements and tiers
status run_swap_in(trainer *t, const schedule_instr *x, err *e);
status run_swap_out(trainer *t, const schedule_instr *x, err *e);
status run_unshard(trainer *t, const schedule_instr *x, err *e);
status run_reshard_post_forward(trainer *t, const schedule_instr *x, err *e);
status run_reshard(trainer *t, const schedule_instr *x, err *e);
status run_alloc_grad(trainer *t, const schedule_instr *x, err *e);
status run_reduce_tied_grad(trainer *t, const schedule_instr *x, err *e);
status run_reduce_grad(trainer *t, const schedule_instr *x, err *e);
status run_all_gather_updated(trainer *t, const schedule_instr *x, err *e);
// Waits, on `on`, until what is being read into a state slot is there.
status trainer_await_slot(trainer *t, plan_state what, int slot, device_stream *on, err *e);
// Bytes of an element of what lies in files: for the optimizer, of all its arrays together.
size_t trainer_state_bytes(const trainer *t, plan_state what);
// Where bucket b's state lies in the tier's file.
uint64_t trainer_file_at(const trainer *t, plan_state what, int bucket);
size_t trainer_file_bytes(const trainer *t, plan_state what, int bucket);

// step_update.c
// Updates so far: a skipped step moves neither the learning rate nor Adam's bias correction, as in
// DeepSpeed.
static inline int64_t trainer_updates(const trainer *t)
{
    return (int64_t)(t->steps_done - t->skipped);
}
// What the loss' gradient is multiplied by, so that fp16 can hold what follows from it; 1 else.
double trainer_gradient_scale(const trainer *t);
// A run of rows that lie back to back in every array of the update, and are treated alike.
typedef struct row_run {
    int first, last; // of plan->order, last exclusive
} row_run;
bool trainer_next_run(const trainer *t, int bucket, row_run *run); // run->last: where to go on
void trainer_add_squares(trainer *t, int bucket, const float *at, plan_layout array,
                         device_stream *on);
status run_clip_grad_norm(trainer *t, const schedule_instr *x, err *e);
status run_optimizer_step(trainer *t, const schedule_instr *x, err *e);

// transfer.c
status trainer_fill_weights(trainer *t, err *e);
bool trainer_has_state(const trainer *t, trainer_state_kind part);
status trainer_close_staging(trainer *t, err *e);

// nonfinite.c
status trainer_inspect(trainer *t, int bucket, const float *at, err *e);
status trainer_name_nonfinite(trainer *t, err *e);

#endif
