// step.c -- executes the schedule. Each kind of instruction has a function, which issues work to
// streams.
//
// The compute stream runs blocks and updates. The communication stream runs collectives and
// messages. The copy stream copies batches and files. The table in parallel/instructions.c says
// which instruction runs where. Only two instructions make the host wait: CLIP_GRAD_NORM reads
// numbers, and LOAD_BATCH waits when the loader is late. Strategies differ in the plan and in the
// list, not in this file. The functions are in batches.c, step_blocks.c, step_state.c, tiers.c,
// results.c and step_update.c.
#include "base/clock.h"
#include "parallel/instructions.h"
#include "train/trainer_private.h"

// The function of each kind: run_load_batch, …
#define RUN_OF(KIND, name) [KIND] = run_##name,
static const run_fn RUN[] = {SCHEDULE_INSTRS(RUN_OF)};
_Static_assert(sizeof RUN / sizeof *RUN == INSTRS, "every kind of instruction has its function");

void trainer_reset_sums(trainer *t)
{
    results_reset_sums(t);
    state_reset_gradients(t);
    slots_reset(t);
}

status trainer_run(trainer *t, const schedule *s, const model *m, err *e)
{
    status result = OK;
    const clip_result *agreed = results_agreed(t);
    t->running = m;
    TRY(tiers_close_staging(t, e)); // the list changes the staged buckets, and uses their slots
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *x = &s->instr[i];
        const bool agrees = instr_has_effect(x->kind, ACCESS_WRITE, RES_AGREED);
        if (agrees && t->inspects) break;
        const double start = clock_seconds();
        trainer_show_activity(t, x);
        TRY(RUN[x->kind](t, x, e));
        results_add_seconds(t, x->kind, clock_seconds() - start);
        if (agrees && agreed->samples == 0) break; // no rank had data
        if (agrees && !agreed->finite) {
            if (!t->o.checks.skip_nonfinite && t->o.precision != F16)
                TRY(trainer_name_nonfinite(t, e));
            break; // the step has no update
        }
    }
done:
    return result;
}

static status check_replicas(trainer *t, err *e)
{
    const int64_t every = t->o.checks.replicas_every;
    const uint64_t steps = results_steps_done(t);
    const bool due = every > 0 && (steps == 1 || steps % (uint64_t)every == 0);
    return due ? trainer_check_replicas(t, e) : OK;
}

status trainer_step(trainer *t, bool stop, trainer_step_result *out, err *e)
{
    status result = OK;
    const double start = clock_seconds();
    bool rescaled;
    results_start_step(t, stop);
    batches_start_step(t);
    trainer_reset_sums(t);
    TRY(trainer_run(t, &t->schedule, t->model, e));
    TRY(groups_sync(t->groups, e));
    trainer_show_activity(t, NULL);
    *out = results_of_step(t);
    if (out->exhausted) goto done;
    TRY(results_end_step(t, &rescaled, e));
    // The errors that compression carries from step to step have the loss scale as a factor, and
    // must not contain a NaN.
    compress_end_step(t->compressor, results_steps_done(t), rescaled || out->skipped);
    TRY(check_replicas(t, e));
done:
    if (result == OK) out->seconds = clock_seconds() - start;
    return result;
}
