// lr.h -- learning-rate schedules: pure functions of the number of finished optimizer steps. Called by
// config/ (names, defaults) and train/ (the rate of each step). Knows nothing of weights.
//
// Trireme's own schedules, with it = finished steps, W = warmup_steps, T = total_steps,
// r = min_ratio:
//   it < W      lr (it+1)/W: step W has the full lr; a warm-up longer than the run does not reach it
//   constant    lr
//   linear      lr (r + (1-r)(1-p)),            p = (it-W) / max(1, T-W-1)
//   cosine      lr (r + (1-r)(1+cos(pi p))/2),  p as for linear: the first step after the warm-up
//               has lr, the last of the run r*lr
//   wsd         lr until the last D steps, then as linear with p = (it-(T-D)+1) / D, where D is
//               decay_steps (0: a tenth of the run), at least 1 and at most T-W
// p is limited to 0 ... 1. Steps beyond T stay at r*lr.
//
// DeepSpeed's schedules follow DeepSpeed's formulas exactly, with it = finished steps - 1, because its
// engine moves the schedule behind an update, and the first move leads to it = 0. The first step has
// what the constructor sets: min_lr, cycle_min_lr and cycle_min_mom, warmup_min_lr, or 0 for WarmupCosineLR.
// W = max(2, warmup_num_steps) and T = total_num_steps (0: the steps of the run):
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
//
// OptimizerParamScheduler is Megatron-LM's (core/optimizer_param_scheduler.py), with it = finished steps, W =
// lr_warmup_steps, D = lr_decay_steps (0: the steps of the run), X = wsd_decay_steps; Megatron-LM counts samples, so
// that these may be fractions:
//   it <= W, W > 0       init_lr + (lr - init_lr) it/W
//   constant             lr
//   it > D               min_lr
//   inverse-square-root  max(min_lr, lr sqrt(max(W, 1/B)) / sqrt(max(it, 1/B))), B = samples of a step
//   linear, cosine       min_lr + (lr - min_lr) c, c = 1-p or (1+cos(pi p))/2, p = (it-W) / (D-W)
//   WSD                  the same, c = 1 up to D-X, then with q = (it-(D-X)) / X: linear 1-q, cosine
//                        (1+cos(pi q))/2, exponential 2 * 0.5^q - 1, minus_sqrt 1-sqrt(q)
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
    LR_MEGATRON,
    LR_NAMES
} lr_name;

typedef enum lr_scaling { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT, LR_SCALES } lr_scaling;

// Parameters of DeepSpeed's WarmupLR, WarmupDecayLR and WarmupCosineLR, without the prefix warmup_.
typedef struct lr_warmup {
    double min_lr, max_lr; // max_lr < 0: the optimizer's lr
    int64_t num_steps;
    int64_t total_num_steps; // 0: total_steps of the run
    bool linear;             // warmup_type linear; false: log
    double min_ratio, cos_min_ratio;
} lr_warmup;

// Parameters of DeepSpeed's LRRangeTest, without the prefix lr_range_test_.
typedef struct lr_range_test {
    double min_lr, step_rate;
    int64_t step_size;
    bool staircase;
} lr_range_test;

// Parameters of DeepSpeed's OneCycle, without the prefix cycle_.
typedef struct lr_one_cycle {
    double min_lr, max_lr, decay_lr_rate;
    int64_t first_step_size;
    int64_t second_step_size; // 0: first_step_size
    int64_t decay_step_size;  // 0: no decay
    int64_t first_stair_count;
    int64_t second_stair_count; // < 0: first_stair_count
    bool moves_momentum;        // cycle_momentum
    double min_mom, max_mom, decay_mom_rate;
} lr_one_cycle;

typedef enum lr_decay_style {
    LR_DECAY_LINEAR,
    LR_DECAY_CONSTANT,
    LR_DECAY_COSINE,
    LR_DECAY_INVERSE_SQRT,
    LR_DECAY_WSD,
    LR_DECAY_STYLES
} lr_decay_style;

typedef enum lr_wsd_style {
    LR_WSD_EXPONENTIAL,
    LR_WSD_LINEAR,
    LR_WSD_COSINE,
    LR_WSD_MINUS_SQRT,
    LR_WSD_STYLES
} lr_wsd_style;

// Parameters of Megatron-LM's OptimizerParamScheduler.
typedef struct lr_megatron {
    lr_decay_style style;
    lr_wsd_style wsd_style;
    double init_lr, min_lr;
    double warmup_steps, decay_steps, wsd_decay_steps; // decay_steps 0: total_steps of the run
} lr_megatron;

typedef struct lr_config {
    lr_name name;
    int64_t warmup_steps; // DeepSpeed's schedules do not use this one and the next two
    double
        warmup_ratio; // > 0: the warm-up is this share of total_steps, rounded up; config/ sets its length
    double min_ratio;    // the last learning rate, as a fraction of the first
    int64_t decay_steps; // wsd: steps of the final, linear decay; 0: a tenth of the run
    int64_t total_steps; // of the run; config/ fills it from train.steps where it is 0
    lr_warmup warmup;
    lr_range_test range_test;
    lr_one_cycle cycle;
    lr_megatron megatron;
    int64_t global_batch; // samples of a step; config/ fills it. Only inverse-square-root reads it
} lr_config;

// The job file's words, by lr_name; ended by NULL. DeepSpeed's schedules have DeepSpeed's names, and Megatron-LM's has its.
extern const char *const LR_LABELS[LR_NAMES + 1];
extern const char *const LR_DECAY_STYLE_NAMES[LR_DECAY_STYLES + 1];
extern const char *const LR_WSD_STYLE_NAMES[LR_WSD_STYLES + 1];
// Sets the length of the warm-up from warmup_ratio and total_steps, where the ratio is not 0.
void lr_apply_warmup_ratio(lr_config *c);
// The steps of the warm-up; 0: the schedule has none.
int64_t lr_warmup_length(const lr_config *c);
void lr_defaults(lr_config *c); // DeepSpeed's and Trireme's defaults

// The learning rate of the step after `done` finished steps, for the optimizer's base lr.
double lr_at(const lr_config *c, double base_lr, int64_t done);
// The beta1 of that step. OneCycle with cycle_momentum moves it against the learning rate, from
// cycle_max_mom to cycle_min_mom and back, then as cycle_max_mom (1 + decay_mom_rate k). Otherwise it
// is `beta1`. Not for sgd, whose momentum DeepSpeed does not change.
double lr_momentum_at(const lr_config *c, double beta1, int64_t done);
// lr, lr * ranks or lr * sqrt(ranks).
double lr_scale(double lr, lr_scaling s, int ranks);

#endif
