// weights.c -- the weights that a run starts from, drawn or read, each rank its own shards; and the compute
// weights that follow from fp32 master weights. Called when a trainer opens and after state was
// written.
#include "base/size.h"
#include "train/launch.h"
#include "train/redistribute.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

static status read_weights(trainer *t, err *e)
{
    status result = OK;
    float *host = NULL;
    for (int p = 0; p < t->model->params; p++) {
        if (t->plan->row[p].bucket < 0) continue;
        free(host);
        host = malloc((size_t)t->model->param[p].count * sizeof *host);
        if (!host) FAIL(E_MEMORY, "no memory for parameter %s", t->model->param[p].name);
        TRY(model_param_load(t->model, p, t->o.weights, host, e));
        TRY(trainer_write_state(t, STATE_WEIGHT, p, host, e));
    }
done:
    free(host);
    return result;
}

// Draws elements `want` of row p where they lie.
static status draw_elements(trainer *t, const state_shards *x, int p, plan_shard want, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    float *ptr;
    plan_shard s;
    TRY(state_shards_find(t, x, &t->plan->row[p], true, &ptr, &s, e));
    model_param_init_shard(t->model, p, t->plan->coord[AXIS_TP], t->o.seed, want.first, want.count,
                           on, ptr + (want.first - s.first));
    // In a file, the next row may be of another bucket.
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

// Elements first … first+count-1 of the array of weights, which this rank draws. Where all data-parallel
// ranks have the full array, each draws an equal share of it and *shared is true; else a rank draws
// all that it has.
static plan_shard drawn_elements(const trainer *t, const state_shards *x, bool *shared)
{
    const int64_t all = t->plan->elements[x->array];
    const comm *dp = trainer_group(t, GROUP_DP);
    *shared = dp && x->memory && x->array == LAYOUT_FULL && all % dp->size == 0;
    if (!*shared) return (plan_shard){0, all};
    return (plan_shard){all / dp->size * dp->rank, all / dp->size};
}

// The elements of row r's local shard that lie in `drawn` of the array, relative to the row.
static plan_shard row_elements(const trainer *t, const state_shards *x, const plan_row *r,
                               plan_shard drawn)
{
    const plan_shard s = plan_local_shard(t->plan, r, x->shards, t->plan->coord);
    const int64_t begin = r->offset[x->array], end = begin + s.count;
    const int64_t from = size_max(drawn.first, begin),
                  to = size_min(drawn.first + drawn.count, end);
    return (plan_shard){s.first + from - begin, size_max(to - from, 0)};
}

static status draw_weights(trainer *t, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const state_shards x = state_shards_of(t, STATE_WEIGHT);
    bool shared;
    const plan_shard drawn = drawn_elements(t, &x, &shared);
    float *all = (float *)(void *)x.memory;
    for (int i = 0; i < p->local_rows; i++) {
        const int row = p->order[i];
        TRY(draw_elements(t, &x, row, row_elements(t, &x, &p->row[row], drawn), e));
    }
    if (shared)
        TRY(comm_all_gather(trainer_group(t, GROUP_DP), all + drawn.first, all, (size_t)drawn.count,
                            F32, trainer_stream(t, STREAM_COMPUTE), e));
done:
    return result;
}

status trainer_fill_weights(trainer *t, err *e)
{
    status result = OK;
    TRY((t->o.weights ? read_weights : draw_weights)(t, e));
    TRY(trainer_restore(t, 0, e));
done:
    return result;
}

// Converts row r's shard of the master weights to the compute type.
static status convert_row(trainer *t, const state_shards *master, const plan_row *r, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    float *from;
    char *to = state_weights(t);
    plan_shard s;
    TRY(state_shards_find(t, master, r, false, &from, &s, e));
    int64_t offset =
        r->offset[p->weight] + s.first - plan_local_shard(p, r, p->weight, p->coord).first;
    if (!to) {
        TRY(tiers_stage(t, PLAN_WEIGHTS, r->bucket, true, &to, e));
        offset -= p->bucket[r->bucket].first[p->weight];
    }
    if (s.count > 0)
        launch_convert(trainer_stream(t, STREAM_COMPUTE),
                       to + (size_t)offset * trainer_weight_bytes(t), t->o.precision, from, F32,
                       s.count);
done:
    return result;
}

static status convert_bucket(trainer *t, int bucket, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    const state_shards master = state_shards_of(t, STATE_WEIGHT);
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    for (int i = 0; i < b->rows; i++)
        TRY(convert_row(t, &master, &p->row[p->order[b->first_row + i]], e));
    TRY(trainer_ops(t)->sync(on, e));
    if (state_weights(t) && p->redistribute.all_gather_updated.count > 0)
        TRY(redistribute_bucket(p, &p->redistribute.all_gather_updated, bucket, NULL,
                                state_bucket_weights(t, bucket), t->o.precision,
                                groups_comms(t->groups), on, e));
done:
    return result;
}

status trainer_restore(trainer *t, uint64_t steps_done, err *e)
{
    status result = OK;
    for (int b = 0; t->o.precision != F32 && b < t->plan->buckets; b++)
        TRY(convert_bucket(t, b, e));
    TRY(tiers_close_staging(t, e));
    TRY(trainer_ops(t)->sync(trainer_stream(t, STREAM_COMPUTE), e));
    TRY(comm_barrier(t->o.comm, e));
    results_set_steps_done(t, steps_done);
done:
    return result;
}
