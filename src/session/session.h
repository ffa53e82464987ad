// session.h -- from a job to a trainer: opens and checks the job's inputs in the starting process,
// then opens device, communicator and trainer on each rank. The commands and libtrireme call it. It
// does not know how ranks are started (launch/).
#ifndef TRIREME_SESSION_SESSION_H
#define TRIREME_SESSION_SESSION_H

#include "comm/registry.h"
#include "config/job.h"
#include "planner/machine.h"
#include "train/trainer.h"

// The model and data that a program brings (job->own says so); NULL where the job names them.
// Borrowed until session_inputs_close.
typedef struct session_own_inputs {
    const model_family *family;
    const void *config;
    dataset *train, *valid; // several threads and ranks read them at once
    bool predicts;          // the memory estimate includes infer_predict
} session_own_inputs;

// The adapters of a job's checkpoints.
typedef struct session_adapter {
    char *config;  // adapter_config.json; NULL: the job has no adapters
    bool has_mark; // the base has weights, and `mark` is theirs (model_folder_mark)
    uint64_t mark;
} session_adapter;

// The inputs of a job, opened once before any rank starts. Ranks share data sets as mapped files. Initial weights
// are checked here; each rank opens them again while it loads them (session_open).
typedef struct session_inputs {
    const model_family *family;
    const void *config;        // of the family; borrowed from the job or the program
    const kernel_needs *needs; // of the kernels of the job's device
    int64_t seq_len;           // positions of a sample
    dataset *train, *valid;    // valid NULL when the job has none
    bool predicts;             // as in session_own_inputs
    model_folder *folder; // of the initial weights, which checkpoints repeat; NULL: they are drawn
    char *tokenizer_folder; // checkpoints copy its tokenizer files; NULL for none
    session_adapter adapter;
    double labelled;  // share of labels of data.train that count, for predictions; 0: not known
    ckpt_fence fence; // that checkpoints respect; none where its path is NULL
    char *
        data_tokenizer; // tokenizer.json of data.train, which the run writes into tokenizer_folder, as the
                        // model has none; NULL: it writes none
    text warnings;       // about the data, a line each
    text train_warnings; // the same, of what has an effect in training only
    text samples_notes;  // what became of the lines of JSONL, and how a turn ends; a line each
    char *fit;           // a line with the changes of memory.fit, printed as a warning; NULL: none
} session_inputs;

// The folders of a model that a command takes in place of the job's.
typedef struct session_model_names {
    const char *folder;
    const char *adapter; // NULL: none, but where `folder` is one
} session_model_names;

// Makes the job use the model of a folder or of a run's newest checkpoint, with its weights. An adapter is used with its
// base. E_USAGE where the model is of another family than the job's.
status session_use_model(job *j, const session_model_names *names, err *e);

// Opens data sets and weights, solves the batch rule and the number of steps, checks that the plan
// fits in memory, and verifies the schedules. Fills j's resolved fields. Changes nothing on disk
// and leaves no thread. E_USAGE or E_FIT.
status session_inputs_open(job *j, session_inputs *out, err *e);
// The same for a program that brings its model or its data. Each id of its data is checked against
// the model's tables when a rank reads it.
status session_inputs_open_own(job *j, const session_own_inputs *own, session_inputs *out, err *e);
// The same as session_inputs_open for a job with more ranks than this machine starts.
status session_inputs_open_to_explain(job *j, session_inputs *out, err *e);
// The same without the checks of memory and schedules, for a job of any size. `own` may be NULL.
status session_inputs_open_to_plan(job *j, const session_own_inputs *own, session_inputs *out,
                                   err *e);
void session_inputs_close(session_inputs *in);

// Checks that a run of this job can resume from the checkpoint `folder`, whose files have been verified. Its
// model, optimizer, precision, seed, batch and sequence length must be those of the job.
// `config_json` describes a program's own model, else it is NULL. *step receives the finished
// steps. E_USAGE names the folder and the keys that differ.
status session_check_resume(const job *j, const session_inputs *in, const char *config_json,
                            const char *folder, uint64_t *step, err *e);

// The communicator of all ranks of this job.
status session_describe_communicator(const job *j, int ranks, comm_description *out, err *e);

// The trainer's options for this job, without device and communicator; trainer_plan needs no more.
// The caller clears *out with session_options_clear.
status session_options(const job *j, const session_inputs *in, int ranks, trainer_options *out,
                       err *e);
void session_options_clear(trainer_options *o); // safe on a zeroed one

// Verifies the schedules of all pipeline stages, for training and evaluation. E_INTERNAL with the
// text of schedule_verify where one cannot run. session_inputs_open calls it.
status session_verify(const job *j, const session_inputs *in, int ranks, err *e);

typedef struct explain_options {
    bool json; // print one JSON object
    int rank;  // print the plan and schedule of this rank; below the job's ranks
    bool even; // draw the pipeline as if all model chunks took equally long, not by their FLOPs
    text *
        svg; // receives the picture of the pipeline, or with a machine the timeline; NULL: not drawn
    const planner_machine *machine; // shows the times that are predicted for it; NULL: none
    const char *
        trace; // with a machine: writes the predicted step as a trace into this folder; NULL: not written
} explain_options;

// Appends what `trireme explain` prints: values and their origins, a picture of the pipeline where
// there is one, the plan and the schedule.
status session_explain(const job *j, const session_inputs *in, const explain_options *x, text *out,
                       err *e);

typedef struct session_plan_options {
    bool json;                             // print one JSON object
    int columns;                           // of the terminal; 0: no limit
    const struct planner_machine *machine; // NULL: no times
    const char *no_machine;                // why there is none, a line; NULL: nobody asks
    double tokens;                         // of the training; 0: the job's
    bool search;                           // the layout with the shortest step; needs a machine
    text *best; // receives the job file of that layout; NULL: not written
} session_plan_options;

// Appends what `trireme plan` prints: memory of the largest rank and bytes sent in a step, for the
// job and for other strategies, and the times of steps. The table has fewer columns where it does not fit a terminal.
// With `best` the job takes the layout's values. E_FIT where it asks for one, and no layout fits.
status session_plan(job *j, const session_inputs *in, const session_plan_options *o, text *out,
                    err *e);

typedef struct session {
    device *device;
    device *host; // for updates that run on the host; NULL: none does
    comm *comm;
    trainer *trainer;
    trainer_options options; // of the trainer, which borrows from them
    int *split;              // [data-parallel ranks] that the ranks have measured; NULL: none
    char *split_note;        // a line that says why
} session;

// Opens device, communicator and trainer of one rank. Collective over the world.
status session_open(const job *j, const session_inputs *in, world *w, int rank, session *out,
                    err *e);
// Saves a checkpoint in train.out. `config_json` becomes its config.json; NULL takes that of the folder of the weights, or
// makes one from the job's model. `best` is the run's lowest validation loss. *folder (NULL allowed) is set on rank 0; the caller owns it. With train.async_save
// the checkpoint only begins, and *folder stays as it was (trainer_save_follow). Collective over the world.
status session_save(const session *s, const job *j, const session_inputs *in,
                    const char *config_json, const trainer_best *best, char **folder, err *e);
// Tells the other ranks why this rank failed. A rank that failed calls it before session_close, so
// that the others do not only see that it has left.
void session_abort(session *s, const err *why);
void session_close(session *s); // safe on a zeroed one

#endif
