// train.c -- `trireme train`: opens the job, starts its ranks, and on each of them walks from step
// to step.
//
// What a rank does between two steps (log, progress, evaluation, saving) is here; what a step does
// is in train/step.c.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/train_run.h"

#include "base/clock.h"
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static status train_steps(run *r, err *e)
{
    status result = OK;
    trainer *t = r->session.trainer;
    bool stop = false;
    while (!stop && trainer_steps_done(t) < (uint64_t)r->job->train.steps) {
        trainer_step_result s;
        TRY(trainer_step(t, world_stop_requested(r->world), &s, e));
        TRY(run_report_step(r, &s, e));
        stop = s.stop;
        TRY(run_after_step(r, &s, e));
    }
    TRY(run_finish(r, stop, e));
    if (stop)
        FAIL(E_INTERRUPTED, "interrupted after step %llu",
             (unsigned long long)trainer_steps_done(t));
done:
    return result;
}

static status rank_train(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const start *s = arg;
    run r = {0};
    TRY(run_open(&r, s, w, rank, ranks, e));
    TRY(train_steps(&r, e));
done:
    if (result != OK && result != E_INTERRUPTED) session_abort(&r.session, e);
    run_close(&r);
    return result;
}

static int cmd_train(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    start s = {.lock = -1};
    int first_rank = -1;
    s.began = clock_seconds();
    TRY(launcher_check(e)); // before a folder that all would write into is grad_written
    TRY(start_open(&s, argc, argv, e));
    if (s.is_done) {
        start_print_done(&s);
        goto done;
    }
    launch_options o = {
        .ranks = s.job->launch.ranks, .as_threads = s.job->launch.as_threads, .own_terminal = true};
    TRY(launch_ranks(&o, rank_train, &s, &first_rank, e));
done:
    if (result != OK) start_log_error(&s, first_rank, e);
    start_close(&s);
    return result == OK ? 0 : cmd_fail(e);
}

// Both are read with the job's keys (config/job.c: job_open).
static const flag flags[] = {
    {"--resume", FLAG_TEXT, 0, "auto|never|DIR",
     "Chooses the checkpoint to resume from: the newest valid one in train.out (auto, the "
     "default), "
     "none, or that in DIR."},
    {"--overwrite", FLAG_SWITCH, 0, NULL,
     "Removes the run that is in train.out, and starts a new one there."},
    {"--quiet", FLAG_SWITCH, 0, NULL, "Prints no progress."},
};

const command command_train = {
    .name = "train",
    .run = cmd_train,
    .usage = "JOB.yaml [--key value ...] [--resume auto|never|DIR] [--overwrite] [--quiet]",
    .help = "Trains a model as a job file says.",
    .about =
        "Starts the job's ranks on this machine. Every key of the job file can be given by its "
        "dotted path, as --train.steps 100 --launch.ranks 2; the command line wins over the "
        "file.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .takes_job = true,
};
