// kernel_step.h -- what differs from one training step to the next, as one struct in device memory. The
// host writes it before a step (train/results.c), K_CLIP completes it when the norm of the gradients is
// known, and other kernels read it. So the calls of a step are the same in every step, and no call
// waits for a number that the host has to compute. It does not know what a parameter or a rank is.
#ifndef TRIREME_DEVICE_KERNEL_STEP_H
#define TRIREME_DEVICE_KERNEL_STEP_H

#include "base/rng.h"
#include "device/kernel_preference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The sums of a step, each over all ranks once they are reduced. The loss kernels add to LOSS and
// COUNT, K_SUM_SQUARES adds the squares of reduced gradients to SQUARES, and the host writes STOP and
// SAMPLES. The squares of single parameter groups stand behind all of these, where they are wanted.
typedef enum kernel_step_sum {
    SUM_LOSS,
    SUM_COUNT,
    SUM_SQUARES,
    SUM_STOP,
    SUM_SAMPLES,
    STEP_SUMS,
    SUM_PREFERENCE =
        STEP_SUMS, // the first of PREFERENCE_SUMS more, where the loss is of preferences
    STEP_MOST_SUMS = STEP_SUMS + PREFERENCE_SUMS,
    SUM_GROUP_SQUARES = STEP_MOST_SUMS // the first of the sums of groups
} kernel_step_sum;

// The sums of a step whose loss is of preferences, or is not, and which sums the squares of `groups`
// apart.
ON_DEVICE static inline int kernel_step_sums(bool preferences, int groups)
{
    if (groups > 0) return SUM_GROUP_SQUARES + groups;
    return preferences ? STEP_MOST_SUMS : STEP_SUMS;
}

// The results that K_CLIP computes from the reduced sums.
typedef struct kernel_step_result {
    double loss;    // mean over valid positions of the global batch
    double count;   // valid positions
    double norm;    // of the mean gradient, before clipping
    double samples; // of the global batch; 0: the data has ended on every rank
    double scale;   // the optimizer multiplies the summed gradient by it: 1/count, and the clipping
    bool finite;    // loss and norm are
    bool stop;      // some rank asks to stop
    bool applies;   // the optimizer updates the weights
} kernel_step_result;

typedef struct kernel_step {
    kernel_step_result result;
    uint64_t step;      // finished steps; keys random numbers
    uint64_t first_row; // number of this rank's first row of the step among all rows of the run
    double loss_scale;  // factor of the loss' gradient, and so of every gradient
    double shared;      // kernel_preference_args.shared
    double sums[STEP_MOST_SUMS]; // behind the struct: those of groups
} kernel_step;

// The numbers of one parameter group for K_UPDATE, which explains them.
typedef struct kernel_step_group {
    float lr, beta1, c1, c2;
    float average_rest; // share of the new weights in their moving average
    bool first;         // sgd: no update came before, m holds nothing yet
} kernel_step_group;

// The numbers of the step. A kernel calls it once a launch. Without a step (NULL, as in tests and
// in evaluation) no step is finished, nothing is scaled, and every update applies.
ON_DEVICE static inline kernel_step kernel_step_read(const kernel_step *s)
{
    if (s) return *s;
    kernel_step none;
    memset(&none, 0, sizeof none);
    none.loss_scale = 1;
    none.result.scale = 1;
    none.result.applies = true;
    return none;
}

// The random numbers of a dropout.
typedef struct kernel_draw {
    const kernel_step *step; // NULL: as kernel_step_read says
    uint64_t seed;
    uint64_t node; // number of the dropout in the model
    uint64_t row0; // row 0 of the call has this logical row of the step
} kernel_draw;

// The key of these numbers, and the number of row 0 among all rows of the run.
typedef struct kernel_draw_key {
    rng_key key;
    uint64_t row0;
} kernel_draw_key;

ON_DEVICE static inline kernel_draw_key kernel_draw_read(const kernel_draw *d)
{
    const kernel_step s = kernel_step_read(d->step);
    return (kernel_draw_key){rng_key_make(d->seed, RNG_DROPOUT, s.step, d->node),
                             s.first_row + d->row0};
}

#endif
