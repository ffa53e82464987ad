// step_state.c -- executes the instructions that change the placement of weights and gradients.
// Called through the table in step.c. The plan says which collectives they need. This file names no
// strategy.
#include "train/launch.h"
#include "train/redistribute.h"
#include "train/trainer_private.h"

// Copies segments of `from` to `to`, both of `type`. With `adds` it adds them, in F32.
static void copy_segments(device_stream *on, segment_runs runs, const void *from, void *to,
                          dtype type, bool adds)
{
    for (int i = 0; i < runs.count; i++) {
        kernel_call c = {.kind = K_CONVERT};
        c.u.convert = (kernel_convert_args){.count = runs.items[i].count,
                                            .src = from,
                                            .dst = to,
                                            .src_type = type,
                                            .dst_type = type,
                                            .accumulate = adds,
                                            .segment = runs.items[i].segment,
                                            .segments = runs.items[i].segments};
        if (c.u.convert.count > 0) device_launch(on, &c);
    }
}

// ---- Weights

// Gathers the shards that RESHARD_POST_FORWARD kept in the post-forward group.
static status unshard_post_forward(trainer *t, int bucket, trainer_slot *to, err *e)
{
    const plan_group *g = plan_group_of(t->plan, bucket);
    return redistribute_bucket(t->plan, &g->redistribute.unshard_post_forward, bucket,
                               state_bucket(t, ARRAY_POST_FORWARD, bucket), to->ptr, g->o.compute,
                               groups_comms(t->groups), trainer_stream(t, STREAM_COMM), e);
}

status run_reshard_post_forward(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const dtype type = plan_group_of(t->plan, x->index)->o.compute;
    copy_segments(
        trainer_stream(t, STREAM_COMPUTE), segments_of(t, SEGMENTS_POST_FORWARD_SHARDS, x->index),
        slots_weight(t, x->slot)->ptr, state_bucket(t, ARRAY_POST_FORWARD, x->index), type, false);
    return OK;
}

// Unshards a bucket from this rank's shards, which lie in the array or in a state slot.
static status unshard_local(trainer *t, const schedule_instr *x, trainer_slot *to, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_group *g = plan_group_of(p, x->index);
    const plan_redistribution *unshard = &g->redistribute.unshard;
    device_stream *on = trainer_stream(t, STREAM_COMM);
    const bool swapped = plan_is_swapped(g, PLAN_WEIGHTS);
    const int state_slot = x->state[PLAN_WEIGHTS];
    char *shards;
    if (swapped)
        TRY(tiers_await(t, PLAN_WEIGHTS, state_slot, STREAM_COMM, &shards, e));
    else
        shards = state_bucket(t, ARRAY_WEIGHTS, x->index);
    if (unshard->count > 0)
        TRY(redistribute_bucket(p, unshard, x->index, shards, to->ptr, g->o.compute,
                                groups_comms(t->groups), on, e));
    else
        trainer_ops(t)->copy(on, to->ptr, shards,
                             (size_t)p->bucket[x->index].count[LAYOUT_FULL] *
                                 dtype_bytes(g->o.compute));
    if (swapped) tiers_free_slot(t, PLAN_WEIGHTS, state_slot, STREAM_COMM);
done:
    return result;
}

status run_unshard(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    trainer_slot *to = slots_weight(t, x->slot);
    trainer_wait(t, trainer_stream(t, STREAM_COMM), &to->freed);
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    if (x->post_forward)
        TRY(unshard_post_forward(t, x->index, to, e));
    else
        TRY(unshard_local(t, x, to, e));
    trainer_record(t, &to->filled, trainer_stream(t, STREAM_COMM));
    slots_assign_weight(t, x->index, x->slot);
done:
    return result;
}

status run_reshard(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    trainer_record(t, &slots_weight(t, x->slot)->freed, trainer_stream(t, STREAM_COMPUTE));
    slots_assign_weight(t, x->index, -1);
    return OK;
}

status run_all_gather_updated(trainer *t, const schedule_instr *x, err *e)
{
    const plan_group *g = plan_group_of(t->plan, x->index);
    if (g->redistribute.all_gather_updated.count == 0) return OK;
    return redistribute_bucket(t->plan, &g->redistribute.all_gather_updated, x->index, NULL,
                               state_bucket(t, ARRAY_WEIGHTS, x->index), g->o.compute,
                               groups_comms(t->groups), trainer_stream(t, STREAM_COMPUTE), e);
}

// ---- Gradients

status run_alloc_grad(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const plan_bucket *b = &t->plan->bucket[x->index];
    trainer_slot *s = slots_gradient(t, x->slot);
    trainer_wait(t, trainer_stream(t, STREAM_COMPUTE), &s->freed);
    trainer_record(t, &s->filled, trainer_stream(t, STREAM_COMPUTE));
    slots_assign_gradient(t, x->index, x->slot);
    for (int i = 0; i < b->rows; i++)
        *state_grad_written(t, t->plan->order[b->first_row + i]) = false;
    return OK;
}

// The memory in which this rank sums a bucket's gradients over micro-batches: the gradient slot,
// or, for slot -1, the flat array of gradients.
static float *gradients_of(const trainer *t, int bucket, int slot)
{
    if (slot >= 0) return (float *)(void *)slots_gradient(t, slot)->ptr;
    return (float *)(void *)state_bucket(t, ARRAY_GRADIENTS, bucket);
}

// Completes this rank's sums: sets rows without a gradient to zero, adds tied gradients, and sums
// the rows with partial gradients over tp.
static status complete(trainer *t, const schedule_instr *x, float *gradients, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    device_stream *on = trainer_stream(t, STREAM_COMM);
    for (int i = 0; i < b->rows; i++) {
        const int row = p->order[b->first_row + i];
        const plan_row *r = &p->row[row];
        float *g = trainer_row_ptr(r, gradients, LAYOUT_FULL);
        if (!*state_grad_written(t, row)) launch_zero(on, g, r->count * (int64_t)sizeof *g);
        if (r->tied_grad >= 0 && x->last && *state_tied_grad_written(t, row))
            launch_add(on, g, g, state_tied_gradient(t, r), 1, r->count);
        if (r->tp_partial)
            TRY(comm_all_reduce(trainer_axis(t, AXIS_TP), g, (size_t)r->count, F32, REDUCE_SUM, on,
                                e));
    }
done:
    return result;
}

// Carries out redistribution m of a bucket's gradients; redistribute_bucket says what `shards` is.
static status sum_over_ranks(trainer *t, const plan_redistribution *m, int bucket, float *gradients,
                             float *shards, err *e)
{
    device_stream *on = trainer_stream(t, STREAM_COMM);
    if (m->count == 0) return OK;
    if (t->compressor)
        return compress_redistribute(t->compressor, m, bucket, gradients, results_steps_done(t), on,
                                     e);
    return redistribute_bucket(t->plan, m, bucket, shards, gradients, F32, groups_comms(t->groups),
                               on, e);
}

// Where this rank keeps its shards of a bucket that lies full in a gradient slot.
typedef struct kept_shards {
    float *ptr;   // in the layout of trainer_gradient_layout
    bool in_slot; // ptr is a state slot
    bool adds;    // earlier micro-batches have written shards there
    bool arrive;  // the reduce-scatter writes the shards there; else they are copied
} kept_shards;

// Is the last step of m a reduce-scatter to shards of this layout?
static bool scatters_to(const plan_redistribution *m, plan_layout l)
{
    const plan_redistribution_step *last = m->count > 0 ? &m->step[m->count - 1] : NULL;
    return last && last->collective == REDISTRIBUTE_REDUCE_SCATTER && last->to == l;
}

// `sum` is the redistribution that gives the shards.
static status find_kept_shards(trainer *t, const schedule_instr *x, const plan_redistribution *sum,
                               kept_shards *out, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(t->plan, x->index);
    const int slot = x->state[PLAN_GRADIENTS];
    char *ptr = NULL;
    out->in_slot = plan_is_swapped(g, PLAN_GRADIENTS) && slot >= 0;
    if (out->in_slot) TRY(tiers_await(t, PLAN_GRADIENTS, slot, STREAM_COMM, &ptr, e));
    out->ptr = out->in_slot    ? (float *)(void *)ptr
               : x->second_use ? state_tied_shards(t, x->index)
                               : gradients_of(t, x->index, -1);
    out->adds = x->micro > 0 && g->gradient != LAYOUT_FULL;
    out->arrive = !out->adds && !t->compressor && scatters_to(sum, trainer_gradient_layout(g));
done:
    return result;
}

// Adds the shards of the summed bucket to those that are kept, or copies them, unless they arrived
// there. After the last micro-batch it completes their sums.
static status keep_shards(trainer *t, const schedule_instr *x, const float *full,
                          const kept_shards *kept, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(t->plan, x->index);
    device_stream *on = trainer_stream(t, STREAM_COMM);
    if (!kept->arrive)
        copy_segments(on, segments_of(t, SEGMENTS_GRADIENT_SHARDS, x->index), full, kept->ptr, F32,
                      kept->adds);
    if (!x->last && !kept->in_slot) goto done;
    // An array that is sharded on one level may still be PARTIAL on the other.
    if (g->gradient != LAYOUT_FULL)
        TRY(sum_over_ranks(t, &g->redistribute.reduce_step, x->index, kept->ptr, NULL, e));
    trainer_add_squares(t, x->index, kept->ptr, on);
done:
    return result;
}

// Sums the full bucket of a gradient slot over ranks, then keeps this rank's shards.
static status reduce_slot(trainer *t, const schedule_instr *x, float *full, err *e)
{
    status result = OK;
    const plan_redistributions *r = &plan_group_of(t->plan, x->index)->redistribute;
    const bool sums_step = plan_group_of(t->plan, x->index)->gradient == LAYOUT_FULL;
    const plan_redistribution *last = sums_step ? &r->reduce_step : &r->reduce_micro_batch;
    kept_shards kept;
    TRY(find_kept_shards(t, x, last, &kept, e));
    if (sums_step) TRY(sum_over_ranks(t, &r->reduce_micro_batch, x->index, full, NULL, e));
    TRY(sum_over_ranks(t, last, x->index, full, kept.arrive ? kept.ptr : NULL, e));
    TRY(keep_shards(t, x, full, &kept, e));
    trainer_record(t, &slots_gradient(t, x->slot)->freed, trainer_stream(t, STREAM_COMM));
    slots_assign_gradient(t, x->index, -1);
done:
    return result;
}

// Adds the shards of second uses, which were reduced by themselves, to those of the first.
static void add_second_uses(trainer *t, int bucket, float *gradients)
{
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    const plan_layout l = plan_group_of(p, bucket)->gradient;
    for (int i = 0; b->second_use >= 0 && i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        float *const to = trainer_row_ptr(r, gradients, l);
        const int64_t count = plan_local_shard(p, r, l, p->coord).count;
        if (count > 0)
            launch_add(trainer_stream(t, STREAM_COMM), to, to,
                       trainer_row_ptr(r, state_tied_shards(t, bucket), l), 1, count);
    }
}

status run_reduce_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(t->plan, x->index);
    float *gradients = gradients_of(t, x->index, x->slot);
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    if (t->pass.inspects) {
        if (x->slot < 0 && g->gradient != LAYOUT_FULL) return OK; // only reduced shards are left
        if (x->slot >= 0) slots_assign_gradient(t, x->index, -1);
        return trainer_inspect(t, x->index, gradients, e);
    }
    if (x->slot >= 0 || g->gradient == LAYOUT_FULL) TRY(complete(t, x, gradients, e));
    if (x->slot >= 0) return reduce_slot(t, x, gradients, e);
    add_second_uses(t, x->index, gradients);
    TRY(sum_over_ranks(t, &g->redistribute.reduce_step, x->index, gradients, NULL, e));
    trainer_add_squares(t, x->index, gradients, trainer_stream(t, STREAM_COMM));
done:
    return result;
}

// Sums the gradients of tied weights over the first and the last stage. The gradients are full, in
// the flat array or in a slot.
status run_reduce_tied_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    const plan_layout l = x->slot < 0 ? plan_group_of(p, x->index)->gradient : LAYOUT_FULL;
    float *gradients = gradients_of(t, x->index, x->slot);
    if (t->pass.inspects) return OK;
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        const plan_shard s = plan_local_shard(p, r, l, p->coord);
        if (r->tied)
            TRY(comm_all_reduce(trainer_group(t, GROUP_TIED), trainer_row_ptr(r, gradients, l),
                                (size_t)s.count, F32, REDUCE_SUM, trainer_stream(t, STREAM_COMM),
                                e));
    }
done:
    return result;
}
