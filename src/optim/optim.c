// optim.c -- the table of optimizers, and the constants of one step. Called by config/ (names,
// defaults), the plan (state tensors) and train/ (constants of a step). Deliberately knows neither
// the arithmetic on weights, which is the kernel K_UPDATE, nor learning-rate schedules.
#include "optim/optim.h"

#include <math.h>

// The defaults are torch.optim's, with two exceptions: adamw has those that language models are
// commonly trained with, and sgd has momentum.
static const optim_rule rules[UPDATE_RULES] = {
    [UPDATE_ADAMW] = {true, true, 0.9, 0.95, 1e-8, 0.1},
    [UPDATE_ADAM] = {true, true, 0.9, 0.999, 1e-8, 0.0},
    [UPDATE_SGD] = {true, false, 0.9, 0.0, 0.0, 0.0},
    [UPDATE_LION] = {true, false, 0.9, 0.99, 0.0, 0.0},
};

const char *const OPTIM_NAMES[UPDATE_RULES + 1] = {
    [UPDATE_ADAMW] = "adamw", [UPDATE_ADAM] = "adam", [UPDATE_SGD] = "sgd", [UPDATE_LION] = "lion"};

const optim_rule *optim_rule_of(const optim_config *c)
{
    return &rules[c->rule];
}

bool optim_has_m(const optim_config *c)
{
    return optim_rule_of(c)->has_m && !(c->rule == UPDATE_SGD && c->beta1 == 0.0);
}

int optim_state_tensors(const optim_config *c)
{
    return (int)optim_has_m(c) + (int)optim_rule_of(c)->has_v + (int)(c->ema > 0);
}

bool optim_decays(const optim_config *c, int dims)
{
    return c->decay_all || dims >= 2;
}

void optim_fill(const optim_config *c, kernel_update_args *out)
{
    out->rule = c->rule;
    out->beta2 = (float)c->beta2;
    out->eps = (float)c->eps;
    out->weight_decay = (float)c->weight_decay;
}

kernel_step_group optim_step(const optim_config *c, uint64_t t, double lr)
{
    const bool corrects = optim_rule_of(c)->has_v;
    return (kernel_step_group){.first = t == 1,
                               .lr = (float)lr,
                               .beta1 = (float)c->beta1,
                               .average_rest = t == 1 ? 1.0f : (float)(1.0 - c->ema),
                               // In double, because 1 - 0.999 in fp32 has a relative error of 1e-5.
                               .c1 = corrects ? (float)(1.0 - pow(c->beta1, (double)t)) : 1.0f,
                               .c2 = corrects ? (float)(1.0 - pow(c->beta2, (double)t)) : 1.0f};
}
