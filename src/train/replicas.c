// replicas.c -- are the replicas equal, and are their data different? A digest of the weights that
// each rank keeps and the hash of its first step's batches are gathered and compared among the
// ranks that must agree, or differ.
#include "train/state.h"

#include <inttypes.h>

// Two words per rank: the digest of its weights, the hash of its batches of step 1.
static status gather(trainer *t, err *e)
{
    status result = OK;
    device_stream *on = t->stream[STREAM_COMPUTE];
    const device_ops *ops = t->o.device->ops;
    uint64_t *own = t->digest + 2 * t->o.comm->rank, *host = t->host_digest + 2 * t->o.comm->rank;
    host[0] = 0, host[1] = t->first_hash;
    ops->copy(on, own, host, 2 * sizeof *own);
    kernel_call c = {.kind = K_DIGEST};
    c.u.digest = (kernel_digest_args){.bytes = t->plan->elements[t->plan->weight] *
                                               (int64_t)trainer_weight_bytes(t),
                                      .x = t->weights,
                                      .digest = own};
    if (t->weights) device_launch(on, &c); // in a file: not read for this
    TRY(comm_all_gather(t->o.comm, own, t->digest, 2, I64, on, e));
    ops->copy(on, t->host_digest, t->digest, 2 * sizeof *own * (size_t)t->o.comm->size);
    TRY(ops->sync(on, e));
done:
    return result;
}

// Do these ranks keep the same parts of the same stage?
static bool keep_the_same(const plan *p, int a, int b)
{
    for (int k = 0; k < AXES; k++) {
        bool cuts = k == AXIS_PP || k == AXIS_TP || plan_layout_shards(p->weight, (axis)k);
        if (cuts && mesh_at(&p->o.mesh, a, (axis)k) != mesh_at(&p->o.mesh, b, (axis)k))
            return false;
    }
    return true;
}

// Of the stages that read data, those of different data-parallel ranks.
static bool must_differ(const trainer *t, int a, int b)
{
    const mesh *m = &t->plan->o.mesh;
    return t->host_digest[2 * a + 1] != 0 && mesh_data_rank(m, a) != mesh_data_rank(m, b);
}

static status compare_first_batches(const trainer *t, err *e)
{
    const dataset *d = t->o.train;
    // With fewer samples than a step takes, ranks must share some.
    if (t->steps_done != 1 || !d || (!d->read_own && d->samples < (uint64_t)t->o.global_batch))
        return OK;
    for (int r = 1; r < t->o.comm->size; r++)
        for (int q = 0; q < r; q++)
            if (must_differ(t, r, q) && t->host_digest[2 * r + 1] == t->host_digest[2 * q + 1])
                return err_set(
                    e, E_USAGE,
                    "ranks %d and %d read identical data in step 1; every rank must have its own "
                    "(where samples do repeat: checks.replicas_every 0)",
                    q, r);
    return OK;
}

status trainer_check_replicas(trainer *t, err *e)
{
    status result = OK;
    TRY(gather(t, e));
    for (int r = 1; r < t->o.comm->size; r++)
        for (int q = 0; q < r; q++)
            if (keep_the_same(t->plan, q, r) && t->host_digest[2 * r] != t->host_digest[2 * q])
                FAIL(E_NUMERIC,
                     "after step %" PRIu64 " rank %d's weights differ from rank %d's (digest "
                     "%016" PRIx64 ", %016" PRIx64 ")",
                     t->steps_done, r, q, t->host_digest[2 * r], t->host_digest[2 * q]);
    TRY(compare_first_batches(t, e));
done:
    return result;
}
