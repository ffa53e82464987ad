// step.c -- executes the schedule. Each kind of instruction has a function, which issues work to
// streams.
//
// The compute stream runs blocks and updates. The communication stream runs collectives and
// messages. The copy stream copies batches, and state between the device and its tier. The table in
// parallel/instructions.c says which instruction runs where. The host waits only for the loader when
// it is late (LOAD_BATCH), and for files (tiers_file.c). All LOAD_BATCH stand first. What the host
// decides about a step is in LOAD_STEP, and the device decides whether the step updates the weights. So
// every list runs to its end, and the host reads the results after it; step_parts.c executes the same
// list in parts. Strategies differ in the plan and in the list, not in this file. The functions are in batches.c, step_blocks.c, step_state.c,
// tiers.c, results.c and step_update.c.
#include "base/clock.h"
#include "parallel/instructions.h"
#include "train/trainer_private.h"

// The function of each kind: run_load_batch, …
#define RUN_OF(KIND, name) [KIND] = run_##name,
static const run_fn RUN[] = {SCHEDULE_INSTRS(RUN_OF)};
_Static_assert(sizeof RUN / sizeof *RUN == INSTRS, "every kind of instruction has its function");

static status run_instr(trainer *t, const schedule_instr *x, err *e)
{
    trainer_span_arrive(t, x);
    const status result = RUN[x->kind](t, x, e);
    trainer_span_end(t, x);
    return result;
}

status trainer_run_begin(trainer *t, const schedule *s, const model *m, err *e)
{
    t->pass.list = s;
    t->pass.running = m;
    t->pass.next = 0;
    state_reset_gradients(t);
    slots_reset(t);
    return tiers_close_staging(t, e); // the list changes the staged buckets, and uses their slots
}

status trainer_run_to(trainer *t, int end, err *e)
{
    status result = OK;
    const schedule *s = t->pass.list;
    bool issues = true;
    for (int *i = &t->pass.next; issues && *i < end; ++*i) {
        const schedule_instr *x = &s->instr[*i];
        const double start = clock_seconds();
        // A repetition that looks for a NaN or Inf has seen all gradients now.
        if (t->pass.inspects && instr_row_of(x->kind)->peers.waits_for == WAITS_FOR_ALL_STAGES)
            break;
        trainer_show_activity(t, x);
        if (captures_begins_at(t, s, *i)) TRY(captures_begin(t, &issues, e));
        if (issues) TRY(run_instr(t, x, e));
        if (t->pass.inspects) TRY(trainer_inspect_values(t, x, e));
        results_add_seconds(t, x->kind, clock_seconds() - start);
    }
done:
    return captures_end(t, result, e);
}

status trainer_run(trainer *t, const schedule *s, const model *m, err *e)
{
    const status result = trainer_run_begin(t, s, m, e);
    return result == OK ? trainer_run_to(t, s->count, e) : result;
}

// A step that is not finite has not updated the weights. fp16 skips such steps, and so does
// skip_nonfinite; otherwise it is an error.
static status check_finite(trainer *t, err *e)
{
    const kernel_step_result *r = results_agreed(t);
    const bool skips = t->o.checks.skip_nonfinite || t->o.precision == F16;
    return r->finite || r->samples == 0 || skips ? OK : trainer_name_nonfinite(t, e);
}

static status check_replicas(trainer *t, err *e)
{
    const int64_t every = t->o.checks.replicas_every;
    const uint64_t steps = results_steps_done(t);
    const bool due = every > 0 && (steps == 1 || steps % (uint64_t)every == 0);
    return due ? trainer_check_replicas(t, e) : OK;
}

status trainer_step_begin(trainer *t, bool stop, err *e)
{
    status result = OK;
    results_start_step(t, stop);
    trainer_spans_begin_step(t);
    TRY(captures_begin_run(t, e));
    TRY(trainer_run_begin(t, &t->schedule, t->model, e));
done:
    return result;
}

status trainer_step_end(trainer *t, trainer_step_result *out, err *e)
{
    status result = OK;
    bool rescaled;
    TRY(trainer_run_to(t, t->schedule.count, e));
    results_copy_agreed(t);
    TRY(groups_sync(t->groups, e));
    *out = results_of_step(t);
    trainer_spans_end_step(t, out);
    TRY(check_finite(t, e));
    trainer_show_activity(t, NULL);
    if (out->exhausted) goto done;
    TRY(results_end_step(t, &rescaled, e));
    // The errors that compression carries from step to step have the loss scale as a factor, and
    // must not contain a NaN.
    compress_end_step(t->compressor, results_steps_done(t), rescaled || out->skipped);
    TRY(check_replicas(t, e));
done:
    return result;
}

status trainer_step(trainer *t, bool stop, trainer_step_result *out, err *e)
{
    status result = OK;
    const double start = clock_seconds();
    TRY(trainer_step_begin(t, stop, e));
    TRY(trainer_step_end(t, out, e));
    out->seconds = clock_seconds() - start;
done:
    return result;
}
