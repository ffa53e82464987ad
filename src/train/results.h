// results.h -- the numbers that a step computes: the sums of loss, positions and squared gradients,
// the loss and the norm on which all ranks agree, the loss scale, the count of finished steps, and
// the seconds of each kind of instruction. It owns the memory of the sums.
#ifndef TRIREME_TRAIN_RESULTS_H
#define TRIREME_TRAIN_RESULTS_H

#include "optim/clip.h"
#include "parallel/schedule.h"
#include "train/trainer.h"

typedef struct trainer_results trainer_results;

// Counts memory, or allocates it.
status results_allocate(trainer *t, err *e);
void results_close(trainer *t);

// The number of finished steps, and of those among them that skipped the update.
uint64_t results_steps_done(const trainer *t);
uint64_t results_skipped(const trainer *t);
void results_set_steps_done(trainer *t, uint64_t steps);
void results_set_skipped(trainer *t, uint64_t steps);
// The number of updates so far. A skipped step advances neither the learning rate nor Adam's bias
// correction, as in DeepSpeed.
int64_t results_updates(const trainer *t);

// [SUMS] F64, on the device and on the host.
double *results_sums(const trainer *t);
double *results_host_sums(const trainer *t);
// Sets the sums on the device to zero, on the compute stream.
void results_reset_sums(trainer *t);
// Copies sums `first` to `first + count - 1` to the host, on the compute stream, and waits for
// them.
status results_read_sums(trainer *t, int first, int count, err *e);

// All ranks agree on the loss, the gradient norm, whether all gradients are finite, and whether a
// rank has requested a stop.
status run_clip_grad_norm(trainer *t, const schedule_instr *x, err *e);
const clip_result *results_agreed(const trainer *t);
// The factor that the gradients had when CLIP_GRAD_NORM last ran; 0: it has not run yet.
double results_agreed_scale(const trainer *t);
// The factor by which the gradient of the loss is multiplied, so that fp16 can represent the
// gradients that follow from it; 1 with other types.
double results_gradient_scale(const trainer *t);
scaler *results_scaler(const trainer *t);

// Starts a step. `stop` says that this rank requests a stop after it.
void results_start_step(trainer *t, bool stop);
void results_add_seconds(trainer *t, schedule_instr_kind kind, double seconds);
// The result of the step, without its seconds.
trainer_step_result results_of_step(const trainer *t);
// Counts the step and adapts the loss scale. *rescaled: the loss scale has changed.
status results_end_step(trainer *t, bool *rescaled, err *e);

#endif
