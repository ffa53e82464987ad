// optim.h -- an optimizer as data: its update rule, the state that it needs per weight, and its
// hyperparameters. The kernel K_UPDATE does the arithmetic. Called by config/, the plan and train/.
#ifndef TRIREME_OPTIM_OPTIM_H
#define TRIREME_OPTIM_OPTIM_H

#include "device/kernels.h"

typedef struct optim_config {
    kernel_update_rule rule;
    double lr, beta1, beta2, eps, weight_decay; // beta1 is sgd's momentum
    bool decay_all;                             // weight decay applies to vectors too
    double ema; // decay of the weights' exponential moving average; 0: there is none
} optim_config;

typedef struct optim_rule {
    bool has_m, has_v;                      // running averages of the gradient and of its square
    double beta1, beta2, eps, weight_decay; // defaults where the job gives no value
} optim_rule;

extern const char *const OPTIM_NAMES[UPDATE_RULES + 1]; // by kernel_update_rule; ended by NULL
const optim_rule *optim_rule_of(const optim_config *c);
// Returns whether the optimizer keeps m; sgd without momentum does not.
bool optim_has_m(const optim_config *c);
// F32 numbers of state per weight: 2 (m and v), 1 (m) or 0 (sgd without momentum), and
// one more for a moving average of the weights.
int optim_state_tensors(const optim_config *c);
// Returns whether weight decay applies to a parameter of `dims` dimensions.
bool optim_decays(const optim_config *c, int dims);

// Sets what is equal in all steps in the arguments of K_UPDATE; pointers, count and low_type stay as
// they are.
void optim_fill(const optim_config *c, kernel_update_args *out);
// The numbers of update `t` (from 1), whose learning rate is `lr`.
kernel_step_group optim_step(const optim_config *c, uint64_t t, double lr);

#endif
