// step_update.c -- updates this rank's shards at the end of a step, and sums the squares of the
// reduced gradients for the norm. Called through the table in step.c, and by step_state.c.
#include "train/launch.h"
#include "train/trainer_private.h"

void trainer_add_squares(trainer *t, int bucket, const float *gradients, device_stream *on)
{
    const segment_runs runs = segments_of(t, SEGMENTS_SQUARES, bucket);
    for (int i = 0; i < runs.count; i++) {
        const segment_run *run = &runs.items[i];
        kernel_call c = {.kind = K_SUM_SQUARES};
        c.u.sum_squares = (kernel_sum_squares_args){.count = run->count,
                                                    .x = gradients,
                                                    .sum = &results_sums(t)[SUM_SQUARES],
                                                    .type = F32,
                                                    .segment = run->segment,
                                                    .segments = run->segments};
        if (run->count > 0) device_launch(on, &c);
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

static void update(trainer *t, const segment_run *run, const update_arrays *arrays)
{
    const plan_group *g = &t->plan->group[run->group];
    const param_group *settings = &t->o.groups.items[run->group];
    const int64_t updates = results_updates(t);
    kernel_call c = {.kind = K_UPDATE};
    kernel_update_args *u = &c.u.update;
    optim_config config = settings->optimizer;
    // A learning-rate schedule that cycles momentum changes Adam's first beta, but not SGD's
    // momentum.
    if (arrays->moment[1]) config.beta1 = lr_momentum_at(&t->o.lr, config.beta1, updates);
    optim_fill(&config, (uint64_t)updates + 1,
               settings->lr_scale * lr_at(&t->o.lr, config.lr, updates), results_agreed(t)->scale,
               true, u);
    u->count = run->count;
    u->segment = run->segment;
    u->segments = run->segments;
    u->w = arrays->master ? arrays->master : (float *)(void *)arrays->weights;
    u->g = arrays->gradients;
    u->m = arrays->moment[0];
    u->v = arrays->moment[1];
    u->low = arrays->master ? arrays->weights : NULL;
    u->low_type = g->o.compute;
    if (u->count > 0) device_launch(trainer_stream(t, STREAM_COMPUTE), &c);
}

status run_optimizer_step(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    update_arrays arrays = {NULL};
    trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    TRY(find_arrays(t, x, &arrays, e));
    const segment_runs runs = segments_of(t, SEGMENTS_UPDATE, x->index);
    for (int i = 0; i < runs.count; i++) update(t, &runs.items[i], &arrays);
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0) tiers_free_slot(t, (plan_state)k, x->state[k], STREAM_COMPUTE);
done:
    return result;
}
