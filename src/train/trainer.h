// trainer.h -- the one trainer: it executes model x mesh x plan x schedule on this rank, step by step.
//
// Everything that it needs is in its options. It knows neither job files nor how ranks were started.
// trainer_open allocates all memory; a step allocates nothing.
#ifndef TRIREME_TRAIN_TRAINER_H
#define TRIREME_TRAIN_TRAINER_H

#include "base/event.h"
#include "base/spans.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "data/batch_split.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "model/adapter.h"
#include "model/folder.h"
#include "optim/lr.h"
#include "optim/optim.h"
#include "optim/param_group.h"
#include "optim/scaler.h"
#include "parallel/schedule.h"
#include "rendezvous/world.h"
#include "store/tier.h"

typedef struct trainer trainer;

typedef struct trainer_checks {
    bool skip_nonfinite;    // a step with NaN or Inf makes no update; false: it is an error
    int64_t replicas_every; // steps between comparisons of replicas; 0: never
    // Says which instruction this rank executes, for messages of the watchdog; NULL: nobody reads it.
    comm_activity *activity;
    // The work of every step is issued, also on a device that can record one step and replay it.
    bool issues_every_step;
} trainer_checks;

// What trainer_plan plans for. trainer_open takes the rank in `comm` and the needs of `device`.
typedef struct trainer_target {
    int rank;
    const kernel_needs *needs; // of the device's kernels; NULL: none
} trainer_target;

// All pointers but `config` are borrowed until trainer_close.
typedef struct trainer_options {
    device *device;
    device *host; // a device whose memory is the host's; NULL where no update runs there
    comm *comm;   // of all ranks
    trainer_target place;
    const model_family *family;
    const void *config; // of the model, as the family defines it
    mesh mesh;
    strategy strategy;
    dtype precision; // the compute type of weights and activations
    kernel_numerics numerics;
    scaler_options scaler; // for F16
    // Sequences. micro_batch is that of the rank with the largest; a trainer keeps its own rank's.
    int64_t micro_batch, global_batch;
    const int *
        batch_split; // [data-parallel ranks] the micro-batch of each rank; NULL: micro_batch everywhere
    int64_t seq_len;         // 1 for samples that are not sequences
    bool documents;          // samples are packed documents (dataset.h)
    graph_loss_options loss; // of cross-entropy
    uint64_t seed;
    optim_config optimizer; // lr already scaled
    param_groups groups;    // the last one has match NULL; none: one group with the settings above
    storage_type storage;   // of the frozen weights of linear layers
    lr_config lr;
    double clip_grad_norm;
    bool norm_by_group; // steps have the gradient norms of parameter groups
    trainer_checks checks;
    dataset *train, *valid; // valid may be NULL
    bool copies_saves;      // trainer_save_begin will be called
    bool predicts;          // infer_predict will be called; it may always be with `valid`
    sampler_order order;
    const safetensors *weights; // initial weights, read by trainer_open only; NULL: drawn
    const model_lora *lora;     // adapters; NULL: none
    // What training changes where the model has adapters, read by trainer_open only; NULL: as without, and adapters are drawn.
    const safetensors *adapter;
} trainer_options;

// How the sequences of a step are divided over the data-parallel ranks. It borrows o->batch_split.
batch_split trainer_split(const trainer_options *o);

// Sets what a plan must know of the communicator of all ranks. trainer_open does it, too, from o->comm.
void trainer_take_capabilities(trainer_options *o, const comm_capabilities *can);

// Makes the plan and the schedule of rank o->rank, without allocating device memory or communicating. The
// options comm, device and weights are not used. train and valid may be NULL; E_USAGE when their
// samples do not fit the model. The bytes of runtime are 0. The caller owns *p and *s. *flops: of this rank in one step.
status trainer_plan(const trainer_options *o, plan **p, schedule *s, uint64_t *params,
                    double *flops, err *e);

// Allocates, and draws or reads the weights, each rank its local shards. What o->comm can do replaces
// what the strategy says of it. Collective over o->comm.
status trainer_open(const trainer_options *o, trainer **out, err *e);
void trainer_close(trainer *t); // NULL allowed. Not collective

typedef struct trainer_step_result {
    uint64_t step; // finished optimizer steps, this one included
    double loss, grad_norm, lr;
    double tokens; // positions of the global batch; fewer when ranks ran out of data
    double seconds;
    double loss_scale;                  // of fp16; 0 with other types
    event_preferences preferences;      // zeros with other losses
    const event_group_norm *group_norm; // [group_norms] until the next step; 0: nobody asks
    int group_norms;
    bool skipped, stop;
    bool exhausted; // no rank had data: there was no step, and `step` is the last one before
} trainer_step_result;

// Makes one optimizer step. When any rank passes `stop`, out->stop is true on all. E_NUMERIC, before the
// update, names rank, step and tensor. Collective over the comm.
status trainer_step(trainer *t, bool stop, trainer_step_result *out, err *e);

// Sets the number that all pairs of a preference loss share (kernel_preference_args.shared), for the steps and
// evaluations that follow. The same on every rank.
void trainer_set_shared(trainer *t, double shared);

// The same step in parts: for each micro-batch a forward, a backward and an update. They execute the list of
// trainer_step in its order, so results have the same bits. A part issues what stands before the first pass of the
// next part, such as the weights of that pass. E_USAGE, without an effect, in another order, and in a pipeline, whose
// stages run the passes of several micro-batches in turn. Each is collective over the comm.
//
// The first forward of a step begins it; `stop` is read then. *loss (NULL: the host waits for nothing) is the mean
// over the valid positions of this rank's micro-batch; NAN where the rank adds none to the step's loss.
status trainer_forward(trainer *t, bool stop, double *loss, err *e);
status trainer_check_forward(const trainer *t, err *e); // the E_USAGE of trainer_forward
status trainer_backward(trainer *t, err *e);
// After the last micro-batch's backward, executes the rest and ends the step, as trainer_step; *ended says so.
// Before that it only ends the micro-batch, and a program may leave it out.
status trainer_update(trainer *t, trainer_step_result *out, bool *ended, err *e);
// Returns whether the current micro-batch, or the next one after an update, is the last one of its step.
bool trainer_is_boundary(const trainer *t);
// E_USAGE in a step that has begun and has not ended. `what` is the function that needs its end.
status trainer_check_ended(const trainer *t, const char *what, err *e);

// ---- A hook in the place of the reduction of gradients, as register_comm_hook of DDP

// A bucket whose gradients this rank has summed over the micro-batches of a step, in the host's memory.
typedef struct trainer_bucket {
    int index;        // of the plan
    bool last;        // no other bucket of the step follows
    float *gradients; // [count] full; between parameters lie elements without a meaning
    int64_t count;
} trainer_bucket;

// Replaces this rank's gradients by their sum over the ranks of the parameter group, with trainer_reduce_bucket.
typedef status (*trainer_hook)(void *arg, const trainer_bucket *b, err *e);

// Calls `hook` for each bucket of each later step (NULL: no more). The host waits for the bucket's gradients and for its
// sums, so the reduction overlaps no computation. E_USAGE where the device's memory is not the host's, gradients are
// compressed, or the ranks reduce anything but full gradients.
status trainer_set_hook(trainer *t, trainer_hook hook, void *arg, err *e);
// Sums elements first … first+count-1 of the bucket in memory, in place, as REDUCE_GRAD sums them, and waits. E_USAGE
// outside of a hook and of the bucket. Collective over the ranks of the bucket's parameter group.
status trainer_reduce_bucket(trainer *t, int64_t first, int64_t count, err *e);

// Checks that ranks with the same shard of the weights have the same values (else E_NUMERIC), and, after the
// first step, that no two data-parallel ranks read the same batches (else E_USAGE). trainer_step
// calls it as the options say. Collective over the comm.
status trainer_check_replicas(trainer *t, err *e);

// Sets *any to whether at least one rank passes `own`. Collective over the comm.
status trainer_agree(trainer *t, bool own, bool *any, err *e);

uint64_t trainer_steps_done(const trainer *t);
const plan *trainer_get_plan(const trainer *t);
const model *trainer_get_model(const trainer *t);
double trainer_flops(const trainer *t); // of this rank in one step
// Adds the bytes that this rank has sent so far to sent[PROCESS_GROUPS] (parallel/plan.h), when options->comm
// counts them (comm_count_calls). The counts of options->comm itself are those of GROUP_WORLD.
void trainer_add_traffic(const trainer *t, double *sent);
// Adds what the files of this rank have done since they were opened (store/tier.h).
void trainer_add_tiers(const trainer *t, tier_counters *to);
// One line of which the user must be warned, such as a slower way of the file tier; NULL: none.
const char *trainer_note(const trainer *t);
// [INSTRS] seconds of the last step by kind of instruction, on the host's clock.
const double *trainer_seconds(const trainer *t);

// ---- The record of what this rank does (base/spans.h)

// Lists the rows of a record of this trainer's steps. The caller frees *rows.
status trainer_list_rows(const trainer *t, spans_row **rows, uint32_t *count, err *e);
// Times every later step. A device that records a step does it with the stamps that the first one has.
void trainer_time_steps(trainer *t);
// Writes timed steps into the record, which is borrowed, from the last one on; NULL: no more.
void trainer_write_spans(trainer *t, spans *record);
// Around an evaluation (SPANS_EVAL) or a checkpoint (SPANS_SAVE), which began at begin_ns.
void trainer_begin_span(trainer *t, spans_kind kind);
void trainer_end_span(trainer *t, spans_kind kind, int64_t begin_ns);

// ---- State in and out, for checkpoints. On the host, parameters are full and F32.

typedef enum trainer_state_kind {
    STATE_WEIGHT,
    STATE_M,
    STATE_V,
    STATE_AVERAGE, // of the weights, where the optimizer keeps one
    STATE_GRADIENT,
    STATE_PARTS
} trainer_state_kind;

// Reads parameter p from the shards of all ranks into out[count] of rank 0 (NULL elsewhere). STATE_GRADIENT
// is the reduced gradient of the last step: the mean over valid positions, before clipping. A state
// that the parameter does not have is zeros. Waits for the device. Collective over the comm.
status trainer_read_state(trainer *t, trainer_state_kind part, int p, float *out, err *e);
// Writes this rank's shard of the full parameter in[count]. Every rank must write the same parameter.
status trainer_write_state(trainer *t, trainer_state_kind part, int p, const float *in, err *e);
// Gives elements first … first + count-1 of parameter p in `from` to out, as F32.
typedef status (*trainer_source)(const void *from, int p, int64_t first, int64_t count, float *out,
                                 err *e);
// The same as trainer_write_state, but asks `read` for the parameter, and where the shard is one range of it for that
// alone. `space` is host memory for the full parameter.
status trainer_write_state_from(trainer *t, trainer_state_kind part, int p, trainer_source read,
                                const void *from, float *space, err *e);
// trainer_write_state_from of weights in the files of a HuggingFace folder.
status trainer_write_weight(trainer *t, int p, const safetensors *from, float *space, err *e);
// Must follow the last write: training continues after `steps_done` steps. Collective over the comm.
status trainer_restore(trainer *t, uint64_t steps_done, err *e);

// ---- Checkpoints (save.c; the format is ckpt/'s)

// The evaluation with the lowest loss so far.
typedef struct trainer_best {
    int64_t step; // -1: there was no evaluation
    double loss;
    int64_t since; // evaluations after it
} trainer_best;

typedef struct trainer_save_options {
    const char *out;         // the run's folder, which exists
    const ckpt_fence *fence; // NULL: none
    int64_t keep;
    trainer_best best;            // for a run that resumes
    bool keep_best;               // its checkpoint stays, too
    const char *config_json;      // of the model, or of its adapters, which are then saved alone
    const char *tokenizer_folder; // NULL for none
    // Of the initial weights: the checkpoint has its names, its other tensors and its other files; NULL: none.
    const model_folder *folder;
    const uint64_t *base_mark; // of the weights of the adapters' base; NULL: not known
} trainer_save_options;

// Writes a checkpoint: rank 0 makes the files, and every rank writes its shards into them. A rank that does
// not see the folder sends its shards to rank 0. All return when the checkpoint is durable. *folder (NULL allowed)
// is set on rank 0; the caller owns it. Collective over the comm.
status trainer_save(trainer *t, const trainer_save_options *o, char **folder, err *e);
// Begins a checkpoint that is written while steps go on, one at a time; this rank's part is copied into memory now.
// Needs trainer_options.copies_saves. Collective over the comm.
status trainer_save_begin(trainer *t, const trainer_save_options *o, err *e);
bool trainer_is_saving(const trainer *t);
// Looks after it, and with `waits` waits until it is durable. *done says whether it is; *folder (NULL allowed) is set
// then, as trainer_save sets it. Collective over the comm.
status trainer_save_follow(trainer *t, bool waits, bool *done, char **folder, err *e);
// The bytes of all parameters and of their state in a checkpoint.
uint64_t trainer_saved_bytes(const trainer *t);
// Resumes from a verified checkpoint: weights, optimizer state, step. session_check_resume says whether a job
// may. E_USAGE when a tensor is missing or has another shape. Collective over the comm.
status trainer_resume(trainer *t, const char *folder, err *e);

#endif
