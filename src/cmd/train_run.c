// train_run.c -- one rank of a training run between its steps: log, progress, evaluation, checkpoints.
// See train_run.h.
#include "cmd/train_run.h"

#include "base/clock.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "data/tokens.h"
#include "monitor/curve.h"
#include "session/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    TRY(log_open(s->log_path, &r->log, e));
    TRY(session_log_start(&r->session, s->job, &s->inputs, TRIREME_VERSION,
                          s->resume ? (int64_t)s->resume_step : -1, r->log, e));
    // Also of a quiet run: a tier that is slower than asked for, or no other memory, is a warning.
    const char *note = trainer_note(r->session.trainer);
    if (s->inputs.fit) console_say("%s", s->inputs.fit);
    if (note) console_say("%s", note);
    if (s->resume) progress_note(&r->progress, "resuming from %s", file_shown(s->resume));
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
static double share_of_rate(run *r, const trainer_step_result *s)
{
    const double rate = trainer_flops(r->session.trainer) / s->seconds;
    if (r->matmul_rate <= 0) return NAN;
    r->matmul_rate = fmax(r->matmul_rate, rate);
    return rate / r->matmul_rate;
}

status run_report_step(run *r, const trainer_step_result *s, err *e)
{
    status result = OK;
    if (!r->job->quiet && is_time_to_measure(r))
        r->matmul_rate = fmax(r->matmul_rate,
                              device_matmul_rate(r->session.device, r->job->train.precision, 0.05));
    if (r->rank > 0) return OK;
    TRY(start_check_folder(r->start, e));
    monitor_step m = session_step(r->job, &r->start->inputs, s);
    m.mfu = (float)share_of_rate(r, s);
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
    TRY(session_log_save(&r->session, folder, clock_seconds() - begin, r->log, e));
    progress_note(&r->progress, "saved %s", file_shown(folder));
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
    bool text_data = r->start->inputs.valid->shape.input_type == I32; // vectors have no perplexity
    uint64_t step = trainer_steps_done(r->session.trainer);
    TRY(session_log_eval(&r->session, &r->start->inputs, loss, r->log, e));
    char perplexity[40] = "";
    if (text_data) snprintf(perplexity, sizeof perplexity, "  perplexity %.2f", exp(loss));
    progress_note(&r->progress, "step %llu  validation loss %.4f%s", (unsigned long long)step, loss,
                  perplexity);
done:
    return result;
}

static bool is_due(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
}

status run_after_step(run *r, const trainer_step_result *s, err *e)
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
