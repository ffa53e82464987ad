// scaler.h -- loss scaling for fp16: a constant, or dynamic by the rules of DeepSpeed
// (deepspeed/runtime/fp16/loss_scaler.py). A pure state machine. It is the same on every rank, because
// its one input, whether a step overflowed, is agreed by all ranks.
#ifndef TRIREME_OPTIM_SCALER_H
#define TRIREME_OPTIM_SCALER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scaler_options {
    double loss_scale;    // the constant scale; 0: dynamic
    int initial_power;    // the dynamic scale starts at 2^initial_power
    int64_t scale_window; // steps without overflow after which the scale doubles
    int64_t hysteresis;   // the overflow of this number, and every later one, halves the scale
    // Every step without overflow resets the count of hysteresis; else only doubling does.
    bool consecutive_hysteresis;
    double min_scale; // an overflow at this scale is an error
} scaler_options;

typedef struct scaler {
    scaler_options o;
    double scale;          // of the next step; 1: the loss is not scaled
    int64_t iteration;     // finished steps
    int64_t last_overflow; // the iteration of the last overflow; -1: none
    int64_t hysteresis;    // overflows until the scale halves
} scaler;

void scaler_defaults(scaler_options *o);
// Sets the scale of the first step. Without `on` it is 1 in every step.
void scaler_open(scaler *s, const scaler_options *o, bool on);
// Sets the scale of the next step from whether this one overflowed. E_NUMERIC when it overflowed at
// the smallest scale.
status scaler_update(scaler *s, bool overflow, err *e);

#endif
