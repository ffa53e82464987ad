// state.h -- the inside of a trainer, shared by the files of this folder.
#ifndef TRIREME_TRAIN_STATE_H
#define TRIREME_TRAIN_STATE_H

#include "data/loader.h"
#include "graph/run.h"
#include "optim/clip.h"
#include "train/trainer.h"

enum { SLOTS = 2 }; // batches on the device: one computed on, one being copied

// A piece of device memory that the trainer owns.
typedef struct memory {
    memory_kind kind;
    size_t bytes;
    void *at;
} memory;

enum { MEMORIES = 24 };

struct trainer {
    trainer_options o;
    plan *plan;
    schedule schedule;
    model *model, *eval; // eval NULL without a validation set
    double flops;        // of one micro-batch
    int micros;

    stream *stream[STREAMS];
    event *loaded[SLOTS], *consumed[SLOTS], *computed, *reduced;

    memory owned[MEMORIES];
    int owned_count;
    float *weights, *gradients, *state[STATE_PARTS]; // state[STATE_WEIGHT] is weights
    void *low;             // weights as computed in; `weights` itself when fp32
    char **boundary;       // output of each block but the last
    char **saved;          // of each block
    char *work, *spare[2]; // spare: gradients handed between blocks
    char *ids[SLOTS], *labels[SLOTS];
    float
        *features; // fp32 vectors before their conversion, when the model computes in another type
    float *rope;
    double *sums, *host_sums;
    void *host_batch;
    uint64_t *digest, *host_digest;

    // Per block, per parameter of its graph.
    void ***block_weight;
    float ***block_gradient;
    bool ***block_touched;
    bool *touched; // per parameter

    sampler *sampler;
    loader *loader;
    batch batch; // the one in use
    bool batch_held;
    uint64_t loads;      // batches loaded so far; slot = loads % SLOTS
    uint64_t first_hash; // of all batches of step 1
    char *dout;          // gradient of the output of the block that is next in backward
    int dout_spare;      // which spare it lies in, or -1
    clip_result agreed;
    uint64_t steps_done;
    bool stop;
};

// memory.c
status trainer_allocate(trainer *t, err *e);
void trainer_free_memory(trainer *t);
void trainer_count_bytes(const trainer_options *o, const model *m, const model *eval, plan *p);

// step.c
// Copies a micro-batch from the host into slot `slot`, in the type that the model computes in.
void trainer_upload(trainer *t, stream *on, int slot, const void *inputs, const void *labels);
run_context trainer_context(trainer *t, const model *m, int block);
status trainer_run_micro(trainer *t, int micro, err *e); // forward and backward only
void trainer_reset_sums(trainer *t);
size_t trainer_input_item(const trainer *t);

// nonfinite.c
status trainer_name_nonfinite(trainer *t, err *e);

#endif
