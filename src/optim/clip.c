// clip.c -- the agreement before the update. See clip.h. Called by train/step.c.
#include "optim/clip.h"

#include "device/kernels.h"

#include <math.h>

static void own_squares(const plan *p, const float *gradients, const comm *c, stream *on,
                        double *sums)
{
    for (int b = 0; b < p->buckets; b++) {
        int64_t own = p->bucket[b].count / c->size;
        kernel_call k = {.kind = K_SUM_SQUARES};
        k.u.sum_squares = (sum_squares_args){.count = own,
                                             .x = gradients + p->bucket[b].first + own * c->rank,
                                             .sum = &sums[SUM_SQUARES],
                                             .type = F32};
        device_launch(on, &k);
    }
}

status clip_gradients(const plan *p, const float *gradients, comm *c, stream *on, double *sums,
                      double *host, bool stop, double max_norm, clip_result *out, err *e)
{
    status result = OK;
    const device_ops *d = on->device->ops;
    own_squares(p, gradients, c, on, sums);
    host[SUM_STOP] = stop ? 1 : 0;
    d->copy(on, &sums[SUM_STOP], &host[SUM_STOP], sizeof(double));
    TRY(comm_all_reduce(c, sums, SUMS, F64, REDUCE_SUM, on, e));
    d->copy(on, host, sums, SUMS * sizeof(double));
    TRY(d->sync(on, e));

    double count =
        host[SUM_COUNT] > 0 ? host[SUM_COUNT] : 1; // no valid position: a gradient of zero
    *out = (clip_result){.loss = host[SUM_LOSS] / count,
                         .count = host[SUM_COUNT],
                         .norm = sqrt(host[SUM_SQUARES]) / count,
                         .scale = 1 / count,
                         .stop = host[SUM_STOP] > 0};
    out->finite = isfinite(out->loss) && isfinite(out->norm);
    if (max_norm > 0 && max_norm / (out->norm + 1e-6) < 1)
        out->scale *= max_norm / (out->norm + 1e-6);
done:
    return result;
}
