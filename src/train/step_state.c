// step_state.c -- executes the instructions that change the placement of weights and gradients.
// Called through the table in step.c. The plan says which calls they make. This file names no
// strategy.
#include "parallel/instructions.h"
#include "train/calls.h"
#include "train/launch.h"
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

// The calls of the instruction that runs, and what they need.
static const schedule_call *calls_of(const trainer *t, const schedule_instr *x)
{
    return t->pass.list->call + x->first_call;
}

static calls_run run_of(trainer *t, const schedule_instr *x)
{
    return (calls_run){.spans = trainer_spans_of_calls(t),
                       .first = calls_of(t, x),
                       .groups = groups_comms(t->groups),
                       .compressor = t->compressor,
                       .on = trainer_stream(t, instr_row_of(x->kind)->stream),
                       .bucket = x->index,
                       .step = results_steps_done(t)};
}

// ---- Weights

status run_reshard_post_forward(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const dtype type = plan_group_of(t->plan, x->index)->o.compute;
    copy_segments(
        trainer_stream(t, STREAM_COMPUTE), segments_of(t, SEGMENTS_POST_FORWARD_SHARDS, x->index),
        slots_weight(t, x->slot)->ptr, state_bucket(t, ARRAY_POST_FORWARD, x->index), type, false);
    return OK;
}

// Unpacks the rows of a bucket into its weight slot.
static void unpack_weights(const trainer *t, int bucket, const char *packed, char *to,
                           device_stream *on)
{
    const plan_bucket *b = &t->plan->bucket[bucket];
    const dtype type = plan_group_of(t->plan, bucket)->o.compute;
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &t->plan->row[t->plan->order[b->first_row + i]];
        kernel_call c = {.kind = K_UNPACK_NF4};
        c.u.unpack_nf4 = (kernel_unpack_nf4_args){
            .rows = r->rows,
            .cols = r->cols,
            .packed = packed + (size_t)r->offset[LAYOUT_PACKED] * sizeof(float),
            .y = to + (size_t)r->offset[LAYOUT_FULL] * dtype_bytes(type),
            .type = type};
        device_launch(on, &c);
    }
}

// Brings the full weights of a bucket into `to` from its shards. Packed rows are gathered behind them.
static status unshard(trainer *t, const schedule_instr *x, char *shards, char *to, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(t->plan, x->index);
    const calls_run r = run_of(t, x);
    const bool packed = g->o.storage == STORAGE_NF4;
    const size_t full = plan_packed_start(t->plan, x->index);
    char *gathered = packed ? to + full : to;
    if (x->calls == 0 && packed) gathered = shards;
    if (x->calls == 0 && !packed) trainer_ops(t)->copy(r.on, to, shards, full);
    TRY(calls_issue(&r, calls_of(t, x), x->calls, gathered, shards, e));
    if (packed) unpack_weights(t, x->index, gathered, to, r.on);
done:
    return result;
}

// The shards lie in the array, in a state slot, or where RESHARD_POST_FORWARD kept them.
status run_unshard(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const plan_group *g = plan_group_of(t->plan, x->index);
    device_stream *on = trainer_stream(t, STREAM_COMM);
    trainer_slot *to = slots_weight(t, x->slot);
    const bool swapped = !x->post_forward && plan_is_swapped(g, PLAN_WEIGHTS);
    char *shards;
    trainer_wait(t, on, &to->freed);
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    if (swapped)
        TRY(tiers_await(t, PLAN_WEIGHTS, x->state[PLAN_WEIGHTS], STREAM_COMM, &shards, e));
    else
        shards = state_bucket(t, x->post_forward ? ARRAY_POST_FORWARD : ARRAY_WEIGHTS, x->index);
    trainer_span_begin(t, x);
    TRY(unshard(t, x, shards, to->ptr, e));
    if (swapped) tiers_free_slot(t, PLAN_WEIGHTS, x->state[PLAN_WEIGHTS], STREAM_COMM);
    trainer_record(t, &to->filled, on);
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
    const calls_run r = run_of(t, x);
    return calls_issue(&r, calls_of(t, x), x->calls, state_bucket(t, ARRAY_WEIGHTS, x->index), NULL,
                       e);
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

// Completes this rank's sums: sets rows without a gradient to zero, and adds tied gradients.
static void complete(trainer *t, const schedule_instr *x, float *gradients)
{
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
    }
}

// Finds the memory in which this rank keeps its shards of a bucket, in the layout of plan_gradient_layout.
static status find_kept_shards(trainer *t, const schedule_instr *x, float **out, err *e)
{
    status result = OK;
    const int slot = x->state[PLAN_GRADIENTS];
    char *ptr = NULL;
    if (slot >= 0) TRY(tiers_await(t, PLAN_GRADIENTS, slot, STREAM_COMM, &ptr, e));
    *out = ptr             ? (float *)(void *)ptr
           : x->second_use ? state_tied_shards(t, x->index)
                           : gradients_of(t, x->index, -1);
done:
    return result;
}

// The number of the instruction's calls in the bucket. They come before those in the shards.
static int calls_in_bucket(const trainer *t, const schedule_instr *x)
{
    const schedule_call *c = calls_of(t, x);
    int count = 0;
    while (count < x->calls && c[count].array != IN_SHARDS) count++;
    return count;
}

// Adds the shards of the summed bucket of a gradient slot to those that are kept, or copies them, unless the last
// call wrote them there.
static void keep_shards(trainer *t, const schedule_instr *x, int calls, const float *full,
                        float *kept)
{
    const comm_call *last = calls > 0 ? &calls_of(t, x)[calls - 1].call : NULL;
    const bool adds = x->micro > 0 && plan_group_of(t->plan, x->index)->gradient != LAYOUT_FULL,
               arrived = last && last->segment && !last->in_place;
    device_stream *on = trainer_stream(t, STREAM_COMM);
    if (!arrived)
        copy_segments(on, segments_of(t, SEGMENTS_GRADIENT_SHARDS, x->index), full, kept, F32,
                      adds);
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

// Looks for a NaN or Inf in gradients that are about to be reduced.
static status inspect(trainer *t, const schedule_instr *x, float *gradients, err *e)
{
    const bool full = plan_group_of(t->plan, x->index)->gradient == LAYOUT_FULL;
    if (x->slot < 0 && !full) return OK; // only reduced shards are left
    if (x->slot >= 0) slots_assign_gradient(t, x->index, -1);
    return trainer_inspect(t, x->index, gradients, e);
}

// Reduces full gradients where they are, keeps this rank's shards of those in a slot, and after the last
// micro-batch completes the sums of the shards.
status run_reduce_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const bool slot = x->slot >= 0,
               full = slot || plan_group_of(t->plan, x->index)->gradient == LAYOUT_FULL;
    const schedule_call *c = calls_of(t, x);
    const calls_run r = run_of(t, x);
    const int calls = calls_in_bucket(t, x);
    device_stream *on = trainer_stream(t, STREAM_COMM);
    float *gradients = gradients_of(t, x->index, x->slot), *kept = gradients;
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    if (t->pass.inspects) return inspect(t, x, gradients, e);
    trainer_span_begin(t, x);
    if (full) complete(t, x, gradients);
    if (slot)
        TRY(find_kept_shards(t, x, &kept, e));
    else
        add_second_uses(t, x->index, gradients);
    if (t->hook.run)
        TRY(trainer_run_hook(t, x, c, calls, gradients, e));
    else
        TRY(calls_issue(&r, c, calls, gradients, kept, e));
    if (slot) keep_shards(t, x, calls, gradients, kept);
    TRY(calls_issue(&r, c + calls, x->calls - calls, kept, NULL, e));
    if (x->last || x->state[PLAN_GRADIENTS] >= 0 || !slot)
        trainer_add_squares(t, x->index, kept, on);
    if (slot) {
        trainer_record(t, &slots_gradient(t, x->slot)->freed, on);
        slots_assign_gradient(t, x->index, -1);
    }
done:
    return result;
}

// Sums the gradients of tied weights over the first and the last stage. The gradients are full, in
// the flat array or in a slot.
status run_reduce_tied_grad(trainer *t, const schedule_instr *x, err *e)
{
    if (t->pass.inspects) return OK;
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    trainer_span_begin(t, x);
    const calls_run r = run_of(t, x);
    return calls_issue(&r, calls_of(t, x), x->calls, gradients_of(t, x->index, x->slot), NULL, e);
}
