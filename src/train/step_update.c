// step_update.c -- updates this rank's shards at the end of a step, and sums the squares of the
// reduced gradients for the norm. Called through the table in step.c, and by step_state.c.
#include "train/launch.h"
#include "train/trainer_private.h"

static void add_squares(trainer *t, segment_table k, int bucket, const float *gradients,
                        device_stream *on)
{
    const segment_runs runs = segments_of(t, k, bucket);
    for (int i = 0; i < runs.count; i++) {
        const segment_run *run = &runs.items[i];
        const kernel_sum_squares_args a = {.count = run->count,
                                           .x = gradients,
                                           .sum = k == SEGMENTS_SQUARES
                                                      ? &results_sums(t)[SUM_SQUARES]
                                                      : results_group_sum(t, run->group),
                                           .type = F32,
                                           .segment = run->segment,
                                           .segments = run->segments};
        if (run->count > 0) workspace_launch_squares(t, on, &a);
    }
}

// The sum of all keeps its order, and so its bits, whether or not the sums of groups are wanted.
void trainer_add_squares(trainer *t, int bucket, const float *gradients, device_stream *on)
{
    add_squares(t, SEGMENTS_SQUARES, bucket, gradients, on);
    add_squares(t, SEGMENTS_GROUP_SQUARES, bucket, gradients, on);
}

// ---- The update

// The arrays of a bucket's update, from its first element on.
typedef struct update_arrays {
    char *weights;                       // in the compute type
    float *gradients;                    // reduced
    float *master, *moment[2], *average; // NULL: there is none
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

// The optimizer state of a bucket lies together, in a slot or on its tier.
static void find_together(const trainer *t, int bucket, char *slot, update_arrays *out)
{
    const plan_group *g = plan_group_of(t->plan, bucket);
    const size_t count = (size_t)t->plan->bucket[bucket].count[g->optimizer];
    float *next = (float *)(void *)slot;
    out->master = next_array(&next, count, plan_group_has(g, ARRAY_MASTER));
    out->moment[0] = next_array(&next, count, plan_group_has(g, ARRAY_M));
    out->moment[1] = next_array(&next, count, plan_group_has(g, ARRAY_V));
    out->average = next_array(&next, count, plan_group_has(g, ARRAY_AVERAGE));
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
        find_together(t, bucket, slot[PLAN_OPTIMIZER_STATE], out);
    } else {
        out->master = bucket_floats(t, ARRAY_MASTER, bucket);
        out->moment[0] = bucket_floats(t, ARRAY_M, bucket);
        out->moment[1] = bucket_floats(t, ARRAY_V, bucket);
        out->average = bucket_floats(t, ARRAY_AVERAGE, bucket);
    }
done:
    return result;
}

static void find_on_host(trainer *t, int bucket, update_arrays *out)
{
    out->weights = tiers_host_bucket(t, PLAN_WEIGHTS, bucket);
    if (!out->weights) out->weights = tiers_take_weights(t, bucket);
    out->gradients = (float *)(void *)tiers_host_bucket(t, PLAN_GRADIENTS, bucket);
    find_together(t, bucket, tiers_host_bucket(t, PLAN_OPTIMIZER_STATE, bucket), out);
}

// All but the segments and the numbers of the step, which lie on the device or on the host.
static kernel_call update_call(const trainer *t, const segment_run *run,
                               const update_arrays *arrays)
{
    const plan_group *g = &t->plan->group[run->group];
    kernel_call c = {.kind = K_UPDATE};
    kernel_update_args *u = &c.u.update;
    optim_fill(&t->o.groups.items[run->group].optimizer, u);
    u->count = run->count;
    u->segments = run->segments;
    u->w = arrays->master ? arrays->master : (float *)(void *)arrays->weights;
    u->g = arrays->gradients;
    u->m = arrays->moment[0];
    u->v = arrays->moment[1];
    u->average = arrays->average;
    u->low = arrays->master ? arrays->weights : NULL;
    u->low_type = g->o.compute;
    return c;
}

static status update_on_host(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    update_arrays arrays = {NULL};
    const segment_runs runs = segments_of(t, SEGMENTS_UPDATE, x->index);
    find_on_host(t, x->index, &arrays);
    tiers_await_host(t);
    trainer_span_begin(t, x);
    for (int i = 0; i < runs.count; i++) {
        const segment_run *run = &runs.items[i];
        kernel_call c = update_call(t, run, &arrays);
        c.u.update.segment = segments_on_host(t, run);
        c.u.update.step = results_host_step(t);
        c.u.update.group = results_host_step_group(t, run->group);
        if (run->count > 0) TRY(tiers_launch_on_host(t, &c, e));
    }
    if (!tiers_host_bucket(t, PLAN_WEIGHTS, x->index)) tiers_raise_weights(t, x->index);
done:
    return result;
}

static status update_on_device(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    update_arrays arrays = {NULL};
    trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    TRY(find_arrays(t, x, &arrays, e));
    trainer_span_begin(t, x);
    const segment_runs runs = segments_of(t, SEGMENTS_UPDATE, x->index);
    for (int i = 0; i < runs.count; i++) {
        const segment_run *run = &runs.items[i];
        kernel_call c = update_call(t, run, &arrays);
        c.u.update.segment = run->segment;
        c.u.update.step = results_step(t);
        c.u.update.group = results_step_group(t, run->group);
        if (run->count > 0) device_launch(trainer_stream(t, STREAM_COMPUTE), &c);
    }
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0) tiers_free_slot(t, (plan_state)k, x->state[k], STREAM_COMPUTE);
done:
    return result;
}

status run_optimizer_step(trainer *t, const schedule_instr *x, err *e)
{
    return x->on_host ? update_on_host(t, x, e) : update_on_device(t, x, e);
}
