// kernel_update.h -- the specification of the kernels that end a step: K_CLIP and K_UPDATE. A part of
// kernels.h, which includes it and says the conventions.
#ifndef TRIREME_DEVICE_KERNEL_UPDATE_H
#define TRIREME_DEVICE_KERNEL_UPDATE_H

#include "base/dtype.h"
#include "device/kernel_segment.h"
#include "device/kernel_step.h"

#include <stdint.h>

// Computes the results of the reduced sums of a step. It reads sums and loss_scale of *step, and writes its
// result, in F64. With n = COUNT, or 1 where no position is valid (COUNT 0):
//
//   loss  = LOSS / n      count = COUNT      norm = sqrt(SQUARES) / n / loss_scale
//   scale = 1 / n / loss_scale, times max_norm / (norm + 1e-6) if max_norm > 0 and this is below 1,
//           as torch.nn.utils.clip_grad_norm_
//   samples = SAMPLES     stop = STOP > 0    finite: loss and norm are
//   applies: finite, and samples > 0
typedef struct kernel_clip_args {
    kernel_step *step;
    double max_norm; // 0: no clipping
} kernel_clip_args;

typedef enum kernel_update_rule {
    UPDATE_ADAMW,
    UPDATE_ADAM,
    UPDATE_SGD,
    UPDATE_LION,
    UPDATE_RULES
} kernel_update_rule;

// One optimizer step on `count` elements. First g is multiplied by result.scale of the step, rounded to
// F32. Then, with b1 = beta1, b2 = beta2, wd = weight_decay, c1 = 1 - b1^t and c2 = 1 - b2^t in the t-th
// update:
//
//   adamw   w -= lr*wd*w
//           m  = b1 m + (1-b1) g
//           v  = b2 v + (1-b2) g^2
//           w -= lr * (m/c1) / (sqrt(v/c2) + eps)
//   adam    g += wd*w, then as adamw without its first line          (torch.optim.Adam)
//   sgd     g += wd*w
//           m  = b1 m + g, or m = g on the first step
//           w -= lr * m, or w -= lr * g when m is NULL (b1 = 0)      (torch.optim.SGD)
//   lion    w -= lr*wd*w
//           w -= lr * sign(b1 m + (1-b1) g)
//           m  = b2 m + (1-b2) g
//
// With `average`, then: average = (1-r) average + r w, where r is average_rest of the group
// (torch.optim.swa_utils.get_ema_multi_avg_fn with the decay 1-r).
//
// If result.applies of the step is false, w, m, v and average stay, and low is w rounded, as it was.
//
// A segment has its g at `src`, its m, v and average at `state`, and its low at `dst`. Its w is at `state` where
// there is low, and at `dst` where there is none: a master weight is optimizer state.
typedef struct kernel_update_args {
    int64_t count;                 // elements, of all segments together
    const kernel_segment *segment; // [segments]; NULL: the arrays are one, which decays
    int64_t segments;
    float *w, *m, *v; // [count]; m and v are NULL where the rule has none
    const float *g;   // [count]
    float *average;   // [count] moving average of w; NULL: not wanted
    void *low;        // [count]: receives w rounded to low_type; NULL: not wanted
    dtype low_type;
    kernel_update_rule rule;
    float beta2, eps, weight_decay;
    const kernel_step *step;        // NULL: as kernel_step_read says
    const kernel_step_group *group; // its numbers
} kernel_update_args;

#endif
