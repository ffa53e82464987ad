// step_update.c -- updates this rank's shards at the end of a step, and sums the squares of the
// reduced gradients for the norm. Called through the table in step.c, and by step_state.c.
#include "train/launch.h"
#include "train/trainer_private.h"

// Rows first … last-1 of plan->order that one kernel call updates: their shards are contiguous in
// every array of the update, and their settings are equal.
typedef struct update_run {
    int first, last;
} update_run;

// Whether this rank's shards have the same layout in every array of the update.
static bool same_layouts(const plan_group *g)
{
    return trainer_gradient_layout(g) == g->optimizer && g->weight == g->optimizer;
}

// Advances *run to the next run of a bucket. Returns false when there is none. Start with run->last
// at the bucket's first row.
static bool next_run(const trainer *t, int bucket, update_run *run)
{
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    const plan_group *g = plan_group_of(p, bucket);
    const int end = b->first_row + b->rows;
    run->first = run->last;
    if (run->first >= end) return false;
    const plan_row *a = &p->row[p->order[run->first]];
    for (run->last = run->first + 1; run->last < end && same_layouts(g); run->last++) {
        const plan_row *r = &p->row[p->order[run->last]],
                       *before = &p->row[p->order[run->last - 1]];
        const int64_t end_before = before->offset[g->optimizer] +
                                   plan_local_shard(p, before, g->optimizer, p->coord).count;
        // In a state slot, the gaps between rows hold data of another bucket.
        if (r->offset[g->optimizer] != end_before) break;
        if (r->group != a->group || r->decays != a->decays || r->counted != a->counted) break;
    }
    return true;
}

// The first element of the optimizer's shard of row r, relative to the start of its bucket in an
// array of layout l.
static int64_t shard_offset(const plan *p, const plan_row *r, plan_layout l)
{
    const plan_layout optimizer = p->group[r->group].optimizer;
    return r->offset[l] + plan_local_shard(p, r, optimizer, p->coord).first -
           plan_local_shard(p, r, l, p->coord).first;
}

// Elements of a run, from its first row's shard to the end of its last row's.
static int64_t run_count(const plan *p, const update_run *run)
{
    const plan_row *a = &p->row[p->order[run->first]], *b = &p->row[p->order[run->last - 1]];
    const plan_layout l = p->group[a->group].optimizer;
    return b->offset[l] - a->offset[l] + plan_local_shard(p, b, l, p->coord).count;
}

void trainer_add_squares(trainer *t, int bucket, const float *gradients, plan_layout l,
                         device_stream *on)
{
    const plan *p = t->plan;
    double *sum = &results_sums(t)[SUM_SQUARES];
    update_run run = {.last = p->bucket[bucket].first_row};
    int index, of;
    clip_share(p, plan_group_of(p, bucket), &index, &of);
    while (next_run(t, bucket, &run)) {
        const plan_row *r = &p->row[p->order[run.first]];
        const int64_t count = run_count(p, &run), from = count * index / of,
                      to = count * (index + 1) / of;
        if (!r->counted || from == to) continue;
        launch_sum_squares(on, gradients + shard_offset(p, r, l) + from, to - from, sum);
    }
}

// ---- The update

// The arrays of a bucket's update, from its first element on.
typedef struct update_arrays {
    char *weights;             // in the compute type
    float *gradients;          // reduced
    float *master, *moment[2]; // NULL: there is none
} update_arrays;

// The next one of the arrays that a state slot holds one after the other; NULL if it is not
// present.
static float *next_array(float **from, size_t count, bool present)
{
    float *array = *from;
    if (!present) return NULL;
    *from += count;
    return array;
}

static void find_in_slot(const trainer *t, int bucket, char *slot, update_arrays *out)
{
    const plan_group *g = plan_group_of(t->plan, bucket);
    const size_t count = (size_t)t->plan->bucket[bucket].count[g->optimizer];
    float *next = (float *)(void *)slot;
    out->master = next_array(&next, count, plan_group_has(g, ARRAY_MASTER));
    out->moment[0] = next_array(&next, count, plan_group_has(g, ARRAY_M));
    out->moment[1] = next_array(&next, count, plan_group_has(g, ARRAY_V));
}

static float *bucket_floats(const trainer *t, plan_array a, int bucket)
{
    return (float *)(void *)state_bucket(t, a, bucket);
}

static status find_arrays(trainer *t, const schedule_instr *x, update_arrays *out, err *e)
{
    status result = OK;
    const int bucket = x->index;
    char *slot[PLAN_STATES] = {NULL};
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0)
            TRY(tiers_await(t, (plan_state)k, x->state[k], STREAM_COMPUTE, &slot[k], e));
    out->weights = slot[PLAN_WEIGHTS] ? slot[PLAN_WEIGHTS] : state_bucket(t, ARRAY_WEIGHTS, bucket);
    out->gradients = slot[PLAN_GRADIENTS] ? (float *)(void *)slot[PLAN_GRADIENTS]
                                          : bucket_floats(t, ARRAY_GRADIENTS, bucket);
    if (slot[PLAN_OPTIMIZER_STATE]) {
        find_in_slot(t, bucket, slot[PLAN_OPTIMIZER_STATE], out);
    } else {
        out->master = bucket_floats(t, ARRAY_MASTER, bucket);
        out->moment[0] = bucket_floats(t, ARRAY_M, bucket);
        out->moment[1] = bucket_floats(t, ARRAY_V, bucket);
    }
done:
    return result;
}

static void update(trainer *t, const update_run *run, const update_arrays *arrays)
{
    const plan *p = t->plan;
    const plan_row *r = &p->row[p->order[run->first]];
    const plan_group *g = &p->group[r->group];
    const param_group *settings = trainer_row_group(t, r);
    const int64_t updates = results_updates(t);
    kernel_call c = {.kind = K_UPDATE};
    kernel_update_args *u = &c.u.update;
    optim_config config = settings->optimizer;
    // A learning-rate schedule that cycles momentum changes Adam's first beta, but not SGD's
    // momentum.
    if (arrays->moment[1]) config.beta1 = lr_momentum_at(&t->o.lr, config.beta1, updates);
    optim_fill(&config, (uint64_t)updates + 1,
               settings->lr_scale * lr_at(&t->o.lr, config.lr, updates), results_agreed(t)->scale,
               r->decays, u);
    const int64_t state = shard_offset(p, r, g->optimizer), weight = shard_offset(p, r, g->weight);
    char *weights = arrays->weights + (size_t)weight * dtype_bytes(g->o.compute);
    u->count = run_count(p, run);
    u->w = arrays->master ? arrays->master + state : (float *)(void *)weights;
    u->g = arrays->gradients + shard_offset(p, r, trainer_gradient_layout(g));
    u->m = arrays->moment[0] ? arrays->moment[0] + state : NULL;
    u->v = arrays->moment[1] ? arrays->moment[1] + state : NULL;
    u->low = arrays->master ? weights : NULL;
    u->low_type = g->o.compute;
    if (u->count > 0) device_launch(trainer_stream(t, STREAM_COMPUTE), &c);
}

status run_optimizer_step(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    update_arrays arrays = {NULL};
    trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    TRY(find_arrays(t, x, &arrays, e));
    update_run run = {.last = t->plan->bucket[x->index].first_row};
    while (next_run(t, x->index, &run)) update(t, &run, &arrays);
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0) tiers_free_slot(t, (plan_state)k, x->state[k], STREAM_COMPUTE);
done:
    return result;
}
