// replicas.c -- checks that replicas are equal and that their data differ. Every rank gathers from
// all ranks a digest of the weights of each parameter group and the hash of the first step's batches,
// and compares the ranks that must agree or must differ. Called by step.c every `replicas_every`
// steps.
#include "train/trainer_private.h"

#include <inttypes.h>

// The numbers of each rank: a digest for each parameter group, then the hash of its batches of step 1.
typedef struct replica_words {
    const uint64_t *items; // [ranks, groups + 1]
    int groups;
} replica_words;

static uint64_t digest_of(replica_words w, int rank, int group)
{
    return w.items[(w.groups + 1) * rank + group];
}

static uint64_t hash_of(replica_words w, int rank)
{
    return digest_of(w, rank, w.groups);
}

// The digest of a group is that of its buckets, which lie one after the other. It is 0 for a group
// without buckets on this stage, and for weights that are swapped: they are not brought in.
static void set_digest(trainer *t, int group)
{
    const plan *p = t->plan;
    const plan_group *g = &p->group[group];
    if (g->buckets == 0) {
        exchange_set_number(t, group, 0);
        return;
    }
    const int last = g->first_bucket + g->buckets - 1;
    const size_t end =
        p->bucket[last].start[ARRAY_WEIGHTS] + plan_bucket_bytes(p, last, ARRAY_WEIGHTS);
    exchange_set_digest(t, group, state_bucket(t, ARRAY_WEIGHTS, g->first_bucket),
                        (int64_t)(end - p->bucket[g->first_bucket].start[ARRAY_WEIGHTS]));
}

static status gather_words(trainer *t, replica_words *out, err *e)
{
    out->groups = t->plan->groups;
    for (int i = 0; i < out->groups; i++) set_digest(t, i);
    exchange_set_number(t, out->groups, batches_first_hash(t));
    return exchange_gather(t, &out->items, e);
}

// Whether two ranks have the same shards of a group's weights on the same stage.
static bool have_the_same(const plan *p, const plan_group *g, int a, int b)
{
    mesh_axes alike = 0;
    for (int l = 0; l < POLICY_LEVELS; l++)
        if (!plan_layout_shards(g->weight, (policy_level)l)) alike |= g->axes[l];
    for (int k = 0; k < AXES; k++)
        if (!(alike & MESH_AXIS(k)) &&
            mesh_coord(&p->o.mesh, a, (axis)k) != mesh_coord(&p->o.mesh, b, (axis)k))
            return false;
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

static status compare_weights(const trainer *t, replica_words w, int group, err *e)
{
    const plan *p = t->plan;
    for (int r = 1; r < t->o.comm->size; r++)
        for (int q = 0; q < r; q++)
            if (have_the_same(p, &p->group[group], q, r) &&
                digest_of(w, r, group) != digest_of(w, q, group))
                return err_set(e, E_NUMERIC,
                               "after step %" PRIu64
                               " rank %d's weights differ from rank %d's (digest %016" PRIx64
                               ", %016" PRIx64 ")",
                               results_steps_done(t), r, q, digest_of(w, r, group),
                               digest_of(w, q, group));
    return OK;
}

status trainer_check_replicas(trainer *t, err *e)
{
    status result = OK;
    replica_words w;
    TRY(gather_words(t, &w, e));
    for (int i = 0; i < w.groups; i++) TRY(compare_weights(t, w, i, e));
    TRY(compare_first_batches(t, w, e));
done:
    return result;
}
