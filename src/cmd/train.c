// train.c -- `trireme train`: opens the job, starts its ranks, and on each rank runs step after
// step. train_run.c has what a rank does between steps; train/step.c has the step.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/train_run.h"

#include "base/clock.h"
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static status train_steps(train_run *r, err *e)
{
    status result = OK;
    trainer *t = r->session.trainer;
    bool stop = false;
    while (!stop && trainer_steps_done(t) < (uint64_t)r->job->train.steps) {
        trainer_step_result s;
        TRY(trainer_step(t, comm_stop_requested(r->world->stop), &s, e));
        TRY(train_run_report_step(r, &s, e));
        stop = s.stop;
        TRY(train_run_after_step(r, &s, e));
    }
    TRY(train_run_finish(r, stop, e));
    if (stop)
        FAIL(E_INTERRUPTED, "interrupted after step %llu",
             (unsigned long long)trainer_steps_done(t));
done:
    return result;
}

static status rank_train(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const train_start *s = arg;
    train_run r = {0};
    TRY(train_run_open(&r, s, w, rank, ranks, e));
    TRY(train_steps(&r, e));
done:
    if (result != OK && result != E_INTERRUPTED) session_abort(&r.session, e);
    train_run_close(&r);
    return result;
}

static int cmd_train(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    train_start s = {.lock = -1};
    text prefix = {0};
    s.began = clock_seconds();
    TRY(train_start_open(&s, argc, argv, e));
    if (s.is_done) {
        if (!join_follows(&s.join)) train_start_print_done(&s);
        goto done;
    }
    job_record_prefix(s.job, &prefix);
    TRY(text_check(&prefix, e));
    launch_options o = {
        .ranks = s.job->launch.ranks,
        .as_threads = s.job->launch.as_threads,
        .own_terminal = true,
        .record = {.calls = (int)s.job->checks.record_calls,
                   .compares = s.job->checks.desync,
                   .prefix = prefix.chars,
                   .within = s.job->checks.record_prefix ? NULL : s.job->train.out}};
    TRY(join_run(&s.join, &o, rank_train, &s, e));
done:
    result = join_fail(&s.join, result, e);
    if (result != OK) train_start_log_error(&s, e);
    train_start_close(&s);
    text_clear(&prefix);
    return join_end(&s.join, result, e);
}

// job_open reads these flags with the keys of the job (config/job.c), so they have no offsets.
static const flag flags[] = {
    {"--resume", FLAG_TEXT, 0, "auto|never|DIR",
     "Chooses the checkpoint to resume from: the newest valid one in train.out (auto, the "
     "default), none (never), or the one in DIR."},
    {"--overwrite", FLAG_SWITCH, 0, NULL,
     "Removes the run in train.out, and starts a new one there."},
    {"--quiet", FLAG_SWITCH, 0, NULL, "Prints no progress."},
    {"--json", FLAG_SWITCH, 0, NULL,
     "Prints each event of the run as one JSON object a line, as in log.jsonl."},
};

const command command_train = {
    .name = "train",
    .run = cmd_train,
    .usage =
        "JOB.yaml [--key value ...] [--resume auto|never|DIR] [--overwrite] [--quiet] [--json]",
    .help = "Trains the model of a job file.",
    .about =
        "Starts the job's ranks on this machine. Where torchrun, srun, mpirun or `trireme run` has "
        "started a process for each rank, these are the ranks. Every key of the job file is also a "
        "flag, by its "
        "dotted path: --train.steps 100 --launch.ranks 2. The command line wins over the file.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .takes_job = true,
};
