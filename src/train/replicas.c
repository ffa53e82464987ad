// replicas.c -- are the replicas equal, and are their data different? A digest of each rank's
// weights and the hash of its first step's batches are gathered and compared.
#include "train/state.h"

#include <inttypes.h>

// Two words per rank: the digest of its weights, the hash of its batches of step 1.
static status gather(trainer *t, err *e)
{
    status result = OK;
    stream *on = t->stream[STREAM_COMPUTE];
    const device_ops *ops = t->o.device->ops;
    uint64_t *own = t->digest + 2 * t->o.comm->rank, *host = t->host_digest + 2 * t->o.comm->rank;
    host[0] = 0, host[1] = t->first_hash;
    ops->copy(on, own, host, 2 * sizeof *own);
    kernel_call c = {.kind = K_DIGEST};
    c.u.digest = (digest_args){
        .bytes = t->plan->elements * (int64_t)sizeof(float), .x = t->weights, .digest = own};
    device_launch(on, &c);
    TRY(comm_all_gather(t->o.comm, own, t->digest, 2, I64, on, e));
    ops->copy(on, t->host_digest, t->digest, 2 * sizeof *own * (size_t)t->o.comm->size);
    TRY(ops->sync(on, e));
done:
    return result;
}

static status compare_first_batches(const trainer *t, err *e)
{
    // With fewer samples than a step takes, ranks must share some.
    if (t->steps_done != 1 || !t->o.train || t->o.train->samples < (uint64_t)t->o.global_batch)
        return OK;
    for (int r = 1; r < t->o.comm->size; r++)
        for (int q = 0; q < r; q++)
            if (t->host_digest[2 * r + 1] == t->host_digest[2 * q + 1])
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
        if (t->host_digest[2 * r] != t->host_digest[0])
            FAIL(E_NUMERIC,
                 "after step %" PRIu64 " rank %d's weights differ from rank 0's (digest %016" PRIx64
                 ", %016" PRIx64 ")",
                 t->steps_done, r, t->host_digest[2 * r], t->host_digest[0]);
    TRY(compare_first_batches(t, e));
done:
    return result;
}
