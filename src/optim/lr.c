// lr.c -- learning-rate schedules, by the formulas of lr.h. Called by the job file's reader (names,
// defaults, scaling) and by the trainer before each step. Deliberately keeps no state: a resumed
// run asks for the same step and gets the same bits.
#include "optim/lr.h"

#include <math.h>
#include <string.h>

const char *const LR_LABELS[LR_NAMES + 1] = {
    [LR_CONSTANT] = "constant",
    [LR_LINEAR] = "linear",
    [LR_COSINE] = "cosine",
    [LR_WSD] = "wsd",
    [LR_RANGE_TEST] = "LRRangeTest",
    [LR_ONE_CYCLE] = "OneCycle",
    [LR_WARMUP] = "WarmupLR",
    [LR_WARMUP_DECAY] = "WarmupDecayLR",
    [LR_WARMUP_COSINE] = "WarmupCosineLR",
};

void lr_defaults(lr_config *c)
{
    *c = (lr_config){
        .name = LR_COSINE,
        .warmup_steps = 100,
        .min_ratio = 0.1,
        .warmup_max_lr = -1.0,
        .warmup_num_steps = 1000,
        .cos_min_ratio = 1e-4,
        .lr_range_test_min_lr = 1e-3,
        .lr_range_test_step_size = 2000,
        .lr_range_test_step_rate = 1.0,
        .cycle_first_step_size = 2000,
        .cycle_second_stair_count = -1,
        .cycle_momentum = true,
        .cycle_min_mom = 0.8,
        .cycle_max_mom = 0.9,
    };
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double fraction(int64_t part, int64_t whole)
{
    double p = (double)part / (double)longer(1, whole);
    return p < 0.0 ? 0.0 : p > 1.0 ? 1.0 : p;
}

// The share of the way from 1 down to 0 of a half cosine.
static double half_cosine(double p)
{
    return (1.0 + cos(M_PI * p)) / 2.0;
}

static double own_ratio(const lr_config *c, int64_t it)
{
    int64_t left = c->total_steps - c->warmup_steps, decay = c->decay_steps;
    double r = c->min_ratio, p;

    if (it < c->warmup_steps) return (double)(it + 1) / (double)c->warmup_steps;
    switch (c->name) {
    case LR_LINEAR:
        return r + (1.0 - r) * (1.0 - fraction(it - c->warmup_steps, left - 1));
    case LR_COSINE:
        return r + (1.0 - r) * half_cosine(fraction(it - c->warmup_steps, left - 1));
    case LR_WSD:
        if (decay <= 0) decay = c->total_steps / 10;
        decay = longer(1, decay > left ? left : decay);
        p = fraction(it - (c->total_steps - decay) + 1, decay);
        return r + (1.0 - r) * (1.0 - p);
    default:
        return 1.0;
    }
}

static double range_test(const lr_config *c, int64_t it)
{
    double i = (double)(it + 1) / (double)c->lr_range_test_step_size;
    if (c->lr_range_test_staircase) i = floor(i);
    return c->lr_range_test_min_lr * (1.0 + c->lr_range_test_step_rate * i);
}

static int64_t cycle_second(const lr_config *c)
{
    return c->cycle_second_step_size > 0 ? c->cycle_second_step_size : c->cycle_first_step_size;
}

// How far up the cycle is after `it` finished steps: 0 at its ends, 1 at its peak.
static double cycle_height(const lr_config *c, int64_t it)
{
    int64_t first = c->cycle_first_step_size, second = cycle_second(c);
    int64_t j = (it + 1) % (first + second);
    int64_t stairs = c->cycle_first_stair_count;
    int64_t part = j, whole = first;

    if (j > first) {
        part = first + second - j;
        whole = second;
        if (c->cycle_second_stair_count >= 0) stairs = c->cycle_second_stair_count;
    }
    // Whole numbers, so that a stair begins exactly where it should.
    if (stairs > 0) return (double)((__int128)part * stairs / whole) / (double)stairs;
    return (double)part / (double)whole;
}

// The decay intervals since the end of the cycle; < 0 within it.
static double cycle_intervals(const lr_config *c, int64_t it)
{
    int64_t cycle = c->cycle_first_step_size + cycle_second(c);
    if (it < cycle) return -1.0;
    if (c->decay_step_size == 0) return 0.0;
    return (double)(it - cycle + 1) / (double)c->decay_step_size;
}

static double one_cycle(const lr_config *c, int64_t it)
{
    double k = cycle_intervals(c, it);
    if (k >= 0.0) return c->cycle_min_lr / (1.0 + c->decay_lr_rate * k);
    return c->cycle_min_lr + (c->cycle_max_lr - c->cycle_min_lr) * cycle_height(c, it);
}

static double warmup_gamma(const lr_config *c, int64_t it, int64_t w)
{
    if (c->warmup_linear) return (double)it / (double)w;
    return log((double)(it + 1)) / log((double)w);
}

static double warmup(const lr_config *c, double base_lr, int64_t it)
{
    int64_t w = longer(2, c->warmup_num_steps);
    int64_t total = c->total_num_steps > 0 ? c->total_num_steps : c->total_steps;
    double max_lr = c->warmup_max_lr < 0.0 ? base_lr : c->warmup_max_lr, gamma = 1.0;

    if (it < w) {
        gamma = warmup_gamma(c, it, w);
    } else if (c->name == LR_WARMUP_DECAY) {
        gamma = (double)longer(0, total - it) / (double)longer(1, total - w);
    }
    return c->warmup_min_lr + (max_lr - c->warmup_min_lr) * gamma;
}

static double warmup_cosine(const lr_config *c, double base_lr, int64_t it)
{
    int64_t w = longer(2, c->warmup_num_steps);
    int64_t total = c->total_num_steps > 0 ? c->total_num_steps : c->total_steps;
    double low = c->cos_min_ratio;

    if (it < w) {
        double r0 = c->warmup_min_ratio;
        return base_lr * (r0 + (1.0 - r0) * warmup_gamma(c, it, w));
    }
    return base_lr * (low + (1.0 - low) * half_cosine(fraction(it - w + 1, total - w)));
}

double lr_at(const lr_config *c, double base_lr, int64_t done)
{
    switch (c->name) {
    case LR_RANGE_TEST:
        return range_test(c, done);
    case LR_ONE_CYCLE:
        return one_cycle(c, done);
    case LR_WARMUP:
    case LR_WARMUP_DECAY:
        return warmup(c, base_lr, done);
    case LR_WARMUP_COSINE:
        return warmup_cosine(c, base_lr, done);
    default:
        return base_lr * own_ratio(c, done);
    }
}

double lr_momentum_at(const lr_config *c, double beta1, int64_t done)
{
    double k;

    if (c->name != LR_ONE_CYCLE || !c->cycle_momentum) return beta1;
    k = cycle_intervals(c, done);
    if (k >= 0.0) return c->cycle_max_mom * (1.0 + c->decay_mom_rate * k);
    return c->cycle_max_mom - (c->cycle_max_mom - c->cycle_min_mom) * cycle_height(c, done);
}

double lr_scale(double lr, lr_scaling s, int ranks)
{
    switch (s) {
    case LR_SCALE_LINEAR:
        return lr * ranks;
    case LR_SCALE_SQRT:
        return lr * sqrt(ranks);
    default:
        return lr;
    }
}
