// clip.h -- what all ranks agree on before the optimizer step, in one small all-reduce: the loss, the
// global gradient norm, whether both are finite, whether a rank asks to stop, and how many samples
// the step had. From these follows the factor that clips the gradients. All of it is computed on the
// device, and the host waits for nothing. train/ calls it, and reads the result after the step.
#ifndef TRIREME_OPTIM_CLIP_H
#define TRIREME_OPTIM_CLIP_H

#include "comm/comm.h"
#include "device/kernel_step.h"
#include "parallel/plan.h"

// Several ranks may hold the same reduced gradients of a group: each sums the squares of its share
// of them, so that the norm counts every gradient once: share *index of *shares equal ones.
void clip_share(const plan *p, const plan_group *g, int *index, int *shares);

// Reduces step->sums, in place, and computes step->result from them (K_CLIP).
//   step       in device memory; it has `sums` sums (kernel_step_sums)
//   max_norm   clips as torch.nn.utils.clip_grad_norm_ does; 0: no clipping
//   visit      of the all-reduce (comm_call); NULL: nobody asks
// Collective over c, which holds all ranks.
status clip_agree(comm *c, device_stream *on, kernel_step *step, int sums, double max_norm,
                  comm_visit *visit, err *e);

#endif
