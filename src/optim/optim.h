// optim.h -- what an optimizer is, as data: rule, state per weight, hyper-parameters. The
// arithmetic is K_UPDATE.
#ifndef TRIREME_OPTIM_OPTIM_H
#define TRIREME_OPTIM_OPTIM_H

#include "device/kernels.h"

typedef struct optim_config {
    kernel_update_rule rule;
    double lr, beta1, beta2, eps, weight_decay; // beta1 is sgd's momentum
    bool decay_all;                             // decay tensors of fewer than two dimensions too
} optim_config;

typedef struct optim_rule {
    bool has_m, has_v;
    double beta1, beta2, eps, weight_decay; // defaults when the job says nothing
} optim_rule;

extern const char *const OPTIM_NAMES[UPDATE_RULES + 1]; // by kernel_update_rule; ended by NULL
const optim_rule *optim_rule_of(const optim_config *c);
// State per weight in F32 numbers: 2 (m and v), 1 (m) or 0 (sgd without momentum).
int optim_state_tensors(const optim_config *c);
// Does weight decay apply to a parameter of that many dimensions?
bool optim_decays(const optim_config *c, int dims);

// The constants of step `t` (from 1) for K_UPDATE: everything but pointers, count and low_type,
// which are left as they are. `lr` is that step's; without `decays` the weight decay is 0.
void optim_fill(const optim_config *c, uint64_t t, double lr, double grad_scale, bool decays,
                kernel_update_args *out);

#endif
