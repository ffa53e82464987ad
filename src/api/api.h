// api.h -- private to api/: how the library's handles hold the inner ones, and how errors cross the
// border. Every trm_ function is an inner function that returns a status, wrapped by api_give.
#ifndef TRIREME_API_API_H
#define TRIREME_API_API_H

#include "monitor/log.h"
#include "session/session.h"
#include "trireme.h"

// ---- Errors (error.c)

// What an inner call came to, for the program: fills *out (NULL allowed) when it failed.
trm_status api_give(status s, const err *e, trm_error *out);
// What a program's own function came to.
status api_take(trm_status s, const trm_error *from, err *e);

// ---- A program's own data (own_data.c)

typedef struct own_data {
    dataset base;
    trm_dataset of;
} own_data;

status own_data_make(own_data *d, const trm_dataset *of, bool train, err *e);

// ---- A program's own model (own_model.c)

// The config of `ops` is the own_model itself, which must not move.
typedef struct own_model {
    model_family ops;
    trm_family of;
    const void *config;
} own_model;

status own_model_make(own_model *m, const trm_family *of, const void *config, err *e);

struct trm_builder {
    graph *g;
    bool has_loss;
};

// ---- A job (job.c)

struct trm_job {
    char *path;     // NULL: no file
    job_call *call; // what was said of keys, in order
    int calls;
    size_t call_room;
    bool has_model, has_train, has_valid;
    own_model model;
    own_data train, valid;
    char *config_json; // of the own model
    text explained;
};

// A job that is complete and checked, with its inputs open.
typedef struct ready {
    job *job;
    session_inputs inputs;
} ready;

status job_ready(trm_job *j, ready *out, err *e);
void ready_close(ready *r);

// ---- A rank (train.c)

// log.jsonl in train.out, on rank 0; of no effect on the others.
typedef struct run_log {
    log_file *file;   // NULL: nothing was written yet
    bool *is_open;    // shared by all ranks and the process that starts them
    double began;     // clock_seconds
    bool interrupted; // a stop was asked for
    int64_t resumed;  // finished steps of the checkpoint gone on from; -1: none
    bool has_eval;    // an evaluation before the log was open, with its loss
    double eval_loss;
} run_log;

struct trm_trainer {
    const ready *ready;
    const char *config_json;
    world *world;
    int rank;
    session session;
    model_param_files files; // the model's tensors
    char *from;              // rank 0: the checkpoint of train.out that was resumed from, or NULL
    bool owns_folder; // rank 0: what an earlier run left in train.out is out of this one's way
    run_log log;
    bool stopped; // all ranks have agreed to, or no rank has data any more
};

// ---- The log (log.c). Failures are of the file.

// Called before every step and checkpoint. The first one after the trainer's opening or its
// resuming makes train.out this run's and begins the log, with its start event.
status api_log_open(trm_trainer *t, err *e);
status api_log_step(trm_trainer *t, const trainer_step_result *s, err *e);
status api_log_eval(trm_trainer *t, double loss, err *e);
status api_log_save(trm_trainer *t, const char *folder, double seconds, err *e);
// The rank's function has returned.
status api_log_end(trm_trainer *t, bool interrupted, err *e);
void api_log_close(trm_trainer *t);
// The run has failed: said by the process that started it.
void api_log_error(const job *j, const run_log *l, int rank, const err *why);

#endif
