// scaler.c -- the loss scale of fp16, step by step. Called by train/ after all ranks have agreed
// whether a step overflowed. Does not know gradients, ranks, or where the scale is applied.
#include "optim/scaler.h"

#include <math.h>

void scaler_defaults(scaler_options *o)
{
    *o = (scaler_options){.loss_scale = 0,
                          .initial_power = 16,
                          .scale_window = 1000,
                          .hysteresis = 2,
                          .consecutive_hysteresis = false,
                          .min_scale = 1};
}

void scaler_open(scaler *s, const scaler_options *o, bool on)
{
    *s = (scaler){.o = *o, .last_overflow = -1, .hysteresis = o->hysteresis};
    if (!on) s->o.loss_scale = 1;
    s->scale = s->o.loss_scale > 0 ? s->o.loss_scale : ldexp(1, o->initial_power);
}

static status shrink(scaler *s, err *e)
{
    if (s->hysteresis > 1) {
        s->hysteresis--;
        return OK;
    }
    if (s->scale <= s->o.min_scale)
        return err_set(e, E_NUMERIC,
                       "step %lld: Current loss scale already at minimum - cannot decrease scale "
                       "anymore. It is %g (train.fp16.min_loss_scale)",
                       (long long)s->iteration + 1, s->scale);
    s->scale = fmax(s->scale / 2, s->o.min_scale);
    return OK;
}

static void grow(scaler *s)
{
    int64_t stable = s->iteration - s->last_overflow - 1;
    bool due = stable > 0 && stable % s->o.scale_window == 0;
    if (due || s->o.consecutive_hysteresis) s->hysteresis = s->o.hysteresis;
    if (due) s->scale *= 2;
}

status scaler_update(scaler *s, bool overflow, err *e)
{
    status result = OK;
    if (s->o.loss_scale > 0) return OK;
    if (overflow) {
        TRY(shrink(s, e));
        s->last_overflow = s->iteration;
    } else {
        grow(s);
    }
    s->iteration++;
done:
    return result;
}
