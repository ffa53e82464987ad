// bench_calibrate_step.c -- what a step costs beside its kernels and calls, and how much longer its kernels take than alone: a
// small model that is nobody's target trains for a few seconds, and its times are compared with those that are predicted. See
// bench_calibrate.h.
#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/bench/bench_calibrate.h"
#include "cmd/bench/bench_delay.h"
#include "cmd/bench/bench_job.h"
#include "comm/registry.h"
#include "planner/calibrated.h"
#include "session/plan/predict.h"

#include <math.h>
#include <stdlib.h>

enum { WARM_UP = 2, LEAST_STEPS = 5, MOST_STEPS = 400 };

// Of the passes and updates, which are kernels but for the calls within a pass, and of all.
typedef struct step_seconds {
    double kernels, all;
} step_seconds;

static const schedule_instr_kind KERNELS_OF[] = {FORWARD, BACKWARD, OPTIMIZER_STEP};

static double kernel_seconds(const double *of_kind)
{
    double sum = 0;
    for (size_t i = 0; i < sizeof KERNELS_OF / sizeof *KERNELS_OF; i++)
        sum += of_kind[KERNELS_OF[i]];
    return sum;
}

// The medians of steps, without the share of each in which other programs had the core. All ranks make as many: the mean of their times says when they end.
static status train_steps(const bench_calibrate_rank *r, double seconds, step_seconds *out, err *e)
{
    status result = OK;
    double *all = NULL, *kernels = NULL, spent = 0;
    const int delays = bench_calibrate_has_cores(r->q) ? bench_delay_open() : -1;
    int64_t count = 0;
    TRY(alloc_zeroed(&all, MOST_STEPS, sizeof *all, "the steps", e));
    TRY(alloc_zeroed(&kernels, MOST_STEPS, sizeof *kernels, "the steps", e));
    for (int i = 0; count < MOST_STEPS && (count < LEAST_STEPS || spent < seconds); i++) {
        trainer_step_result step;
        const double delay = bench_delay_seconds(delays), start = clock_seconds();
        TRY(trainer_step(r->s->trainer, false, &step, e));
        double lasted = clock_seconds() - start;
        const double share = fmax(1 - (bench_delay_seconds(delays) - delay) / lasted, 0);
        TRY(bench_calibrate_mean(r, &lasted, e));
        spent += lasted;
        if (i < WARM_UP) continue;
        kernels[count] = share * kernel_seconds(trainer_seconds(r->s->trainer));
        all[count++] = share * step.seconds;
    }
    bench_sort(all, count);
    bench_sort(kernels, count);
    *out = (step_seconds){kernels[count / 2], all[count / 2]};
    TRY(bench_calibrate_mean(r, &out->kernels, e));
    TRY(bench_calibrate_mean(r, &out->all, e));
done:
    bench_delay_close(delays);
    free(kernels);
    free(all);
    return result;
}

// The same seconds of a predicted step. They hold what kernels take longer beside the calls that run with them, as the
// measured ones do.
static double predicted_kernel_seconds(const session_stages *stages, const planner_times *t)
{
    double of_kind[INSTRS] = {0};
    for (int i = 0; i < stages->train[0].count; i++)
        of_kind[stages->train[0].instr[i].kind] += t->span[0][i].end - t->span[0][i].start;
    return kernel_seconds(of_kind);
}

static status predict(const bench_calibrate_rank *r, step_seconds *out, err *e)
{
    status result = OK;
    const job *j = r->q->job;
    planner_machine m = {.name = NULL};
    session_stages stages = {.count = 0};
    planner_times times = {.stages = 0};
    prediction p;
    TRY(calibrated_open(r->q->out, j->launch.threads_per_rank, job_local_ranks(j),
                        r->s->comm->ops->name, &m, e));
    TRY(session_predict_times(j, &r->q->inputs, j->launch.ranks, &m, &stages, &times, &p, e));
    *out = (step_seconds){predicted_kernel_seconds(&stages, &times), p.step_s};
done:
    session_stages_close(&stages);
    planner_times_clear(&times);
    planner_machine_close(&m);
    return result;
}

status bench_calibrate_step(const bench_calibrate_rank *r, double seconds, err *e)
{
    status result = OK;
    step_seconds measured, predicted;
    calibrated_host *const does = &r->file->does;
    TRY(train_steps(r, seconds, &measured, e));
    if (r->s->comm->rank > 0) goto done;
    TRY(predict(r, &predicted, e));
    does->factor = measured.kernels / predicted.kernels;
    does->step_s = fmax(measured.all - predicted.all - (measured.kernels - predicted.kernels), 0);
done:
    return result;
}
