// lr.h -- learning-rate schedules: a pure function of the number of finished optimizer steps.
//
// constant, linear, cosine and wsd warm up linearly (lr*(it+1)/warmup for it < warmup) and end at
// min_ratio*lr; DeepSpeed's names follow its formulas (runtime/lr_schedules.py) exactly, with the
// traps (logarithmic warm-up by default).
#ifndef TRIREME_OPTIM_LR_H
#define TRIREME_OPTIM_LR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum lr_name {
    LR_CONSTANT,
    LR_LINEAR,
    LR_COSINE,
    LR_WSD,
    LR_RANGE_TEST,
    LR_ONE_CYCLE,
    LR_WARMUP,
    LR_WARMUP_DECAY,
    LR_WARMUP_COSINE,
    LR_NAMES
} lr_name;

typedef enum lr_scaling { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT } lr_scaling;

typedef struct lr_config {
    lr_name name;
    int64_t warmup_steps;
    double min_ratio;
    int64_t decay_steps; // wsd: steps of the final decay (linear); 0 = a tenth of the run
    int64_t total_steps; // of the run; filled from train.steps when 0
    // DeepSpeed's own parameters, by their own names (interfaces §2.3)
    double warmup_min_lr, warmup_max_lr; // warmup_max_lr < 0: the optimizer's lr
    int64_t warmup_num_steps, total_num_steps;
    bool warmup_linear; // warmup_type
    double warmup_min_ratio, cos_min_ratio;
    double lr_range_test_min_lr, lr_range_test_step_rate;
    int64_t lr_range_test_step_size;
    bool lr_range_test_staircase;
    double cycle_min_lr, cycle_max_lr, decay_lr_rate;
    int64_t cycle_first_step_size, cycle_second_step_size /* 0 = first */, decay_step_size;
    int64_t cycle_first_stair_count, cycle_second_stair_count /* < 0 = first */;
    bool cycle_momentum;
    double cycle_min_mom, cycle_max_mom, decay_mom_rate;
} lr_config;

const char *lr_label(lr_name n); // the job file's word
bool lr_find(const char *word, lr_name *out);
void lr_defaults(lr_config *c); // DeepSpeed's and Trireme's defaults

// The learning rate of the step after `done` finished ones, for the optimizer's base lr.
double lr_at(const lr_config *c, double base_lr, int64_t done);
// OneCycle's beta1 for that step; otherwise `beta1` unchanged.
double lr_momentum_at(const lr_config *c, double beta1, int64_t done);
double lr_scale(double lr, lr_scaling s, int ranks); // lr, lr*ranks, lr*sqrt(ranks)

#endif
