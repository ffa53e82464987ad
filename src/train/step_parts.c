// step_parts.c -- a step in parts: a forward and a backward of each micro-batch, then the update. The parts
// execute the one list of a step (step.c), each from where the last one has stopped. On the only stage of a
// pipeline the list has the passes of one micro-batch after those of another, so a part ends where the first
// pass of another part stands. What stands between them, such as weights that are gathered ahead and
// gradients that are reduced meanwhile, is issued with the part before. Called by the session for programs.
#include "base/clock.h"
#include "parallel/instructions.h"
#include "train/trainer_private.h"

#include <math.h>

// The number of the first instruction that the part leaves to later ones.
static int part_end(const trainer *t, trainer_part part)
{
    const schedule *s = &t->schedule;
    int i = t->pass.next;
    for (; i < s->count; i++) {
        const instr_row *row = instr_row_of(s->instr[i].kind);
        const bool forward = row->computes == COMPUTES_FORWARD;
        if (row->peers.waits_for == WAITS_FOR_ALL_STAGES) break;
        if (row->computes == COMPUTES_NOTHING) continue;
        if (s->instr[i].micro != t->parts.micro || forward != (part == PART_FORWARD)) break;
    }
    return i;
}

static bool is_last_micro(const trainer *t)
{
    return t->parts.micro + 1 >= t->plan->o.micros;
}

static status refuse(const trainer *t, const char *part, const char *found, const char *valid,
                     err *e)
{
    return err_set(e, E_USAGE, "%s: micro-batch %d of %d %s; valid: %s", part, t->parts.micro + 1,
                   t->plan->o.micros, found, valid);
}

static status run_part(trainer *t, trainer_part part, err *e)
{
    const status result = trainer_run_to(t, part_end(t, part), e);
    if (result == OK) t->parts.last = part;
    if (result == OK) trainer_show_activity(t, NULL);
    return result;
}

// ---- Forward

status trainer_check_forward(const trainer *t, err *e)
{
    const trainer_parts *p = &t->parts;
    const int stages = t->plan->o.mesh.size[AXIS_PP];
    if (stages > 1)
        return err_set(e, E_USAGE,
                       "forward: parallel.pp is %d, and the stages of a pipeline run the passes of "
                       "several micro-batches in turn; valid: a whole step, or parallel.pp 1",
                       stages);
    if (p->last == PART_FORWARD)
        return refuse(t, "forward", "had its forward, and no backward", "backward", e);
    if (p->last == PART_BACKWARD && is_last_micro(t))
        return refuse(t, "forward", "is the last one, and had its backward", "step", e);
    return OK;
}

static status begin_step(trainer *t, bool stop, err *e)
{
    status result = OK;
    trainer_parts *p = &t->parts;
    *p = (trainer_parts){.micro = -1, .began = clock_seconds(), .knows_sums = true};
    TRY(trainer_step_begin(t, stop, e));
    p->open = true;
done:
    return result;
}

static status read_sums(trainer *t, err *e)
{
    status result = OK;
    TRY(results_read_sums(t, SUM_LOSS, 2, e));
    t->parts.loss = results_host_sums(t)[SUM_LOSS];
    t->parts.count = results_host_sums(t)[SUM_COUNT];
    t->parts.knows_sums = true;
done:
    return result;
}

_Static_assert(SUM_COUNT == SUM_LOSS + 1, "both sums are read at once");

status trainer_forward(trainer *t, bool stop, double *loss, err *e)
{
    status result = OK;
    trainer_parts *p = &t->parts;
    TRY(trainer_check_forward(t, e));
    if (!p->open) TRY(begin_step(t, stop, e));
    if (loss && !p->knows_sums) TRY(read_sums(t, e));
    const double loss_before = p->loss, count_before = p->count;
    p->micro++;
    TRY(run_part(t, PART_FORWARD, e));
    p->knows_sums = false;
    if (!loss) goto done;
    TRY(read_sums(t, e));
    const double count = p->count - count_before;
    *loss = count > 0 ? (p->loss - loss_before) / count : NAN;
done:
    return result;
}

// ---- Backward and update

status trainer_backward(trainer *t, err *e)
{
    const trainer_parts *p = &t->parts;
    if (!p->open) return err_set(e, E_USAGE, "backward: no forward came before; valid: forward");
    if (p->last != PART_FORWARD)
        return refuse(t, "backward", "had its backward", is_last_micro(t) ? "step" : "forward", e);
    return run_part(t, PART_BACKWARD, e);
}

status trainer_update(trainer *t, trainer_step_result *out, bool *ended, err *e)
{
    status result = OK;
    trainer_parts *p = &t->parts;
    *ended = false;
    if (!p->open) return err_set(e, E_USAGE, "step: no backward came before; valid: forward");
    if (p->last == PART_FORWARD)
        return refuse(t, "step", "had its forward, and no backward", "backward", e);
    if (p->last == PART_STEP) return refuse(t, "step", "had its step", "forward", e);
    p->last = PART_STEP;
    if (!is_last_micro(t)) goto done;
    TRY(trainer_step_end(t, out, e));
    out->seconds = clock_seconds() - p->began;
    *p = (trainer_parts){.micro = -1};
    *ended = true;
done:
    return result;
}

bool trainer_is_boundary(const trainer *t)
{
    const trainer_parts *p = &t->parts;
    const int micro = !p->open ? 0 : p->last == PART_STEP ? p->micro + 1 : p->micro;
    return micro + 1 == t->plan->o.micros;
}

status trainer_check_ended(const trainer *t, const char *what, err *e)
{
    if (!t->parts.open) return OK;
    return refuse(t, what, "has begun, and the step has not ended",
                  "after the step of the last one", e);
}
