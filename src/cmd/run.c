// run.c -- one rank of a training run between its steps: log, progress, evaluation, checkpoints.
// See run.h.
#include "cmd/run.h"

#include "base/clock.h"
#include "cmd/cmd.h"
#include "data/tokens.h"
#include "monitor/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static status log_the_start(run *r, err *e)
{
    const job *j = r->job;
    const plan *p = trainer_get_plan(r->session.trainer);
    text strategy = {0}, note = {0};
    const char *notes[] = {r->start->inputs.fit, trainer_note(r->session.trainer)};
    for (int i = 0; i < 2; i++)
        if (notes[i]) text_addf(&note, "%s%s", note.bytes ? "; " : "", notes[i]);
    monitor_axis axes[AXES];
    plan_print_policy(p, &strategy);
    for (int a = 0; a < AXES; a++) axes[a] = (monitor_axis){axis_name((axis)a), p->o.mesh.size[a]};
    monitor_start s = {.version = TRIREME_VERSION,
                       .model = family_name(j->model.config.family),
                       .policy = strategy.at,
                       .precision = dtype_name(j->train.precision),
                       .device = j->launch.device,
                       .as = j->launch.as_threads ? "threads" : "processes",
                       .mesh = axes,
                       .axes = AXES,
                       .ranks = r->ranks,
                       .threads_per_rank = j->launch.threads_per_rank,
                       .params = (int64_t)model_param_count(trainer_get_model(r->session.trainer)),
                       .plan_bytes_per_rank = (int64_t)plan_bytes(p),
                       .steps = j->train.steps,
                       .tokens_per_step = j->train.global_batch * j->data.seq_len,
                       .resumed_from = r->start->resume ? (int64_t)r->start->resume_step : -1,
                       .note = note.at};
    status result = log_start(r->log, &s, e);
    text_clear(&strategy);
    text_clear(&note);
    return result;
}

status run_open(run *r, const start *s, world *w, int rank, int ranks, err *e)
{
    status result = OK;
    *r = (run){.start = s, .job = s->job, .world = w, .rank = rank, .ranks = ranks};
    progress_open(&r->progress, stderr, r->job->quiet || rank > 0 ? PROGRESS_QUIET : PROGRESS_AUTO);
    TRY(session_open(s->job, &s->inputs, w, rank, &r->session, e));
    if (s->resume) TRY(trainer_resume(r->session.trainer, s->resume, e));
    r->saved_step = s->resume_step;
    r->has_saved = s->resume != NULL;
    if (rank > 0) return OK;
    TRY(log_open(s->log_path, s->resume != NULL, &r->log, e));
    TRY(log_the_start(r, e));
    // Also of a quiet run: a tier that is slower than asked for, or no other memory, is a warning.
    const char *note = trainer_note(r->session.trainer);
    if (s->inputs.fit) fprintf(stderr, "trireme: %s\n", s->inputs.fit);
    if (note) fprintf(stderr, "trireme: %s\n", note);
    if (s->job->launch.threads_asked)
        fprintf(stderr,
                "trireme: warning: launch.threads_per_rank is %d, more than the cores that this "
                "process may use; each rank uses %d\n",
                s->job->launch.threads_asked, s->job->launch.threads_per_rank);
    if (s->resume) progress_note(&r->progress, "goes on from %s", s->resume);
done:
    return result;
}

// Is it time to measure what matrix products can do at most? Not before the first steps are seen,
// and then now and again, for a machine that had other work before.
static bool is_time_to_measure(const run *r)
{
    enum { FIRST = 3, TIMES = 4 };
    uint64_t at = FIRST, step = trainer_steps_done(r->session.trainer) - r->start->resume_step;
    while (at < step) at *= TIMES;
    return at == step;
}

// The step's floating-point operations a second as a share of the most that products have been seen
// to reach: those that were measured, and this run's own.
static double share_of_rate(run *r, const step_result *s)
{
    const double rate = trainer_flops(r->session.trainer) / s->seconds;
    if (r->matmul_rate <= 0) return NAN;
    r->matmul_rate = fmax(r->matmul_rate, rate);
    return rate / r->matmul_rate;
}

status run_report_step(run *r, const step_result *s, err *e)
{
    status result = OK;
    if (!r->job->quiet && is_time_to_measure(r))
        r->matmul_rate = fmax(r->matmul_rate,
                              device_matmul_rate(r->session.device, r->job->train.precision, 0.05));
    if (r->rank > 0) return OK;
    monitor_step m = {.step = (int64_t)s->step,
                      .steps = r->job->train.steps,
                      .loss = s->loss,
                      .grad_norm = s->grad_norm,
                      .lr = s->lr,
                      .tokens = (int64_t)s->tokens,
                      .seconds = (float)s->seconds,
                      .tokens_per_s = (float)(s->tokens / s->seconds),
                      .share = (float)share_of_rate(r, s),
                      .loss_scale = s->loss_scale,
                      .skipped = s->skipped,
                      .unit = r->job->model.config.family == FAMILY_MLP ? "samples" : NULL};
    TRY(log_step(r->log, &m, e));
    progress_step(&r->progress, &m, clock_seconds());
done:
    return result;
}

static status save(run *r, err *e)
{
    status result = OK;
    char *folder = NULL;
    double begin = clock_seconds();
    uint64_t step = trainer_steps_done(r->session.trainer);
    TRY(session_save(&r->session, r->job, &r->start->inputs, NULL, &folder, e));
    r->saved_step = step;
    r->has_saved = true;
    if (r->rank > 0) goto done;
    const plan_options *p = &trainer_get_plan(r->session.trainer)->o;
    const size_t each =
        dtype_bytes(p->compute) + sizeof(float) * (size_t)(p->state_tensors + (p->compute != F32));
    int64_t bytes = (int64_t)(model_param_count(trainer_get_model(r->session.trainer)) * each);
    TRY(log_save(r->log, (int64_t)step, folder, bytes, (float)(clock_seconds() - begin), e));
    progress_note(&r->progress, "saved %s", folder);
done:
    free(folder);
    return result;
}

static status evaluate(run *r, err *e)
{
    status result = OK;
    double loss;
    TRY(trainer_evaluate(r->session.trainer, r->job->train.eval_batches, &loss, NULL, e));
    if (r->rank > 0) return OK;
    TRY(log_eval(r->log, (int64_t)trainer_steps_done(r->session.trainer), loss, exp(loss), e));
    progress_note(&r->progress, "step %llu  validation loss %.4f  perplexity %.2f",
                  (unsigned long long)trainer_steps_done(r->session.trainer), loss, exp(loss));
done:
    return result;
}

static bool is_due(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
}

status run_after_step(run *r, const step_result *s, err *e)
{
    status result = OK;
    bool last = s->stop || s->step == (uint64_t)r->job->train.steps;
    if (r->start->inputs.valid && !s->stop &&
        (is_due(r->job->train.eval_every, s->step) || (last && r->job->train.eval_every > 0)))
        TRY(evaluate(r, e));
    if (is_due(r->job->train.save_every, s->step) && !last) TRY(save(r, e));
done:
    return result;
}

status run_finish(run *r, bool interrupted, err *e)
{
    status result = OK;
    uint64_t step = trainer_steps_done(r->session.trainer);
    bool wanted = r->job->train.save_every > 0 || interrupted;
    if (wanted && !(r->has_saved && r->saved_step == step)) TRY(save(r, e));
    if (r->rank > 0) return OK;
    TRY(log_end(r->log, (int64_t)step, interrupted ? "interrupted" : "done",
                (float)(clock_seconds() - r->start->began), e));
done:
    return result;
}

void run_close(run *r)
{
    progress_close(&r->progress);
    log_close(r->log);
    session_close(&r->session);
}
