// api.h -- private to api/: the structs behind the handles of trireme.h, and the conversion of
// errors. Every trm_ function calls an inner function that returns a status, and converts it with
// api_give.
#ifndef TRIREME_API_API_H
#define TRIREME_API_API_H

#include "session/run.h"
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

// ---- The program's sinks (sink.c)

typedef struct api_sink {
    trm_sink take;
    void *context;
} api_sink;

// Gives an event to all sinks of the job, for event_sink; `arg` is the trm_job.
status api_sinks_take(void *arg, const event *ev, err *e);
void api_sinks_close(void *arg); // does nothing

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
    api_sink *sink; // [sinks] in the order of the calls
    size_t sinks, sink_room;
    char *config_json; // of the program's model
    text explained;    // the latest text of trm_job_explain
    text lost; // what the latest configuration of another system asked for, and has no equal
};

// The data and the model of the program, which live as long as the job.
session_own_inputs api_job_inputs(trm_job *j);
// Says in *own what the program brings.
void api_job_own(const trm_job *j, job_own *own);

// ---- A rank (train.c)

struct trm_trainer {
    session_rank *rank;
    model_param_files files; // the model's tensors
    bool stopped;            // all ranks agreed to stop, or no rank has more data
    struct {
        trm_comm_hook run; // NULL: none
        void *state;
        trm_bucket_tensor *tensor; // [local_rows] in the order of the plan
    } hook;
};

// Notes the end of a step. *out (NULL allowed) is what the program learns of it.
void api_end_step(trm_trainer *t, const trainer_step_result *s, trm_step *out);

#endif
