// train_run.c -- what one rank of `trireme train` does between steps: log, progress, evaluation,
// checkpoints. See train_run.h. Called by train.c.
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

status train_run_open(train_run *r, const train_start *s, world *w, int rank, int ranks, err *e)
{
    status result = OK;
    *r = (train_run){.start = s, .job = s->job, .world = w, .rank = rank, .ranks = ranks};
    progress_open(&r->progress, stderr, r->job->quiet || rank > 0 ? PROGRESS_QUIET : PROGRESS_AUTO);
    TRY(session_open(s->job, &s->inputs, w, rank, &r->session, e));
    if (rank == 0 && !s->job->quiet) cmd_say_communicator(r->session.comm);
    if (s->resume) TRY(trainer_resume(r->session.trainer, s->resume, e));
    r->saved_step = s->resume_step;
    r->has_saved = s->resume != NULL;
    if (rank > 0) return OK;
    TRY(log_open(s->log_path, &r->log, e));
    if (r->job->json) log_copy_to(r->log, STDOUT_FILENO);
    TRY(session_log_start(&r->session, s->job, &s->inputs, TRIREME_VERSION,
                          s->resume ? (int64_t)s->resume_step : -1, r->log, e));
    // A quiet run prints these too: they warn of a slower tier than the job's, or of a changed job.
    const char *note = trainer_note(r->session.trainer);
    if (s->inputs.fit) console_say("%s", s->inputs.fit);
    if (note) console_say("%s", note);
    if (s->resume) progress_note(&r->progress, "resuming from %s", file_shown(s->resume));
done:
    return result;
}

// Is it time to measure the matmul peak? First after step 3, so that the first steps are shown
// soon, then at growing intervals, because the machine may have been busy at the earlier
// measurements.
static bool is_time_to_measure(const train_run *r)
{
    enum { FIRST = 3, TIMES = 4 };
    uint64_t next = FIRST, step = trainer_steps_done(r->session.trainer) - r->start->resume_step;
    while (next < step) next *= TIMES;
    return next == step;
}

// The mfu: FLOP/s of the step as a share of the matmul peak, which is the larger of the measured
// rate and the fastest step of this run.
static double mfu_of(train_run *r, const trainer_step_result *s)
{
    const double rate = trainer_flops(r->session.trainer) / s->seconds;
    if (r->matmul_rate <= 0) return NAN;
    r->matmul_rate = fmax(r->matmul_rate, rate);
    return rate / r->matmul_rate;
}

status train_run_report_step(train_run *r, const trainer_step_result *s, err *e)
{
    status result = OK;
    if (!r->job->quiet && is_time_to_measure(r))
        r->matmul_rate =
            fmax(r->matmul_rate, device_matmul_rate(r->session.device, job_dtype(r->job), 0.05));
    if (r->rank > 0) return OK;
    TRY(train_start_check_folder(r->start, e));
    if (r->matmul_rate > 0 && !r->explained_mfu)
        progress_note(&r->progress,
                      "mfu: a step's FLOP/s as a share of the matmul peak of %s, which is "
                      "measured during the run; where a step was faster, of the fastest step",
                      r->session.device->is_host_memory ? "these cores" : "this device");
    r->explained_mfu = r->matmul_rate > 0;
    monitor_step m = session_step(r->job, &r->start->inputs, s);
    m.mfu = (float)mfu_of(r, s);
    TRY(log_step(r->log, &m, e));
    progress_step(&r->progress, &m, clock_seconds());
done:
    return result;
}

static status save(train_run *r, err *e)
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

static status evaluate(train_run *r, err *e)
{
    status result = OK;
    double loss;
    TRY(trainer_evaluate(r->session.trainer, r->job->train.eval_batches, &loss, NULL, e));
    if (r->rank > 0) return OK;
    bool text_data = r->start->inputs.valid->shape.input_type == I32; // only text has a perplexity
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

status train_run_after_step(train_run *r, const trainer_step_result *s, err *e)
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

status train_run_finish(train_run *r, bool interrupted, err *e)
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

void train_run_close(train_run *r)
{
    progress_close(&r->progress);
    log_close(r->log);
    session_close(&r->session);
}
