// transfer.c -- weights and optimizer state between the device and the host, and equal on all
// ranks.
#include "train/state.h"

#include <stdlib.h>

status trainer_read_state(trainer *t, state_part part, int p, float *out, err *e)
{
    const plan_row *r = &t->plan->row[p];
    stream *on = t->stream[STREAM_COMPUTE];
    t->o.device->ops->copy(on, out, t->state[part] + r->first, (size_t)r->count * sizeof(float));
    return t->o.device->ops->sync(on, e);
}

status trainer_write_state(trainer *t, state_part part, int p, const float *in, err *e)
{
    const plan_row *r = &t->plan->row[p];
    stream *on = t->stream[STREAM_COMPUTE];
    t->o.device->ops->copy(on, t->state[part] + r->first, in, (size_t)r->count * sizeof(float));
    return t->o.device->ops->sync(on, e);
}

status trainer_read_gradient(trainer *t, int p, float *out, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    stream *on = t->stream[STREAM_COMPUTE];
    t->o.device->ops->copy(on, out, t->gradients + r->first, (size_t)r->count * sizeof(float));
    TRY(t->o.device->ops->sync(on, e));
    double count = t->agreed.count > 0 ? t->agreed.count : 1;
    for (int64_t i = 0; i < r->count; i++) out[i] = (float)(out[i] / count);
done:
    return result;
}

status trainer_restore(trainer *t, uint64_t steps_done, err *e)
{
    status result = OK;
    stream *on = t->stream[STREAM_COMPUTE];
    size_t flat = (size_t)t->plan->elements * sizeof(float);
    // Fresh moments are zero on every rank already.
    int parts = steps_done > 0 ? STATE_PARTS : 1;
    for (int s = 0; s < parts; s++)
        if (t->state[s]) TRY(comm_broadcast(t->o.comm, t->state[s], flat, 0, on, e));
    if (t->low != t->weights) {
        kernel_call c = {.kind = K_CONVERT};
        c.u.convert = (convert_args){.count = t->plan->elements,
                                     .src = t->weights,
                                     .dst = t->low,
                                     .src_type = F32,
                                     .dst_type = t->o.precision};
        device_launch(on, &c);
    }
    TRY(t->o.device->ops->sync(on, e));
    t->steps_done = steps_done;
done:
    return result;
}
