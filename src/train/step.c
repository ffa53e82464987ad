// step.c -- executes the schedule: one function per instruction, each a few launches on streams.
//
// The compute stream runs blocks and updates, the communication stream collectives, the copy stream
// brings batches. Nothing here waits but CLIP, which needs its numbers on the host, and LOAD, when
// the reader is late. Called by cmd/ through trainer_step; which collective a bucket needs stands
// in the plan.
#include "base/clock.h"
#include "parallel/bucket.h"
#include "train/state.h"

typedef status (*run_fn)(trainer *t, const instr *x, err *e);

static const device_ops *ops(const trainer *t)
{
    return t->o.device->ops;
}

run_context trainer_context(trainer *t, const model *m, int block)
{
    int slot = (int)((t->loads - 1) % SLOTS);
    run_context x = {.g = m->block[block].g,
                     .on = t->stream[STREAM_COMPUTE],
                     .weight = t->block_weight[block],
                     .gradient = t->block_gradient[block],
                     .touched = t->block_touched[block],
                     .rope = t->rope,
                     .loss_sum = &t->sums[SUM_LOSS],
                     .loss_count = &t->sums[SUM_COUNT],
                     .seed = t->o.seed,
                     .step = t->steps_done,
                     .block = block,
                     .row0 = t->batch.first * (uint64_t)t->o.seq_len};
    x.base[PLACE_INPUT] = block > 0 ? t->boundary[block - 1] : NULL;
    x.base[PLACE_OUTPUT] = t->boundary[block];
    x.base[PLACE_SAVED] = t->saved[block];
    x.base[PLACE_WORK] = t->work;
    x.base[PLACE_IDS] = t->ids[slot];
    x.base[PLACE_LABELS] = t->labels[slot];
    return x;
}

// The batch before the current one has left the host's memory once its copy is done.
static void release_batch(trainer *t)
{
    if (!t->batch_held) return;
    ops(t)->event_sync(t->loaded[(t->loads - 1) % SLOTS]);
    loader_release(t->loader);
    t->batch_held = false;
}

void trainer_upload(trainer *t, stream *on, int slot, const void *inputs, const void *labels)
{
    const value *ids = t->model->block[0].g->ids;
    int64_t count = value_rows(ids) * value_cols(ids);
    // Ids and fp32 features have elements of one size.
    ops(t)->copy(on, t->features ? (void *)t->features : t->ids[slot], inputs, (size_t)count * 4);
    ops(t)->copy(on, t->labels[slot], labels,
                 value_bytes(t->model->block[t->model->blocks - 1].g->labels));
    if (!t->features) return;
    kernel_call c = {.kind = K_CONVERT};
    c.u.convert = (convert_args){.count = count,
                                 .src = t->features,
                                 .dst = t->ids[slot],
                                 .src_type = F32,
                                 .dst_type = ids->type};
    device_launch(on, &c);
}

static void copy_batch(trainer *t, int slot)
{
    stream *copy = t->stream[STREAM_COPY], *compute = t->stream[STREAM_COMPUTE];
    ops(t)->wait(copy, t->consumed[slot]);
    trainer_upload(t, copy, slot, t->batch.inputs, t->batch.labels);
    ops(t)->record(t->loaded[slot], copy);
    ops(t)->wait(compute, t->loaded[slot]);
}

static status run_load(trainer *t, const instr *x, err *e)
{
    status result = OK;
    release_batch(t);
    TRY(loader_next(t->loader, t->steps_done, x->micro, &t->batch, e));
    t->batch_held = true;
    if (t->steps_done == 0) t->first_hash = t->first_hash * 31 + t->batch.hash;
    copy_batch(t, (int)(t->loads++ % SLOTS));
done:
    return result;
}

static status run_forward(trainer *t, const instr *x, err *e)
{
    status result = OK;
    run_context c = trainer_context(t, t->model, x->index);
    TRY(graph_run_forward(&c, e));
    if (x->index == t->model->blocks - 1) t->dout = NULL, t->dout_spare = -1;
done:
    return result;
}

static status run_backward(trainer *t, const instr *x, err *e)
{
    status result = OK;
    run_context c = trainer_context(t, t->model, x->index);
    const graph *g = c.g;
    int free_spare = t->dout_spare == 0 ? 1 : 0;
    c.base[PLACE_DOUT] = t->dout;
    c.base[PLACE_DIN] = t->spare[free_spare];
    TRY(graph_run_backward(&c, e));
    if (!g->din_unused) {
        t->dout = run_at(&c, g->input->grad);
        if (t->dout == t->spare[free_spare]) t->dout_spare = free_spare;
    }
    if (x->index == 0)
        ops(t)->record(t->consumed[(t->loads - 1) % SLOTS], t->stream[STREAM_COMPUTE]);
done:
    return result;
}

static status run_reduce(trainer *t, const instr *x, err *e)
{
    ops(t)->record(t->computed, t->stream[STREAM_COMPUTE]);
    ops(t)->wait(t->stream[STREAM_COMM], t->computed);
    return bucket_reduce(t->plan, x->index, t->gradients, t->o.comm, t->stream[STREAM_COMM], e);
}

static status run_clip(trainer *t, const instr *x, err *e)
{
    (void)x;
    // The sums of the loss come from the compute stream, those of the gradients follow the
    // reductions.
    ops(t)->record(t->computed, t->stream[STREAM_COMPUTE]);
    ops(t)->wait(t->stream[STREAM_COMM], t->computed);
    return clip_gradients(t->plan, t->gradients, t->o.comm, t->stream[STREAM_COMM], t->sums,
                          t->host_sums, t->stop, t->o.clip_grad_norm, &t->agreed, e);
}

// Rows first … last-1 of the plan lie back to back and decay alike: one launch.
static void update_range(trainer *t, int first, int last)
{
    const plan_row *a = &t->plan->row[first], *b = &t->plan->row[last - 1];
    kernel_call c = {.kind = K_UPDATE};
    optim_config config = t->o.optimizer;
    // A schedule that cycles momentum means Adam's first beta; SGD's momentum stays.
    if (t->state[STATE_V])
        config.beta1 = lr_momentum_at(&t->o.lr, config.beta1, (int64_t)t->steps_done);
    optim_fill(&config, t->steps_done + 1, lr_at(&t->o.lr, config.lr, (int64_t)t->steps_done),
               t->agreed.scale, a->decays, &c.u.update);
    c.u.update.count = b->first + b->count - a->first;
    c.u.update.w = t->weights + a->first;
    c.u.update.g = t->gradients + a->first;
    if (t->state[STATE_M]) c.u.update.m = t->state[STATE_M] + a->first;
    if (t->state[STATE_V]) c.u.update.v = t->state[STATE_V] + a->first;
    c.u.update.low_type = t->o.precision;
    if (t->low != t->weights)
        c.u.update.low = (char *)t->low + (size_t)a->first * dtype_bytes(t->o.precision);
    device_launch(t->stream[STREAM_COMPUTE], &c);
}

static status run_update(trainer *t, const instr *x, err *e)
{
    (void)e;
    ops(t)->record(t->reduced, t->stream[STREAM_COMM]);
    ops(t)->wait(t->stream[STREAM_COMPUTE], t->reduced);
    const plan *p = t->plan;
    for (int i = 0, first = 0; i < p->rows; i++) {
        if (p->row[i].bucket != x->index) {
            first = i + 1;
            continue;
        }
        bool ends = i + 1 == p->rows || p->row[i + 1].bucket != x->index ||
                    p->row[i + 1].decays != p->row[i].decays;
        if (!ends) continue;
        update_range(t, first, i + 1);
        first = i + 1;
    }
    return OK;
}

static status run_publish(trainer *t, const instr *x, err *e)
{
    return bucket_publish(t->plan, x->index, t->low, t->o.precision, t->o.comm,
                          t->stream[STREAM_COMPUTE], e);
}

static const run_fn RUN[INSTRS] = {
    [LOAD] = run_load, [FORWARD] = run_forward, [BACKWARD] = run_backward, [REDUCE] = run_reduce,
    [CLIP] = run_clip, [UPDATE] = run_update,   [PUBLISH] = run_publish,
};

void trainer_reset_sums(trainer *t)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (fill_args){t->sums, SUMS * sizeof(double)};
    device_launch(t->stream[STREAM_COMPUTE], &c);
    memset(t->touched, 0, (size_t)t->model->params * sizeof(bool));
}

status trainer_run_micro(trainer *t, int micro, err *e)
{
    status result = OK;

    for (int i = 0; i < t->schedule.count; i++) {
        const instr *x = &t->schedule.at[i];
        bool computes = x->kind == LOAD || x->kind == FORWARD || x->kind == BACKWARD;
        if (computes && x->micro == micro) TRY(RUN[x->kind](t, x, e));
    }
done:
    return result;
}

static status run_schedule(trainer *t, err *e)
{
    status result = OK;
    for (int i = 0; i < t->schedule.count; i++) {
        const instr *x = &t->schedule.at[i];
        TRY(RUN[x->kind](t, x, e));
        if (x->kind == CLIP && !t->agreed.finite) {
            if (!t->o.skip_nonfinite) TRY(trainer_name_nonfinite(t, e));
            break; // the update is left out
        }
    }
done:
    return result;
}

status trainer_step(trainer *t, bool stop, step_result *out, err *e)
{
    status result = OK;
    double start = clock_seconds();
    t->stop = stop;
    trainer_reset_sums(t);
    TRY(run_schedule(t, e));
    TRY(ops(t)->sync(t->stream[STREAM_COMPUTE], e));
    *out = (step_result){.step = t->steps_done + 1,
                         .loss = t->agreed.loss,
                         .grad_norm = t->agreed.norm,
                         .lr = lr_at(&t->o.lr, t->o.optimizer.lr, (int64_t)t->steps_done),
                         .tokens = (double)(t->o.global_batch * t->o.seq_len),
                         .skipped = !t->agreed.finite,
                         .stop = t->agreed.stop};
    t->steps_done++;
    if (t->o.replicas_every > 0 &&
        (t->steps_done == 1 || t->steps_done % (uint64_t)t->o.replicas_every == 0))
        TRY(trainer_check_replicas(t, e));
    out->seconds = clock_seconds() - start;
done:
    return result;
}
