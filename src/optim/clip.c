// clip.c -- the agreement before the update. See clip.h. Called by train/step_update.c.
#include "optim/clip.h"

#include "device/kernels.h"

#include <math.h>

void clip_share(const plan *p, int *index, int *of)
{
    *index = 0, *of = 1;
    for (int i = PLAN_DP_AXES - 1; i >= 0; i--) {
        const axis a = PLAN_DP_AXIS[i].axis;
        if (plan_layout_shards(p->optimizer, a)) continue;
        *index = *index * p->o.mesh.size[a] + p->coord[a];
        *of *= p->o.mesh.size[a];
    }
}

status clip_agree(comm *c, device_stream *on, double *sums, double *host, bool stop, double samples,
                  double max_norm, double factor, clip_result *out, err *e)
{
    status result = OK;
    const device_ops *d = on->device->ops;
    host[SUM_STOP] = stop ? 1 : 0;
    host[SUM_SAMPLES] = samples;
    d->copy(on, &sums[SUM_STOP], &host[SUM_STOP], 2 * sizeof(double));
    TRY(comm_all_reduce(c, sums, SUMS, F64, REDUCE_SUM, on, e));
    d->copy(on, host, sums, SUMS * sizeof(double));
    TRY(d->sync(on, e));

    double count =
        host[SUM_COUNT] > 0 ? host[SUM_COUNT] : 1; // no valid position: a gradient of zero
    *out = (clip_result){.loss = host[SUM_LOSS] / count,
                         .count = host[SUM_COUNT],
                         .norm = sqrt(host[SUM_SQUARES]) / count / factor,
                         .samples = host[SUM_SAMPLES],
                         .scale = 1 / count / factor,
                         .stop = host[SUM_STOP] > 0};
    out->finite = isfinite(out->loss) && isfinite(out->norm);
    if (max_norm > 0 && max_norm / (out->norm + 1e-6) < 1)
        out->scale *= max_norm / (out->norm + 1e-6);
done:
    return result;
}
