// mfu.h -- the model FLOPs utilization of a rank's steps: their FLOP/s as a share of the matmul peak, which is measured
// during the run. Where a step was faster, its own rate is the peak. session/run.c calls it after each step.
#ifndef TRIREME_SESSION_MFU_H
#define TRIREME_SESSION_MFU_H

#include "device/device.h"

typedef struct session_mfu {
    double peak; // FLOP/s, the largest measured; 0: not measured yet
    bool explained;
} session_mfu;

// Measures the peak where it is time to, after `steps` steps of this run. Returns the line that explains the mfu to the
// user when there is a first peak, else NULL.
const char *session_mfu_measure(session_mfu *m, uint64_t steps, device *d, dtype type);
// NAN: not known.
double session_mfu_of(session_mfu *m, double flops_per_s);

#endif
