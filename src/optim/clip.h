// clip.h -- what all ranks agree on before the optimizer step, in one small all-reduce: the loss, the
// global gradient norm, whether both are finite, whether a rank asks to stop, and how many samples
// the step had. From these follows the factor that clips the gradients.
#ifndef TRIREME_OPTIM_CLIP_H
#define TRIREME_OPTIM_CLIP_H

#include "comm/comm.h"
#include "parallel/plan.h"

// The sums that the ranks reduce, F64 in device memory. The loss kernels add to LOSS and COUNT; train/
// adds the squares of each bucket's gradients to SQUARES after the bucket is reduced.
typedef enum clip_sum { SUM_LOSS, SUM_COUNT, SUM_SQUARES, SUM_STOP, SUM_SAMPLES, SUMS } clip_sum;

typedef struct clip_result {
    double loss;    // mean over valid positions of the global batch
    double count;   // valid positions
    double norm;    // of the mean gradient, before clipping
    double samples; // of the global batch; 0: the data has ended on every rank
    double scale;   // the optimizer multiplies the summed gradient by it: 1/count, and the clipping
    bool finite;    // loss and norm are
    bool stop;      // some rank asks to stop
} clip_result;

// Where several ranks hold the same reduced gradients of a group, each sums the squares of its share
// of them, so that the norm counts every gradient once: share *index of *shares equal ones.
void clip_share(const plan *p, const plan_group *g, int *index, int *shares);

// Adds `stop` and this rank's `samples` to its sums, reduces them, and waits for the result.
//   sums, host   [SUMS] F64, in device and host memory
//   max_norm     clips as torch.nn.utils.clip_grad_norm_ does; 0: no clipping
//   factor       the gradients are so many times the true ones (the loss scale of fp16; else 1)
// Collective over c, which holds all ranks.
status clip_agree(comm *c, device_stream *on, double *sums, double *host, bool stop, double samples,
                  double max_norm, double factor, clip_result *out, err *e);

#endif
