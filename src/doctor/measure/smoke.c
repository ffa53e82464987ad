// smoke.c -- see smoke.h. Called by `trireme smoke`, after each of its runs.
#include "doctor/measure/smoke.h"

#include <math.h>
#include <string.h>

status smoke_check_losses(const char *run, const double *loss, int steps, err *e)
{
    for (int i = 0; i < steps; i++)
        if (!isfinite(loss[i]))
            return err_set(e, E_NUMERIC, "smoke: %s: the loss of step %d is %g", run, i + 1,
                           loss[i]);
    if (loss[steps - 1] < loss[0]) return OK;
    return err_set(e, E_NUMERIC,
                   "smoke: %s: the loss does not fall: %.6g in step 1, %.6g in step %d", run,
                   loss[0], loss[steps - 1], steps);
}

status smoke_check_first(const char *run, double loss, const char *other, double expected, err *e)
{
    if (fabs(loss - expected) <= 0.01 * fabs(expected)) return OK;
    return err_set(
        e, E_NUMERIC,
        "smoke: %s: the loss of step 1 is %.6g; it is %.6g with %s, and may differ by 1 %%", run,
        loss, expected, other);
}

smoke_difference smoke_compare(const float *a, const float *b, int64_t count, int64_t rows,
                               int ranks)
{
    smoke_difference d = {.first = -1};
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) == 0) continue;
        if (d.elements++ == 0) d.first = i;
    }
    if (d.elements) {
        const int64_t each = (rows + ranks - 1) / ranks; // as torch.chunk
        d.rank = (int)(d.first / (count / rows) / each);
    }
    return d;
}
