// api.h -- private to api/: how the library's handles hold the inner ones, and how errors cross the
// border. Every trm_ function is an inner function that returns a status, wrapped by api_give.
#ifndef TRIREME_API_API_H
#define TRIREME_API_API_H

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
    family_ops ops;
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
    char *path;  // NULL: no file
    char **args; // --key=value
    int count;
    bool has_model, has_train, has_valid;
    own_model model;
    own_data train, valid;
    char *config_json; // of the own model
    text explained;
};

// A job that is complete and checked, with its inputs open.
typedef struct ready {
    job *job;
    inputs inputs;
} ready;

status job_ready(trm_job *j, ready *out, err *e);
void ready_close(ready *r);

// ---- A rank (run.c)

struct trm_trainer {
    const ready *ready;
    const char *config_json;
    world *world;
    int rank;
    session session;
    param_files files; // the model's tensors
    char *from;        // rank 0: the checkpoint of train.out that was resumed from, or NULL
    bool owns_folder;  // rank 0: what an earlier run left in train.out is out of this one's way
    bool stopped;      // all ranks have agreed to, or no rank has data any more
};

#endif
