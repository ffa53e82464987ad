// session.h -- a job brought to life: its inputs opened and checked in the starting process, then
// device, communicator and trainer on every rank. The commands and libtrireme both stand on it.
#ifndef TRIREME_SESSION_SESSION_H
#define TRIREME_SESSION_SESSION_H

#include "comm/world.h"
#include "config/job.h"
#include "train/trainer.h"

// What a program brings itself (job->own says so): NULL where the job names it. Borrowed until
// session_inputs_close.
typedef struct session_own_inputs {
    const model_family *family;
    const void *config;
    dataset *train, *valid; // read by several threads and ranks at once
    bool predicts;          // memory is planned for trainer_predict, too
} session_own_inputs;

// What a job reads, opened once before any rank starts and shared by them (mapped files).
typedef struct session_inputs {
    const model_family *family;
    const void *config;     // the family's; borrowed from the job or the program
    int64_t seq_len;        // positions of a sample
    dataset *train, *valid; // valid NULL when the job has none
    safetensors *weights;   // NULL when they are drawn
    bool predicts;          // as session_own_inputs says
    char *tokenizer_folder; // whose tokenizer files a checkpoint copies; NULL for none
    char *data_tokenizer;   // tokenizer.json that data.train was made with; NULL: not known
    text warnings;          // of the data, a line each
    char *fit;              // what memory.fit changed, in one line to be said aloud; NULL: nothing
} session_inputs;

// Opens data sets and weights, solves the batch rule and the number of steps, and checks that the
// plan fits in memory. E_USAGE or E_FIT; nothing on disk is changed and no thread is left. Fills
// j's resolved fields.
status session_inputs_open(job *j, session_inputs *out, err *e);
// The same where the program brings its model or its data. Every id that its data give is checked
// against the model's tables when it is read.
status session_inputs_open_own(job *j, const session_own_inputs *own, session_inputs *out, err *e);
// The same as session_inputs_open for a job that need not run here: of any number of ranks.
status session_inputs_open_to_explain(job *j, session_inputs *out, err *e);
// The same for who only wants to know what the job would need: it may be far too large.
status session_inputs_open_to_plan(job *j, session_inputs *out, err *e);
void session_inputs_close(session_inputs *in);

// May a run of this job go on from the checkpoint `folder`, which has been verified? Its model,
// optimizer, precision, seed, batch and sequence length must be the job's. `config_json`: of a
// program's own model, else NULL. *step: finished steps. E_USAGE names the folder and the keys that
// differ.
status session_check_resume(const job *j, const session_inputs *in, const char *config_json,
                            const char *folder, uint64_t *step, err *e);

// The trainer's options for this job, without device and communicator: enough for trainer_plan.
status session_options(const job *j, const session_inputs *in, int ranks, trainer_options *out,
                       err *e);

// Plans and lists of all pipeline stages, as the ranks would have them, are right and come to their
// end: E_INTERNAL otherwise, with the text of schedule_verify. Part of session_inputs_open.
status session_verify(const job *j, const session_inputs *in, int ranks, err *e);

typedef struct explain_options {
    bool json; // one object
    int rank;  // whose plan and schedule; below the job's ranks
    bool even; // the pipeline's picture as if its parts took the same, not by their FLOPs
    text *svg; // receives the picture of a pipeline; NULL: not drawn
} explain_options;

// What `trireme explain` prints: values and origins, a picture of the pipeline where there is one,
// plan and schedule.
status session_explain(const job *j, const session_inputs *in, const explain_options *x, text *out,
                       err *e);

// What `trireme plan` prints: memory of the largest rank and bytes sent in a step, as the job is
// and under other strategies.
status session_plan(const job *j, const session_inputs *in, bool json, text *out, err *e);

typedef struct session {
    device *device;
    comm *comm;
    trainer *trainer;
} session;

// One rank's part. Collective over the world.
status session_open(const job *j, const session_inputs *in, world *w, int rank, session *out,
                    err *e);
// A checkpoint of the run in train.out; `config_json` (NULL: made from the job's model) becomes its
// config.json. *folder (NULL allowed) is set on rank 0, owned by the caller. Collective over the
// world.
status session_save(const session *s, const job *j, const session_inputs *in,
                    const char *config_json, char **folder, err *e);
// Before session_close of a rank that failed: the others learn why before they learn that it has
// left.
void session_abort(session *s, const err *why);
void session_close(session *s); // safe on a zeroed one

#endif
