// step.c -- executes the schedule: one function per instruction, each a few launches on streams.
//
// The compute stream runs blocks and updates, the communication stream collectives and messages,
// the copy stream brings batches and what lies in files. Nothing here waits but CLIP, which needs
// its numbers on the host, and LOAD, when the reader is late. What a strategy does differently
// stands in the plan and in the list. The functions are in step_blocks.c, step_state.c and
// step_update.c.
#include "base/clock.h"
#include "train/state.h"

static const run_fn RUN[INSTRS] = {
    [LOAD] = run_load,
    [FETCH] = run_fetch,
    [GATHER] = run_gather,
    [KEEP] = run_keep,
    [RELEASE] = run_release,
    [CLAIM] = run_claim,
    [RECV_ACT] = run_recv_act,
    [FORWARD] = run_forward,
    [SEND_ACT] = run_send_act,
    [RECV_GRAD] = run_recv_grad,
    [BACKWARD] = run_backward,
    [BACKWARD_INPUT] = run_backward,
    [BACKWARD_WEIGHT] = run_backward,
    [SEND_GRAD] = run_send_grad,
    [TIE] = run_tie,
    [REDUCE] = run_reduce,
    [CLIP] = run_clip,
    [UPDATE] = run_update,
    [PUBLISH] = run_publish,
    [FLUSH] = run_flush,
};

void trainer_reset_sums(trainer *t)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (fill_args){t->sums, SUMS * sizeof(double)};
    device_launch(t->stream[STREAM_COMPUTE], &c);
    memset(t->touched, 0, (size_t)t->model->params * sizeof(bool));
    memset(t->twin_touched, 0, (size_t)t->model->params * sizeof(bool));
    for (int k = 0; k < t->plan->buckets; k++) t->weight_of[k] = t->gradient_of[k] = -1;
}

static status run_one(trainer *t, const instr *x, err *e)
{
    const double start = clock_seconds();
    trainer_show_activity(t, x);
    const status result = RUN[x->kind](t, x, e);
    t->seconds[x->kind] += clock_seconds() - start;
    return result;
}

status trainer_run(trainer *t, const schedule *s, const model *m, err *e)
{
    status result = OK;
    t->running = m;
    TRY(trainer_close_windows(t, e)); // they show what the list changes, in a slot that it uses
    for (int i = 0; i < s->count; i++) {
        const instr *x = &s->at[i];
        if (t->inspecting && x->kind == CLIP) break;
        TRY(run_one(t, x, e));
        if (x->kind == CLIP && t->agreed.samples == 0) break; // nothing to learn from
        if (x->kind == CLIP && !t->agreed.finite) {
            if (!t->o.skip_nonfinite && t->o.precision != F16) TRY(trainer_name_nonfinite(t, e));
            break; // the update is left out
        }
    }
done:
    return result;
}

static status check_replicas(trainer *t, err *e)
{
    const int64_t every = t->o.replicas_every;
    bool due = every > 0 && (t->steps_done == 1 || t->steps_done % (uint64_t)every == 0);
    return due ? trainer_check_replicas(t, e) : OK;
}

static status scale_loss(trainer *t, err *e)
{
    const double before = t->scaler.scale;
    const status result = scaler_update(&t->scaler, !t->agreed.finite, e);
    // What compression carries from step to step is in units of the loss scale.
    if (t->scaler.scale != before) compress_restart(t->compressor);
    return result;
}

status trainer_step(trainer *t, bool stop, step_result *out, err *e)
{
    status result = OK;
    double start = clock_seconds();
    t->stop = stop;
    t->samples = 0;
    memset(t->seconds, 0, sizeof t->seconds);
    trainer_reset_sums(t);
    TRY(trainer_run(t, &t->schedule, t->model, e));
    for (int k = 0; k < STREAMS; k++) TRY(t->o.device->ops->sync(t->stream[k], e));
    trainer_show_activity(t, NULL);
    const bool exhausted = t->agreed.samples == 0;
    *out = (step_result){.step = t->steps_done + (exhausted ? 0 : 1),
                         .loss = t->agreed.loss,
                         .grad_norm = t->agreed.norm,
                         .lr = lr_at(&t->o.lr, t->o.optimizer.lr, trainer_updates(t)),
                         .tokens = t->agreed.samples * (double)t->o.seq_len,
                         .loss_scale = t->o.precision == F16 ? t->scaler.scale : 0,
                         .skipped = !t->agreed.finite,
                         .stop = t->agreed.stop,
                         .exhausted = exhausted};
    if (exhausted) goto done;
    if (!t->agreed.finite) compress_restart(t->compressor); // it must not keep a NaN
    if (t->o.precision == F16) TRY(scale_loss(t, e));
    t->steps_done++;
    if (!t->agreed.finite) t->skipped++;
    TRY(check_replicas(t, e));
done:
    if (result == OK) out->seconds = clock_seconds() - start;
    return result;
}
