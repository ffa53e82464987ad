// train.c -- `trireme train`: opens the job, starts its ranks, and on each rank runs step after step, with evaluations and
// checkpoints at the job's intervals. session/run.h has the run, train/step.c the step.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/doctor/doctor_start.h"

#include "base/clock.h"
#include "base/file.h"
#include "config/debug.h"
#include "monitor/progress.h"
#include "session/best.h"
#include "session/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- A rank

static bool is_due(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
}

// Returns whether the loss of evaluations has stopped falling, as train.early_stopping says.
static bool ends_early(const session_rank *r)
{
    return session_best_ends(&r->best, r->run->job->train.early_stopping.patience);
}

// Evaluates where it is time to. *best is whether the loss is the lowest so far.
static status evaluate(session_rank *r, uint64_t step, bool last, bool *best, err *e)
{
    const job *j = r->run->job;
    double loss;
    *best = false;
    if (!r->run->inputs.valid || j->train.eval_every == 0) return OK;
    if (!last && !is_due(j->train.eval_every, step)) return OK;
    const status result = session_rank_evaluate(r, j->train.eval_batches, &loss, e);
    *best = r->best.step == (int64_t)step;
    return result;
}

static status train_steps(session_rank *r, uint64_t *saved, err *e)
{
    status result = OK;
    const job *j = r->run->job;
    trainer *t = r->session.trainer;
    bool stop = false;
    while (!stop && !ends_early(r) && trainer_steps_done(t) < (uint64_t)j->train.steps) {
        trainer_step_result s;
        bool best = false;
        TRY(session_rank_step(r, &s, e));
        stop = s.stop;
        const bool last = stop || s.step == (uint64_t)j->train.steps;
        if (!stop) TRY(evaluate(r, s.step, last, &best, e));
        const bool due = is_due(j->train.save_every, s.step) || (best && j->train.keep_best);
        // The end of the run saves the last step where any is saved.
        if ((last && j->train.save_every > 0) || !due) continue;
        TRY(session_rank_save(r, e));
        *saved = s.step;
    }
done:
    return result;
}

static status say_early_end(session_rank *r, err *e)
{
    char line[200];
    snprintf(line, sizeof line,
             "the run ends early: the loss %.9g of step %lld is the lowest, and %lld evaluations "
             "followed it",
             r->best.loss, (long long)r->best.step, (long long)r->best.since);
    return r->rank == 0 ? session_rank_note(r, line, e) : OK;
}

// A quiet run prints the notes, too: they warn of a slower tier than the job's, or of a changed job.
static status begin(session_rank *r, err *e)
{
    const session_run *run = r->run;
    const char *note = trainer_note(r->session.trainer);
    if (r->rank > 0) return OK;
    if (!run->job->quiet) cmd_say_communicator(r->session.comm);
    if (!run->job->quiet && *run->exporter.address)
        console_say("metrics at http://%s/metrics", run->exporter.address);
    if (run->inputs.fit) console_say("%s", run->inputs.fit);
    if (note) console_say("%s", note);
    if (r->session.split_note) console_say("%s", r->session.split_note);
    return session_rank_begin(r, e);
}

static status rank_train(session_rank *r, void *arg, err *e)
{
    status result = OK;
    uint64_t saved = r->resumed ? r->resumed->step : UINT64_MAX;
    (void)arg;
    TRY(begin(r, e));
    TRY(train_steps(r, &saved, e));
    if (ends_early(r)) TRY(say_early_end(r, e));
    const uint64_t step = trainer_steps_done(r->session.trainer);
    if ((r->run->job->train.save_every > 0 || r->interrupted) && saved != step)
        TRY(session_rank_save(r, e));
    if (r->interrupted)
        FAIL(E_INTERRUPTED, "interrupted after step %llu", (unsigned long long)step);
done:
    return result;
}

// ---- The starting process

// The only process, or that of rank 0.
static status decide(session_run *r, int argc, char **argv, err *e)
{
    status result = OK;
    TRY(cmd_open_job_own(argc, argv, &r->join.own, &r->job, e));
    const job *j = r->job;
    TRY(session_inputs_open(r->job, &r->inputs, e));
    cmd_warn(r->inputs.warnings.chars);
    cmd_warn(r->inputs.train_warnings.chars);
    result = session_run_claim(r, e);
    cmd_say_lines(r->warnings.chars);
    if (r->kept.bytes && !j->quiet) console_say("kept in %s: %s", j->train.out, r->kept.chars);
    if (result != OK) goto done;
    if (r->claimed && !j->quiet) {
        if (debug_says(DEBUG_VERSION)) console_say("version %s", TRIREME_VERSION);
        cmd_say_lines(j->notes.chars);
        cmd_say_lines(r->inputs.samples_notes.chars);
    }
    if (r->claimed) doctor_warn_at_start(strcmp(j->launch.device, "cuda") == 0);
    TRY(session_run_broadcast(r, e));
done:
    return result;
}

static void print_done(const session_run *r)
{
    const job *j = r->job;
    const char *length = j->train.epochs > 0 ? "epochs" : j->train.tokens > 0 ? "tokens" : "steps";
    console_say("%s: already at step %llu of %lld; raise train.%s", file_shown(r->resume.folder),
                (unsigned long long)r->resume.step, (long long)j->train.steps, length);
}

int cmd_train_with(int argc, char **argv, const job_theirs *theirs)
{
    status result = OK;
    err error = {0}, *e = &error;
    session_run r = {
        .began = clock_seconds(), .main = rank_train, .trains = true, .own_terminal = true};
    progress p;
    TRY(join_open(&r.join, argc, argv, e));
    r.join.own.theirs = theirs;
    TRY(join_attach(&r.join, e));
    TRY(join_follows(&r.join) ? session_run_receive(&r, e) : decide(&r, argc, argv, e));
    if (r.is_done) {
        if (!join_follows(&r.join)) print_done(&r);
        goto done;
    }
    r.measures_mfu = !r.job->quiet;
    r.log_copy = r.job->json ? STDOUT_FILENO : 0;
    progress_open(&p, stderr, r.job->quiet ? PROGRESS_QUIET : PROGRESS_AUTO);
    event_sinks_add(&r.sinks, progress_sink(&p));
    TRY(session_run_ranks(&r, e));
done:
    return cmd_end_run(&r, result, e);
}

static int cmd_train(int argc, char **argv)
{
    return cmd_train_with(argc, argv, NULL);
}

// job_open reads these flags with the keys of the job (config/job.c), so they have no offsets.
static const flag flags[] = {
    {"--resume", FLAG_TEXT, 0, "auto|never|DIR",
     "Chooses the checkpoint to resume from: the newest valid one in train.out (auto, the "
     "default), none (never), or the one in DIR."},
    {"--overwrite", FLAG_SWITCH, 0, NULL,
     "Removes the run in train.out, and starts a new one there."},
    {"--profile", FLAG_TEXT, 0, "steps=A-B",
     "Traces steps A to B into train.out/traces, as --observe.trace_steps A-B does."},
    {"--quiet", FLAG_SWITCH, 0, NULL, "Prints no progress."},
    {"--json", FLAG_SWITCH, 0, NULL,
     "Prints each event of the run as one JSON object a line, as in log.jsonl."},
};

const command command_train = {
    .name = "train",
    .run = cmd_train,
    .usage =
        "JOB.yaml [--key value ...] [--resume auto|never|DIR] [--overwrite] [--profile steps=A-B] "
        "[--quiet] [--json]",
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
