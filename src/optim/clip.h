// clip.h -- what all ranks must agree on before the update: the loss over all of them, the global
// gradient norm, whether everything is finite, whether somebody asks to stop, how many samples
// there were. One small all-reduce a step.
#ifndef TRIREME_OPTIM_CLIP_H
#define TRIREME_OPTIM_CLIP_H

#include "comm/comm.h"
#include "parallel/plan.h"

// F64 sums in device memory; LOSS and COUNT are added to by the loss kernels, SQUARES as buckets
// are reduced.
typedef enum clip_sum { SUM_LOSS, SUM_COUNT, SUM_SQUARES, SUM_STOP, SUM_SAMPLES, SUMS } clip_sum;

typedef struct clip_result {
    double loss;    // mean over valid positions of the global batch
    double count;   // valid positions
    double norm;    // of the mean gradient, before clipping
    double samples; // of the global batch; 0: no rank has data any more
    double scale;   // what the summed gradient is multiplied by: 1/count, and the clipping
    bool finite;
    bool stop;
} clip_result;

// Several ranks hold the same reduced gradients where they are whole: each of them sums the squares
// of its share of them, `index` of `of`, so that the norm has them once.
void clip_share(const plan *p, int *index, int *of);

// Adds `stop` and the `samples` that this rank answers for to its sums, reduces them, and waits for
// the result. `sums`, `host`: SUMS doubles of device and host memory. The gradients are `factor`
// times what they stand for (fp16's loss scale; 1 else). Clips to max_norm as
// torch.nn.utils.clip_grad_norm_ does; 0 = off. Collective over c, all ranks.
status clip_agree(comm *c, device_stream *on, double *sums, double *host, bool stop, double samples,
                  double max_norm, double factor, clip_result *out, err *e);

#endif
