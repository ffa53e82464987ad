// results.h -- the numbers of a step. The host gives some to the device before the step: how many steps
// are finished, learning rates, the loss scale. The step computes others: the sums of loss, positions
// and squared gradients, the loss and the norm on which all ranks agree, and whether the weights are
// updated. It owns the memory of both (a kernel_step), the loss scaler, the count of finished steps and
// the seconds of each kind of instruction.
#ifndef TRIREME_TRAIN_RESULTS_H
#define TRIREME_TRAIN_RESULTS_H

#include "device/kernel_step.h"
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

// Copies the numbers of the step to the device, and sets the sums to zero. The compute stream then has
// all batches.
status run_load_step(trainer *t, const schedule_instr *x, err *e);
// In device memory. Of a training step only.
const kernel_step *results_step(const trainer *t);
const kernel_step_group *results_step_group(const trainer *t, int group);
// The same in the host's memory, for updates that run there: complete when the host has awaited the
// communication stream after CLIP_GRAD_NORM.
const kernel_step *results_host_step(const trainer *t);
const kernel_step_group *results_host_step_group(const trainer *t, int group);

// [STEP_MOST_SUMS] F64, on the device and on the host.
double *results_sums(const trainer *t);
double *results_host_sums(const trainer *t);
// The sum of squares of a parameter group, on the device; plan->o.norm_groups only.
double *results_group_sum(const trainer *t, int group);
// Sets the sums on the device to zero, on the compute stream. For an evaluation.
void results_reset_sums(trainer *t);
// The means over the pairs of the sums on the host, which are of a step or of an evaluation; zeros with other losses.
event_preferences results_preferences(const trainer *t);
// Copies sums `first` to `first + count - 1` to the host, on the compute stream, and waits for
// them.
status results_read_sums(trainer *t, int first, int count, err *e);

// All ranks agree on the loss, the gradient norm, whether all gradients are finite, and whether a
// rank has requested a stop. The result stays on the device.
status run_clip_grad_norm(trainer *t, const schedule_instr *x, err *e);
// Copies the result to the host, on the communication stream. It is there when that stream is idle.
void results_copy_agreed(trainer *t);
// The result that was copied last.
const kernel_step_result *results_agreed(const trainer *t);
// The loss scale of the last step, which its gradients have as a factor; 0: there was no step.
double results_agreed_scale(const trainer *t);
scaler *results_scaler(const trainer *t);

// Starts a step. `stop` says that this rank requests a stop after it.
void results_start_step(trainer *t, bool stop);
void results_add_seconds(trainer *t, schedule_instr_kind kind, double seconds);
// The result of the step, without its seconds.
trainer_step_result results_of_step(const trainer *t);
// Counts the step and adapts the loss scale. *rescaled: the loss scale has changed.
status results_end_step(trainer *t, bool *rescaled, err *e);

#endif
