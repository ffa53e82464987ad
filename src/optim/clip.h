// clip.h -- what all ranks must agree on before the update: the loss over all of them, the global
// gradient norm, whether everything is finite, whether somebody asks to stop. One small all-reduce
// a step.
#ifndef TRIREME_OPTIM_CLIP_H
#define TRIREME_OPTIM_CLIP_H

#include "comm/comm.h"
#include "parallel/plan.h"

// F64 sums in device memory; LOSS and COUNT are added to by the loss kernels.
typedef enum clip_sum { SUM_LOSS, SUM_COUNT, SUM_SQUARES, SUM_STOP, SUMS } clip_sum;

typedef struct clip_result {
    double loss;  // mean over valid positions of the global batch
    double count; // valid positions
    double norm;  // of the mean gradient, before clipping
    double scale; // what the summed gradient is multiplied by: 1/count, and the clipping
    bool finite;
    bool stop;
} clip_result;

// Sums the squares of this rank's own part of every reduced bucket (a copy that others hold too is
// counted once), adds `stop`, reduces, and waits for the result. `sums`, `host`: SUMS doubles of
// device and host memory. Clips to max_norm as torch.nn.utils.clip_grad_norm_ does; 0 = off.
// Collective over c.
status clip_gradients(const plan *p, const float *gradients, comm *c, stream *on, double *sums,
                      double *host, bool stop, double max_norm, clip_result *out, err *e);

#endif
