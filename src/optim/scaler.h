// scaler.h -- loss scaling for fp16, static or dynamic by DeepSpeed's rules
// (deepspeed/runtime/fp16/ loss_scaler.py, as interfaces describe it): a pure state machine, the
// same on every rank because what drives it is agreed in the clip reduction.
#ifndef TRIREME_OPTIM_SCALER_H
#define TRIREME_OPTIM_SCALER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scaler_options {
    double loss_scale;           // 0: dynamic
    int initial_power;           // starts at 2^initial_power
    int64_t window;              // good steps before doubling
    int64_t hysteresis;          // overflows tolerated before halving
    bool consecutive_hysteresis; // refill it at every good step
    double min_scale;
} scaler_options;

typedef struct scaler {
    scaler_options o;
    double scale; // 1 where nothing is scaled
    int64_t iteration, last_overflow, hysteresis;
} scaler;

void scaler_defaults(scaler_options *o);
// `on` false: a scale of 1 for ever.
void scaler_open(scaler *s, const scaler_options *o, bool on);
// After a step's agreement. E_NUMERIC when an overflow comes at the smallest scale.
status scaler_update(scaler *s, bool overflow, err *e);

#endif
