// session.h -- a job brought to life: its inputs opened and checked in the starting process, then
// device, communicator and trainer on every rank. The commands and libtrireme both stand on it.
#ifndef TRIREME_SESSION_SESSION_H
#define TRIREME_SESSION_SESSION_H

#include "comm/world.h"
#include "config/job.h"
#include "train/trainer.h"

// What a job reads, opened once before any rank starts and shared by them (mapped files).
typedef struct inputs {
    dataset *train, *valid; // valid NULL when the job has none
    safetensors *weights;   // NULL when they are drawn
    char *tokenizer_folder; // whose tokenizer files a checkpoint copies; NULL for none
} inputs;

// Opens data sets and weights, solves the batch rule and the number of steps, and checks that the
// plan fits in memory. E_USAGE or E_FIT; nothing on disk is changed and no thread is left. Fills
// j's resolved fields.
status inputs_open(job *j, inputs *out, err *e);
void inputs_close(inputs *in);

// The trainer's options for this job, without device and communicator: enough for trainer_plan.
status session_options(const job *j, const inputs *in, int ranks, trainer_options *out, err *e);

typedef struct session {
    device *device;
    comm *comm;
    trainer *trainer;
} session;

// One rank's part. Collective over the world.
status session_open(const job *j, const inputs *in, world *w, int rank, session *out, err *e);
void session_close(session *s); // safe on a zeroed one

#endif
