// lr.h -- learning-rate schedules: a pure function of the number of finished optimizer steps.
//
// Trireme's own, with it = finished steps, W = warmup_steps, T = total_steps, r = min_ratio:
//   it < W      lr (it+1)/W; the full lr is reached in step W (a warm-up longer than the run never
//               gets there)
//   constant    lr
//   linear      lr (r + (1-r)(1-p)),            p = (it-W) / max(1, T-W-1)
//   cosine      lr (r + (1-r)(1+cos(pi p))/2),  p as for linear: the first step after the warm-up
//               has lr, the last of the run r*lr
//   wsd         lr until the last D steps, then as linear with p = (it-(T-D)+1) / D, where D is
//               decay_steps (0: a tenth of the run), at least 1 and at most T-W
// p is held within 0 … 1. Steps beyond T stay at r*lr.
//
// DeepSpeed's names follow its formulas with their traps, `it` being the finished steps (from 0),
// W = max(2, warmup_num_steps) and T = total_num_steps (0: the run's):
//   gamma             ln(it+1)/ln(W) for it < W, or it/W with warmup_linear
//   LRRangeTest       min (1 + rate i), i = (it+1)/size, floored with staircase
//   OneCycle          j = it+1 within the cycle of first+second steps: from cycle_min_lr to
//                     cycle_max_lr and back, in whole stairs when a count is given; afterwards
//                     cycle_min_lr / (1 + decay_lr_rate k), k = (j - cycle) / decay_step_size
//                     (decay_step_size 0: stays at cycle_min_lr)
//   WarmupLR          min + (max-min) gamma, gamma = 1 from W on
//   WarmupDecayLR     the same with gamma = max(0, (T-it) / max(1, T-W)) from W on
//   WarmupCosineLR    lr (warmup_min_ratio + (1-warmup_min_ratio) gamma), from W on
//                     lr (c + (1-c)(1+cos(pi p))/2), p = min(1, (it-W+1) / max(1, T-W)),
//                     c = cos_min_ratio
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

typedef enum lr_scaling { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT, LR_SCALES } lr_scaling;

typedef struct lr_config {
    lr_name name;
    int64_t warmup_steps;
    double min_ratio;
    int64_t decay_steps; // wsd: steps of the final decay (linear); 0 = a tenth of the run
    int64_t total_steps; // of the run; filled from train.steps when 0
    // DeepSpeed's own parameters, by their own names (interfaces §2.3)
    double warmup_min_lr, warmup_max_lr;       // warmup_max_lr < 0: the optimizer's lr
    int64_t warmup_num_steps, total_num_steps; // total_num_steps 0: total_steps
    bool warmup_linear;                        // warmup_type
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

// The job file's words, by lr_name; ended by NULL. DeepSpeed's schedules have DeepSpeed's names.
extern const char *const LR_LABELS[LR_NAMES + 1];
void lr_defaults(lr_config *c); // DeepSpeed's and Trireme's defaults

// The learning rate of the step after `done` finished ones, for the optimizer's base lr.
double lr_at(const lr_config *c, double base_lr, int64_t done);
// OneCycle's beta1 for that step (against the lr: cycle_max_mom down to cycle_min_mom and back,
// then cycle_max_mom (1 + decay_mom_rate k)); `beta1` itself under any other schedule and without
// cycle_momentum. Not for sgd, whose momentum DeepSpeed leaves alone.
double lr_momentum_at(const lr_config *c, double beta1, int64_t done);
double lr_scale(double lr, lr_scaling s, int ranks); // lr, lr*ranks, lr*sqrt(ranks)

#endif
