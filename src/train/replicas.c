// replicas.c -- checks that replicas are equal and that their data differ. Every rank gathers from
// all ranks a digest of the weights and the hash of the first step's batches, and compares the
// ranks that must agree or must differ. Called by step.c every `replicas_every` steps.
#include "train/trainer_private.h"

#include <inttypes.h>

// Two numbers of each rank: the digest of its weights, and the hash of its batches of step 1.
typedef struct replica_words {
    const uint64_t *items; // [ranks, 2]
} replica_words;

static uint64_t digest_of(replica_words w, int rank)
{
    return w.items[2 * rank];
}

static uint64_t hash_of(replica_words w, int rank)
{
    return w.items[2 * rank + 1];
}

// Weights that lie in a file are not read; their digest is 0.
static status gather_words(trainer *t, replica_words *out, err *e)
{
    const plan *p = t->plan;
    return exchange_digests(t, state_weights(t),
                            p->elements[p->weight] * (int64_t)trainer_weight_bytes(t),
                            batches_first_hash(t), &out->items, e);
}

// Whether two ranks have the same shards of the same stage.
static bool have_the_same(const plan *p, int a, int b)
{
    for (int k = 0; k < AXES; k++) {
        const bool differs = k == AXIS_PP || k == AXIS_TP || plan_layout_shards(p->weight, (axis)k);
        if (differs && mesh_coord(&p->o.mesh, a, (axis)k) != mesh_coord(&p->o.mesh, b, (axis)k))
            return false;
    }
    return true;
}

// Whether the batches of two ranks must differ: both are on a stage that reads batches, and their
// data-parallel ranks differ.
static bool must_differ(const trainer *t, replica_words w, int a, int b)
{
    const mesh *m = &t->plan->o.mesh;
    return hash_of(w, a) != 0 && mesh_data_rank(m, a) != mesh_data_rank(m, b);
}

static status compare_first_batches(const trainer *t, replica_words w, err *e)
{
    const dataset *d = t->o.train;
    // With fewer samples than one step needs, several ranks read the same samples.
    const bool few = d && !d->read_own && d->samples < (uint64_t)t->o.global_batch;
    if (results_steps_done(t) != 1 || !d || few) return OK;
    for (int r = 1; r < t->o.comm->size; r++)
        for (int q = 0; q < r; q++)
            if (must_differ(t, w, r, q) && hash_of(w, r) == hash_of(w, q))
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
    replica_words w;
    TRY(gather_words(t, &w, e));
    for (int r = 1; r < t->o.comm->size; r++)
        for (int q = 0; q < r; q++)
            if (have_the_same(t->plan, q, r) && digest_of(w, r) != digest_of(w, q))
                FAIL(E_NUMERIC,
                     "after step %" PRIu64 " rank %d's weights differ from rank %d's (digest "
                     "%016" PRIx64 ", %016" PRIx64 ")",
                     results_steps_done(t), r, q, digest_of(w, r), digest_of(w, q));
    TRY(compare_first_batches(t, w, e));
done:
    return result;
}
