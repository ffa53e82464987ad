// step.c -- executes the schedule: one function for each kind of instruction, which launches work on
// streams.
//
// The compute stream runs blocks and updates, the communication stream collectives and messages, the
// copy stream batches and files; the table in parallel/instructions.c says which instruction runs
// where. Two kinds wait on the host: CLIP_GRAD_NORM for its numbers, and LOAD_BATCH when the reader
// is late. What differs between strategies stands in the plan and in the list. The functions are in
// step_blocks.c, step_state.c and step_update.c.
#include "base/clock.h"
#include "parallel/instructions.h"
#include "train/state.h"

// The function of each kind: run_load_batch, …
#define RUN_OF(KIND, name) [KIND] = run_##name,
static const run_fn RUN[] = {SCHEDULE_INSTRS(RUN_OF)};
_Static_assert(sizeof RUN / sizeof *RUN == INSTRS, "every kind of instruction has its function");

void trainer_reset_sums(trainer *t)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (kernel_fill_args){t->sums, SUMS * sizeof(double)};
    device_launch(t->stream[STREAM_COMPUTE], &c);
    memset(t->grad_written, 0, (size_t)t->model->params * sizeof(bool));
    memset(t->tied_grad_written, 0, (size_t)t->model->params * sizeof(bool));
    for (int k = 0; k < t->plan->buckets; k++) t->weight_of[k] = t->gradient_of[k] = -1;
}

static status run_one(trainer *t, const schedule_instr *x, err *e)
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
    TRY(trainer_close_staging(t, e)); // they show what the list changes, in a slot that it uses
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *x = &s->instr[i];
        const bool agrees = instr_has_effect(x->kind, ACCESS_WRITE, RES_AGREED);
        if (agrees && t->inspecting) break;
        TRY(run_one(t, x, e));
        if (agrees && t->agreed.samples == 0) break; // no rank had data
        if (agrees && !t->agreed.finite) {
            if (!t->o.skip_nonfinite && t->o.precision != F16) TRY(trainer_name_nonfinite(t, e));
            break; // the step has no update
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

status trainer_step(trainer *t, bool stop, trainer_step_result *out, err *e)
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
    *out = (trainer_step_result){.step = t->steps_done + (exhausted ? 0 : 1),
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
