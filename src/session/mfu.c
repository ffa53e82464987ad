// mfu.c -- see mfu.h.
#include "session/mfu.h"

#include <math.h>

// Returns whether the matmul peak is measured after this step: first after step 3, so that the first steps are shown
// soon, then at growing intervals, because the machine may have been busy at the earlier measurements.
static bool is_time_to_measure(uint64_t step)
{
    enum { FIRST = 3, TIMES = 4 };
    uint64_t next = FIRST;
    while (next < step) next *= TIMES;
    return next == step;
}

const char *session_mfu_measure(session_mfu *m, uint64_t steps, device *d, dtype type)
{
    if (!is_time_to_measure(steps)) return NULL;
    m->peak = fmax(m->peak, device_matmul_rate(d, type, 0.05));
    if (m->peak <= 0 || m->explained) return NULL;
    m->explained = true;
    return d->is_host_memory
               ? "mfu: a step's FLOP/s as a share of the matmul peak of these cores, which is "
                 "measured during the run; where a step was faster, of the fastest step"
               : "mfu: a step's FLOP/s as a share of the matmul peak of this device, which is "
                 "measured during the run; where a step was faster, of the fastest step";
}

double session_mfu_of(session_mfu *m, double flops_per_s)
{
    if (m->peak <= 0) return NAN;
    m->peak = fmax(m->peak, flops_per_s);
    return flops_per_s / m->peak;
}
