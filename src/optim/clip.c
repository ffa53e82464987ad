// clip.c -- the all-reduce before the optimizer step, and the clipping factor. See clip.h. Called by
// train/. Does not know gradients: train/ sums their squares.
#include "optim/clip.h"

#include "device/kernels.h"

#include <math.h>

void clip_share(const plan *p, const plan_group *g, int *index, int *shares)
{
    *index = 0, *shares = 1;
    for (int l = POLICY_LEVELS - 1; l >= 0; l--) {
        const int ranks = mesh_group_size(&p->o.mesh, g->axes[l]);
        // The ranks of a sharded level hold different shards; each sums all of its own.
        if (plan_layout_shards(g->optimizer, (policy_level)l)) continue;
        *index = *index * ranks + mesh_group_index(&p->o.mesh, p->coord, g->axes[l]);
        *shares *= ranks;
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

    // Without a valid position the gradient is zero, and so is the norm.
    double count = host[SUM_COUNT] > 0 ? host[SUM_COUNT] : 1;
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
