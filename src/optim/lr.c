// lr.c -- learning-rate schedules, by the formulas of lr.h. Called by config/ (names, defaults,
// scaling) and by train/ before each step. Deliberately keeps no state: a resumed run asks for the
// same step and gets the same bits.
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
    [LR_MEGATRON] = "OptimizerParamScheduler",
};

const char *const LR_DECAY_STYLE_NAMES[LR_DECAY_STYLES + 1] = {
    [LR_DECAY_LINEAR] = "linear", [LR_DECAY_CONSTANT] = "constant",
    [LR_DECAY_COSINE] = "cosine", [LR_DECAY_INVERSE_SQRT] = "inverse-square-root",
    [LR_DECAY_WSD] = "WSD",
};

const char *const LR_WSD_STYLE_NAMES[LR_WSD_STYLES + 1] = {
    [LR_WSD_EXPONENTIAL] = "exponential",
    [LR_WSD_LINEAR] = "linear",
    [LR_WSD_COSINE] = "cosine",
    [LR_WSD_MINUS_SQRT] = "minus_sqrt",
};

void lr_defaults(lr_config *c)
{
    *c = (lr_config){
        .name = LR_COSINE,
        .warmup_steps = 100,
        .min_ratio = 0.1,
        .warmup.max_lr = -1.0,
        .warmup.num_steps = 1000,
        .warmup.cos_min_ratio = 1e-4,
        .range_test.min_lr = 1e-3,
        .range_test.step_size = 2000,
        .range_test.step_rate = 1.0,
        .cycle.first_step_size = 2000,
        .cycle.second_stair_count = -1,
        .cycle.moves_momentum = true,
        .cycle.min_mom = 0.8,
        .cycle.max_mom = 0.9,
    };
}

void lr_apply_warmup_ratio(lr_config *c)
{
    if (c->warmup_ratio <= 0) return;
    const double steps = ceil(c->warmup_ratio * (double)c->total_steps);
    if (c->name == LR_MEGATRON)
        c->megatron.warmup_steps = steps;
    else
        c->warmup_steps = (int64_t)steps;
}

int64_t lr_warmup_length(const lr_config *c)
{
    const bool own = c->name < LR_RANGE_TEST;
    const bool warms =
        c->name == LR_WARMUP || c->name == LR_WARMUP_DECAY || c->name == LR_WARMUP_COSINE;
    if (c->name == LR_MEGATRON) return (int64_t)c->megatron.warmup_steps;
    return own ? c->warmup_steps : warms ? c->warmup.num_steps : 0;
}

static int64_t max_steps(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// part / total, within 0 ... 1.
static double fraction(int64_t part, int64_t total)
{
    double p = (double)part / (double)max_steps(1, total);
    return p < 0.0 ? 0.0 : p > 1.0 ? 1.0 : p;
}

// Falls from 1 to 0 along half a cosine as p goes from 0 to 1.
static double half_cosine(double p)
{
    return (1.0 + cos(M_PI * p)) / 2.0;
}

// The learning rate of Trireme's own schedules, as a fraction of the base rate.
static double base_ratio(const lr_config *c, int64_t it)
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
        decay = max_steps(1, decay > left ? left : decay);
        p = fraction(it - (c->total_steps - decay) + 1, decay);
        return r + (1.0 - r) * (1.0 - p);
    default:
        return 1.0;
    }
}

static double range_test(const lr_config *c, int64_t it)
{
    double i = (double)(it + 1) / (double)c->range_test.step_size;
    if (c->range_test.staircase) i = floor(i);
    return c->range_test.min_lr * (1.0 + c->range_test.step_rate * i);
}

static int64_t cycle_second(const lr_config *c)
{
    return c->cycle.second_step_size > 0 ? c->cycle.second_step_size : c->cycle.first_step_size;
}

// The height of the cycle after `it` finished steps: 0 at its ends, 1 at its peak.
static double cycle_height(const lr_config *c, int64_t it)
{
    int64_t first = c->cycle.first_step_size, second = cycle_second(c);
    int64_t j = (it + 1) % (first + second);
    int64_t stairs = c->cycle.first_stair_count;
    int64_t passed = j, total = first;

    if (j > first) {
        passed = first + second - j;
        total = second;
        if (c->cycle.second_stair_count >= 0) stairs = c->cycle.second_stair_count;
    }
    // Integer arithmetic begins each stair at exactly the right step.
    if (stairs > 0) return (double)((__int128)passed * stairs / total) / (double)stairs;
    return (double)passed / (double)total;
}

// How many decay intervals have passed since the end of the cycle; negative within the cycle.
static double cycle_intervals(const lr_config *c, int64_t it)
{
    int64_t cycle = c->cycle.first_step_size + cycle_second(c);
    if (it < cycle) return -1.0;
    if (c->cycle.decay_step_size == 0) return 0.0;
    return (double)(it - cycle + 1) / (double)c->cycle.decay_step_size;
}

static double one_cycle(const lr_config *c, int64_t it)
{
    double k = cycle_intervals(c, it);
    if (k >= 0.0) return c->cycle.min_lr / (1.0 + c->cycle.decay_lr_rate * k);
    return c->cycle.min_lr + (c->cycle.max_lr - c->cycle.min_lr) * cycle_height(c, it);
}

static double warmup_gamma(const lr_config *c, int64_t it, int64_t w)
{
    if (c->warmup.linear) return (double)it / (double)w;
    return log((double)(it + 1)) / log((double)w);
}

static double warmup(const lr_config *c, double base_lr, int64_t it)
{
    int64_t w = max_steps(2, c->warmup.num_steps);
    int64_t total = c->warmup.total_num_steps > 0 ? c->warmup.total_num_steps : c->total_steps;
    double max_lr = c->warmup.max_lr < 0.0 ? base_lr : c->warmup.max_lr, gamma = 1.0;

    if (it < w) {
        gamma = warmup_gamma(c, it, w);
    } else if (c->name == LR_WARMUP_DECAY) {
        gamma = (double)max_steps(0, total - it) / (double)max_steps(1, total - w);
    }
    return c->warmup.min_lr + (max_lr - c->warmup.min_lr) * gamma;
}

static double warmup_cosine(const lr_config *c, double base_lr, int64_t it)
{
    int64_t w = max_steps(2, c->warmup.num_steps);
    int64_t total = c->warmup.total_num_steps > 0 ? c->warmup.total_num_steps : c->total_steps;
    double low = c->warmup.cos_min_ratio;

    if (it < w) {
        double r0 = c->warmup.min_ratio;
        return base_lr * (r0 + (1.0 - r0) * warmup_gamma(c, it, w));
    }
    return base_lr * (low + (1.0 - low) * half_cosine(fraction(it - w + 1, total - w)));
}

// The share of the distance from min_lr to lr that a decay has left at p in 0 ... 1.
static double wsd_left(lr_wsd_style style, double p)
{
    switch (style) {
    case LR_WSD_LINEAR:
        return 1.0 - p;
    case LR_WSD_COSINE:
        return half_cosine(p);
    case LR_WSD_MINUS_SQRT:
        return 1.0 - sqrt(p);
    default:
        return 2.0 * pow(0.5, p) - 1.0;
    }
}

static double megatron(const lr_config *c, double base_lr, int64_t done)
{
    const lr_megatron *m = &c->megatron;
    const double it = (double)done, w = m->warmup_steps, low = m->min_lr;
    const double d = m->decay_steps > 0 ? m->decay_steps : (double)c->total_steps;
    const double one = 1.0 / (double)max_steps(1, c->global_batch);
    double left = 1.0, p = d > w ? (it - w) / (d - w) : 1.0;

    if (w > 0 && it <= w) return m->init_lr + (base_lr - m->init_lr) * it / w;
    if (m->style == LR_DECAY_CONSTANT) return base_lr;
    if (it > d) return low;
    if (m->style == LR_DECAY_INVERSE_SQRT)
        return fmax(low, base_lr * sqrt(fmax(w, one)) / sqrt(fmax(it, one)));
    if (m->style == LR_DECAY_LINEAR) left = 1.0 - p;
    if (m->style == LR_DECAY_COSINE) left = half_cosine(p);
    if (m->style == LR_DECAY_WSD && it > d - m->wsd_decay_steps)
        left = wsd_left(m->wsd_style, (it - (d - m->wsd_decay_steps)) / m->wsd_decay_steps);
    return low + left * (base_lr - low);
}

// The rate that the constructor of a DeepSpeed schedule sets.
static double constructed(const lr_config *c)
{
    switch (c->name) {
    case LR_RANGE_TEST:
        return c->range_test.min_lr;
    case LR_ONE_CYCLE:
        return c->cycle.min_lr;
    case LR_WARMUP_COSINE:
        return 0.0;
    default:
        return c->warmup.min_lr;
    }
}

double lr_at(const lr_config *c, double base_lr, int64_t done)
{
    const bool is_of_deepspeed = c->name >= LR_RANGE_TEST && c->name <= LR_WARMUP_COSINE;
    if (is_of_deepspeed && done == 0) return constructed(c);
    if (is_of_deepspeed) done--;
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
    case LR_MEGATRON:
        return megatron(c, base_lr, done);
    default:
        return base_lr * base_ratio(c, done);
    }
}

double lr_momentum_at(const lr_config *c, double beta1, int64_t done)
{
    double k;

    if (c->name != LR_ONE_CYCLE || !c->cycle.moves_momentum) return beta1;
    if (done == 0) return c->cycle.min_mom; // which the constructor sets
    k = cycle_intervals(c, done - 1);
    if (k >= 0.0) return c->cycle.max_mom * (1.0 + c->cycle.decay_mom_rate * k);
    return c->cycle.max_mom - (c->cycle.max_mom - c->cycle.min_mom) * cycle_height(c, done - 1);
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
