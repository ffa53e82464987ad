// api.h -- private to api/: the structs behind the handles of trireme.h, and the conversion of
// errors. Every trm_ function calls an inner function that returns a status, and converts it with
// api_give.
#ifndef TRIREME_API_API_H
#define TRIREME_API_API_H

#include "monitor/log.h"
#include "session/session.h"
#include "trireme.h"

// ---- Errors (error.c)

// Converts the result of an inner call for the program. Fills *out (NULL allowed) if it failed.
trm_status api_give(status s, const err *e, trm_error *out);
// Converts the result of a program's callback for the inner code.
status api_take(trm_status s, const trm_error *from, err *e);

// ---- The program's data (own_data.c)

typedef struct api_data {
    dataset base; // first, so that a dataset * is also an api_data *
    trm_dataset of;
} api_data;

// Checks `of` and makes a dataset that reads from it. E_USAGE names the member that is wrong.
status api_data_make(api_data *d, const trm_dataset *of, bool train, err *e);

// ---- The program's model (own_model.c)

// ops gets the api_model itself as its config, so the struct must not move.
typedef struct api_model {
    model_family ops;
    trm_family of;
    const void *config;
} api_model;

// Checks `of` and makes a family that calls its functions. Borrows name, functions and config.
status api_model_make(api_model *m, const trm_family *of, const void *config, err *e);

struct trm_builder {
    graph *g;
    bool has_loss;
};

// ---- A job (job.c)

struct trm_job {
    char *path;     // NULL: no file
    job_call *call; // [calls] settings of keys, in order
    int calls;
    size_t call_room;
    bool has_model, has_train, has_valid;
    api_model model;
    api_data train, valid;
    char *config_json; // of the program's model
    text explained;    // the latest text of trm_job_explain
};

// A complete and checked job with its inputs open.
typedef struct api_prepared {
    job *job;
    session_inputs inputs;
} api_prepared;

status api_job_prepare(trm_job *j, api_prepared *out, err *e);
void api_prepared_close(api_prepared *r);

// ---- A rank (train.c)

// log.jsonl in train.out. Rank 0 writes it; the other ranks do not use the struct.
typedef struct api_run_log {
    log_file *file;   // NULL: nothing was written yet
    bool *is_open;    // shared by all ranks and the process that starts them
    double began;     // clock_seconds
    bool interrupted; // a stop was requested
    int64_t resumed;  // steps of the checkpoint that the run resumed from; -1: none
    bool has_eval;    // eval_loss is an evaluation before the log was open
    double eval_loss;
} api_run_log;

struct trm_trainer {
    const api_prepared *prepared;
    const char *config_json;
    world *world;
    int rank;
    session session;
    model_param_files files; // the model's tensors
    char *from;              // rank 0: the checkpoint of train.out that it resumed from, or NULL
    bool owns_folder;        // rank 0: the files of an earlier run in train.out were moved away
    api_run_log log;
    bool stopped; // all ranks agreed to stop, or no rank has more data
};

// ---- The log (log.c). Errors are those of writing the file.

// Called before every step and checkpoint. The first call after opening or resuming the trainer
// moves an earlier run's files in train.out away, and starts the log with its start event.
status api_log_open(trm_trainer *t, err *e);
status api_log_step(trm_trainer *t, const trainer_step_result *s, err *e);
status api_log_eval(trm_trainer *t, double loss, err *e);
status api_log_save(trm_trainer *t, const char *folder, double seconds, err *e);
// Called when the rank's function has returned: writes the end event.
status api_log_end(trm_trainer *t, bool interrupted, err *e);
void api_log_close(trm_trainer *t);
// Called by the starting process when the run has failed: writes the error event.
void api_log_error(const job *j, const api_run_log *l, int rank, const err *why);

#endif
