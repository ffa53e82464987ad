// trainer.h -- the one trainer: model x mesh x plan x schedule, executed step by step on this rank.
//
// It takes what it trains on and with from its options and knows neither job files nor how ranks
// were started. All memory is allocated in trainer_open; a step allocates nothing.
#ifndef TRIREME_TRAIN_TRAINER_H
#define TRIREME_TRAIN_TRAINER_H

#include "comm/comm.h"
#include "comm/world.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "model/model.h"
#include "optim/lr.h"
#include "optim/optim.h"
#include "optim/scaler.h"
#include "parallel/schedule.h"
#include "store/tier.h"

typedef struct trainer trainer;

// Everything is borrowed until trainer_close, but for `config`.
typedef struct trainer_options {
    device *device;
    comm *comm;              // all ranks
    comm_activity *activity; // of this rank, kept up to date; NULL: nobody reads it
    int rank;                // in it; what trainer_plan plans for
    const model_family *family;
    const void *config; // the family's
    mesh mesh;
    strategy strategy;
    dtype precision;       // what weights and activations are computed in
    scaler_options scaler; // of F16
    int64_t micro_batch, global_batch;
    int64_t seq_len; // 1 for samples that are not sequences
    uint64_t seed;
    uint64_t steps;
    optim_config optimizer; // lr already scaled
    lr_config lr;
    double clip_grad_norm;
    bool skip_nonfinite;    // leave a step with NaN or Inf out, instead of stopping
    int64_t replicas_every; // compare the weights of all ranks every so many steps; 0 = never
    dataset *train, *valid; // valid may be NULL
    bool predicts;          // trainer_predict will be called; with `valid` it always may be
    sample_order order;
    const safetensors *weights; // initial weights; NULL: drawn from the seed
} trainer_options;

// The plan and the schedule that rank o->rank would have, without allocating or communicating
// (options->comm, device and weights are not used; train and valid may be NULL, else E_USAGE says
// that their samples are not what the model takes). Both are the caller's.
status trainer_plan(const trainer_options *o, plan **p, schedule *s, uint64_t *params,
                    double *flops, err *e);

// Allocates, and draws or reads the weights, each rank its own part. Collective over o->comm.
status trainer_open(const trainer_options *o, trainer **out, err *e);
void trainer_close(trainer *t); // NULL allowed. Not collective

typedef struct trainer_step_result {
    uint64_t step; // finished optimizer steps, this one included
    double loss, grad_norm, lr;
    double tokens; // positions of the global batch: less than that where ranks ran out of data
    double seconds;
    double loss_scale; // of fp16; 0: none
    bool skipped, stop;
    bool exhausted; // no rank had data: nothing was done, and `step` is the last one that was
} trainer_step_result;

// One optimizer step. `stop` of any rank comes back as result.stop on all. E_NUMERIC, before the
// update, names rank, step and tensor. Collective over the comm.
status trainer_step(trainer *t, bool stop, trainer_step_result *out, err *e);

// Mean loss over the validation set (its first max_batches global batches; 0 = all of it), weights
// untouched. *tokens (NULL allowed) receives the number of valid positions. Collective over
// the comm.
status trainer_evaluate(trainer *t, int64_t max_batches, double *loss, double *tokens, err *e);
// How many samples of data.valid an evaluation of `max_batches` global batches (0: all) takes: a
// number that no mesh and no micro-batch changes.
uint64_t trainer_evaluated_samples(const trainer *t, int64_t max_batches);

// What is predicted for each position of a sample.
typedef enum trainer_prediction {
    PREDICT_LOGITS,  // of the classes or tokens; not under squared error
    PREDICT_CLASSES, // the one with the largest logit, of equal ones the first; -1: all are NaN
    PREDICT_VECTORS, // under squared error the predicted targets, else what the last layer reads
    PREDICTIONS
} trainer_prediction;

typedef struct trainer_predict_options {
    trainer_prediction what;
    bool last; // of the last position of each sample alone
} trainer_predict_options;

// The outputs of a sample: [positions, cols] F32, or [positions] I32 for classes (cols 1).
typedef struct trainer_prediction_shape {
    int64_t positions, cols;
    dtype type;
} trainer_prediction_shape;

// E_USAGE for logits and classes of a model that has none.
status trainer_predict_shape(const trainer *t, const trainer_predict_options *o,
                             trainer_prediction_shape *out, err *e);
// How many samples one pass over all ranks takes.
int64_t trainer_predict_batch(const trainer *t);
// Predictions for `samples` samples whose inputs lie one after the other, the same on every rank;
// *out receives them in the same order (NULL where a rank does not want them). Changes nothing.
// E_USAGE names a token that is not in the vocabulary. Collective over the comm.
status trainer_predict(trainer *t, const trainer_predict_options *o, const void *inputs,
                       int64_t samples, void *out, err *e);

// Whether data.valid has one class as the label of each sample …
bool trainer_has_accuracy(const trainer *t);
// … and for how many of the labels that count it is the predicted one, over the samples of an
// evaluation. The same on every rank. Collective over the comm.
status trainer_accuracy(trainer *t, int64_t max_batches, uint64_t *right, uint64_t *labels, err *e);

// Ranks that hold the same part of the weights hold the same values, and on the first step no two
// read the same batch: E_NUMERIC / E_USAGE otherwise. Called by trainer_step as options say.
// Collective over the comm.
status trainer_check_replicas(trainer *t, err *e);

uint64_t trainer_steps_done(const trainer *t);
const plan *trainer_get_plan(const trainer *t);
const model *trainer_get_model(const trainer *t);
double trainer_flops(const trainer *t); // of this rank in one step
// Adds what this rank has sent so far to moved[PROCESS_GROUPS] (parallel/plan.h), where options->comm counts
// (comm/trace.h); its own counts are those of all ranks.
void trainer_add_traffic(const trainer *t, double *moved);
// Adds what this rank's files have done since they were opened (store/tier.h).
void trainer_add_tiers(const trainer *t, tier_counters *to);
// One line that must be said aloud (a slower way of the file tier, a tier that is no other memory),
// or NULL.
const char *trainer_note(const trainer *t);
// Seconds of the last step by kind of instruction, on the host's clock.
const double *trainer_seconds(const trainer *t);

// ---- State in and out, for checkpoints. Parameters are whole and fp32 on the host.

typedef enum trainer_state_kind {
    STATE_WEIGHT,
    STATE_M,
    STATE_V,
    STATE_GRADIENT,
    STATE_PARTS
} trainer_state_kind;

// Elements of parameter p, put together from all ranks' parts, into out[count] of rank 0 (NULL
// elsewhere). STATE_GRADIENT: as the last step reduced it (mean over valid positions, before
// clipping). Waits for the device. Collective over the comm.
status trainer_read_state(trainer *t, trainer_state_kind part, int p, float *out, err *e);
// This rank's part of the whole parameter `in`; every rank writes the same.
status trainer_write_state(trainer *t, trainer_state_kind part, int p, const float *in, err *e);
// After all writes: training goes on after `steps_done` steps. Collective over the comm.
status trainer_restore(trainer *t, uint64_t steps_done, err *e);
// What ranks other than 0 do while rank 0 asks for states one by one (trainer_ask_state, and at the
// end trainer_ask_none), in an order that only it knows. Collective over the comm.
status trainer_serve(trainer *t, err *e);
status trainer_ask_state(trainer *t, trainer_state_kind part, int p, float *out, err *e);
status trainer_ask_none(trainer *t, err *e);

// ---- Checkpoints (save.c; the format is ckpt/'s)

typedef struct trainer_save_options {
    const char *out; // the run's folder, which exists
    int64_t keep;
    const char *config_json;      // of the model
    const char *tokenizer_folder; // NULL for none
} trainer_save_options;

// Rank 0 writes; all return when it is durable. *folder (NULL allowed) is set on rank 0, owned by
// the caller. Collective over the comm.
status trainer_save(trainer *t, const trainer_save_options *o, char **folder, err *e);
// Goes on from a verified checkpoint that this job may go on from (session_check_resume): weights,
// optimizer state, step. E_USAGE when a tensor is missing or of another shape. Collective over the
// comm.
status trainer_resume(trainer *t, const char *folder, err *e);

#endif
