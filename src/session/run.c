// run.c -- see run.h. claim.c has what happens to the run's folder before its ranks start.
#include "session/run.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "infer/evaluate.h"
#include "session/best.h"
#include "session/preference/preference.h"
#include "session/preference/reference.h"
#include "session/run_spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t steps_done(const session_rank *r)
{
    return (int64_t)trainer_steps_done(r->session.trainer);
}

// Ranks without sinks report to nobody.
static status report(const session_rank *r, const event *ev, err *e)
{
    return event_emit(&r->sinks, ev, e);
}

// ---- The log

static status open_log(const session_run *run, log_file **out, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(run->job->train.out, "log.jsonl", &path, e));
    TRY(log_open(path, out, e));
    if (run->log_copy) log_copy_to(*out, run->log_copy);
done:
    free(path);
    return result;
}

// Adds the lines of a text, separated by "; ".
static void add_notes(text *out, const char *lines)
{
    for (const char *line = lines; line && *line;) {
        const size_t bytes = strcspn(line, "\n");
        text_add(out, out->bytes ? "; " : "");
        text_add_bytes(out, line, bytes);
        line += bytes + (line[bytes] != 0);
    }
}

static status report_start(const session_rank *r, err *e)
{
    status result = OK;
    const session_run *run = r->run;
    const job *j = run->job;
    const trainer *t = r->session.trainer;
    const plan *p = trainer_get_plan(t);
    text policy_name = {0}, note = {0}, carried = {0};
    model_folder_describe(run->inputs.folder, &carried);
    const char *notes[] = {run->inputs.fit, trainer_note(t), r->session.split_note, carried.chars,
                           run->inputs.samples_notes.chars};
    for (int i = 0; i < 5; i++) add_notes(&note, notes[i]);
    event_axis axes[AXES];
    plan_print_policy(p, &policy_name);
    TRY(text_check(&note, e));
    TRY(text_check(&carried, e));
    TRY(text_check(&policy_name, e));
    for (int a = 0; a < AXES; a++) axes[a] = (event_axis){axis_name((axis)a), p->o.mesh.size[a]};
    const event_start start = {.version = TRIREME_VERSION,
                               .model = run->inputs.family->name,
                               .policy = policy_name.chars,
                               .precision = job_precision_name(j),
                               .device = j->launch.device,
                               .launched_as = j->launch.as_threads ? "threads" : "processes",
                               .mesh = axes,
                               .axes = AXES,
                               .ranks = r->session.comm->size,
                               .threads_per_rank = j->launch.threads_per_rank,
                               .params = (int64_t)model_param_count(trainer_get_model(t)),
                               .plan_bytes_per_rank = (int64_t)plan_bytes(p),
                               .steps = j->train.steps,
                               .tokens_per_step = j->train.global_batch * run->inputs.seq_len,
                               .resumed_from = r->resumed ? (int64_t)r->resumed->step : -1,
                               .checkpoint = run->resume.folder,
                               .note = note.chars};
    TRY(report(r, &(event){.kind = EVENT_START, .start = start}, e));
done:
    text_clear(&policy_name);
    text_clear(&carried);
    text_clear(&note);
    return result;
}

static status report_eval(const session_rank *r, double loss, err *e)
{
    const event_preferences pairs = infer_evaluated_preferences(r->session.trainer);
    const bool tokens = r->run->inputs.valid->shape.input_type == I32 && pairs.pairs == 0;
    const event ev = {.kind = EVENT_EVAL, .eval = {steps_done(r), loss, tokens, pairs}};
    return report(r, &ev, e);
}

// Continues the history in train.out from the checkpoint that this run resumed from, or moves an earlier run's files there
// to log-1.jsonl, checkpoints-1, ….
static status own_folder(session_rank *r, err *e)
{
    status result = OK;
    const session_run *run = r->run;
    tokenizer *t = NULL;
    const bool own = r->resumed && r->resumed->is_own;
    event_sinks_close(&r->files); // they may be among the files that are moved
    r->sinks.count = 0;
    if (run->inputs.data_tokenizer) TRY(tokenizer_load(run->inputs.data_tokenizer, &t, e));
    TRY(session_run_own_folder(run, own ? r->resumed->folder : NULL, t, NULL, e));
done:
    tokenizer_close(t);
    return result;
}

// Opens the log, and the files that job.observe asks for.
static status open_files(session_rank *r, err *e)
{
    status result = OK;
    log_file *l = NULL;
    TRY(open_log(r->run, &l, e));
    *r->run->has_log = true;
    event_sinks_add(&r->files, (event_sink){log_event, log_close, l});
    TRY(session_add_files(r->run->job, &r->files, e));
done:
    return result;
}

status session_rank_begin(session_rank *r, err *e)
{
    status result = OK;
    const session_run *run = r->run;
    if (r->rank > 0) session_spans_begin(r);
    if (r->rank > 0 || r->owns_folder) return OK;
    if (!run->claimed) TRY(own_folder(r, e));
    r->owns_folder = true;
    if (run->claimed && r->session.split) TRY(session_run_write_split(run, r->session.split, e));
    session_spans_begin(r);
    TRY(open_files(r, e));
    for (int i = 0; i < r->files.count; i++) event_sinks_add(&r->sinks, r->files.items[i]);
    const job *j = run->job;
    if (!r->trace)
        TRY(session_trace_open(j->train.out, j->observe.trace_first, j->observe.trace_last,
                               &r->trace, e));
    for (int i = 0; i < run->sinks.count; i++) event_sinks_add(&r->sinks, run->sinks.items[i]);
    TRY(report_start(r, e));
    if (run->trains && !r->observer)
        TRY(session_observer_open(run->job->train.out, &r->observer, e));
    if (r->has_eval) TRY(report_eval(r, r->eval_loss, e));
    r->has_eval = false;
done:
    return result;
}

// ---- Steps

static status measure(session_rank *r, err *e)
{
    const uint64_t steps = (uint64_t)steps_done(r) - (r->resumed ? r->resumed->step : 0);
    if (!r->run->measures_mfu) return OK;
    const char *note =
        session_mfu_measure(&r->mfu, steps, r->session.device, job_dtype(r->run->job));
    return note ? report(r, &(event){.kind = EVENT_NOTE, .note = note}, e) : OK;
}

static status report_step(session_rank *r, const trainer_step_result *s, err *e)
{
    status result = OK;
    const session_run *run = r->run;
    const double flops = trainer_flops(r->session.trainer);
    const event_step step = {.step = (int64_t)s->step,
                             .steps = run->job->train.steps,
                             .loss = s->loss,
                             .grad_norm = s->grad_norm,
                             .lr = s->lr,
                             .tokens = (int64_t)s->tokens,
                             .seconds = (float)s->seconds,
                             .tokens_per_s = (float)(s->tokens / s->seconds),
                             .mfu = (float)session_mfu_of(&r->mfu, flops / s->seconds),
                             .loss_scale = s->loss_scale,
                             .skipped = s->skipped,
                             .preferences = s->preferences,
                             .group_norm = s->group_norm,
                             .group_norms = s->group_norms,
                             .unit = run->inputs.train->shape.input_type == I32 ? NULL : "samples"};
    TRY(report(r, &(event){.kind = EVENT_STEP, .step = step}, e));
    if (r->observer) TRY(session_observe_step(r->observer, &step, &r->sinks, e));
done:
    return result;
}

static status follow_spans(session_rank *r, err *e)
{
    char *missing = NULL;
    session_spans_follow(r, &missing);
    const event ev = {.kind = EVENT_NOTE, .note = missing};
    const status result = missing ? report(r, &ev, e) : OK;
    free(missing);
    return result;
}

// Looks after the trace of observe.trace_steps; `ends`: no step follows.
static status follow_trace(session_rank *r, bool ends, err *e)
{
    char *note = NULL;
    if (ends)
        session_trace_finish(r->trace, &note);
    else
        session_trace_due(r->trace, (uint64_t)steps_done(r), &note);
    const event ev = {.kind = EVENT_NOTE, .note = note};
    const status result = note ? report(r, &ev, e) : OK;
    free(note);
    return result;
}

static status report_end_of_step(session_rank *r, const trainer_step_result *s, err *e)
{
    status result = OK;
    r->interrupted = r->interrupted || s->stop;
    if (s->exhausted) goto done;
    if (r->rank == 0 && r->run->claimed) TRY(session_run_check_folder(r->run, e));
    TRY(follow_spans(r, e));
    TRY(follow_trace(r, false, e));
    TRY(measure(r, e));
    TRY(report_step(r, s, e));
    TRY(session_rank_follow_save(r, false, e));
done:
    return result;
}

status session_rank_step(session_rank *r, trainer_step_result *out, err *e)
{
    status result = OK;
    TRY(trainer_check_ended(r->session.trainer, "a whole step", e));
    TRY(session_rank_begin(r, e));
    TRY(session_reference_prepare(r, e));
    TRY(session_preference_step(r, e));
    TRY(trainer_step(r->session.trainer, comm_stop_requested(r->world->stop), out, e));
    TRY(report_end_of_step(r, out, e));
done:
    return result;
}

status session_rank_forward(session_rank *r, double *loss, err *e)
{
    status result = OK;
    TRY(trainer_check_forward(r->session.trainer, e));
    TRY(session_rank_begin(r, e));
    TRY(session_reference_prepare(r, e));
    TRY(session_preference_step(r, e));
    TRY(trainer_forward(r->session.trainer, comm_stop_requested(r->world->stop), loss, e));
done:
    return result;
}

status session_rank_update(session_rank *r, trainer_step_result *out, bool *ended, err *e)
{
    status result = OK;
    TRY(trainer_update(r->session.trainer, out, ended, e));
    if (*ended) TRY(report_end_of_step(r, out, e));
done:
    return result;
}

status session_rank_evaluate(session_rank *r, int64_t batches, double *loss, err *e)
{
    status result = OK;
    const int64_t begin = clock_ns();
    TRY(trainer_check_ended(r->session.trainer, "an evaluation", e));
    TRY(session_reference_prepare(r, e));
    TRY(session_preference_evaluate(r, batches, e));
    trainer_begin_span(r->session.trainer, SPANS_EVAL);
    TRY(infer_evaluate(r->session.trainer, batches, loss, NULL, e));
    trainer_end_span(r->session.trainer, SPANS_EVAL, begin);
    r->has_eval = !r->owns_folder;
    r->eval_loss = *loss;
    session_best_take(&r->best, steps_done(r), *loss, r->run->job->train.early_stopping.threshold);
    if (!r->has_eval) TRY(report_eval(r, *loss, e));
done:
    return result;
}

status session_rank_note(session_rank *r, const char *line, err *e)
{
    return report(r, &(event){.kind = EVENT_NOTE, .note = line}, e);
}

// ---- The run of a rank

static status report_verdict(const session_rank *r, err *e)
{
    status result = OK;
    session_verdict v = {.word = NULL};
    if (!r->observer) return OK;
    session_observe_end(r->run->job->train.out, false, &v);
    const event ev = session_verdict_event(&v);
    if (v.word) TRY(report(r, &ev, e));
done:
    session_verdict_clear(&v);
    return result;
}

static event end_of(const session_run *r, int64_t step, const char *reason)
{
    return (event){.kind = EVENT_END, .end = {step, reason, (float)(clock_seconds() - r->began)}};
}

static status run_rank(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const session_run *run = arg;
    event_sinks unused = run->sinks;
    session_rank r = {.run = run, .world = w, .rank = rank, .best = session_best_none()};
    (void)ranks;
    TRY(session_open(run->job, &run->inputs, w, rank, &r.session, e));
    if (run->resume.folder) TRY(session_rank_resume_from(&r, &run->resume, e));
    result = run->main(&r, run->arg, e);
    if (result == OK || result == E_INTERRUPTED) {
        err why = {.code = OK};
        const bool interrupted = r.interrupted || result == E_INTERRUPTED;
        const event end = end_of(run, steps_done(&r), interrupted ? "interrupted" : "done");
        if (session_rank_follow_save(&r, true, &why) != OK || follow_trace(&r, true, &why) != OK ||
            report_verdict(&r, &why) != OK || report(&r, &end, &why) != OK)
            result = why.code, *e = why;
    }
done:
    session_trace_close(r.trace);
    session_spans_end(&r, result == OK || result == E_INTERRUPTED);
    if (!r.sinks.count) event_sinks_close(&r.files); // one of them could not be opened
    if (rank == 0) event_sinks_close(r.sinks.count ? &r.sinks : &unused);
    if (result != OK && result != E_INTERRUPTED) session_abort(&r.session, e);
    session_observer_close(r.observer);
    free(r.found.folder);
    sampler_close(r.order);
    session_close(&r.session);
    return result;
}

// Returns whether this process starts the first rank of its host.
static bool is_first_here(const session_run *r)
{
    return !r->join.world || r->join.world->first == 0;
}

status session_run_ranks(session_run *r, err *e)
{
    status result = OK;
    const job *j = r->job;
    text prefix = {0};
    job_record_prefix(j, &prefix);
    TRY(text_check(&prefix, e));
    const launch_options o = {.ranks = j->launch.ranks,
                              .as_threads = j->launch.as_threads,
                              .own_terminal = r->own_terminal,
                              .record = {.calls = r->trains ? (int)j->checks.record_calls : 0,
                                         .compares = r->trains && j->checks.desync,
                                         .prefix = prefix.chars,
                                         .within = j->checks.record_prefix ? NULL : j->train.out}};
    void *shared =
        mmap(NULL, sizeof *r->has_log, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) FAIL(E_MEMORY, "the ranks of a run: out of memory");
    r->has_log = shared;
    if (r->trains && is_first_here(r))
        TRY(session_exporter_start(j, !join_follows(&r->join), &r->exporter, e));
    TRY(join_run(&r->join, &o, run_rank, r, e));
done:
    session_exporter_stop(&r->exporter);
    text_clear(&prefix);
    return result;
}

// ---- The starting process

// The decision of rank 0's process. The folder of the checkpoint follows it; no byte: there is none.
typedef struct run_decision {
    uint64_t resume_step;
    bool is_done;
    char boot[40]; // as in session_run
} run_decision;

status session_run_broadcast(const session_run *r, err *e)
{
    status result = OK;
    text data = {0};
    run_decision decided = {.resume_step = r->resume.step, .is_done = r->is_done};
    proc_boot_id(decided.boot, sizeof decided.boot);
    text_add_bytes(&data, (const char *)&decided, sizeof decided);
    if (r->resume.folder) text_add(&data, r->resume.folder);
    TRY(text_check(&data, e));
    TRY(join_broadcast(&r->join, r->job, !r->is_done, data.chars, data.bytes, e));
done:
    text_clear(&data);
    return result;
}

static status open_received(void *arg, job *j, const text *data, err *e)
{
    status result = OK;
    session_run *r = arg;
    run_decision decided;
    if (data->bytes < sizeof decided) FAIL(E_IO, "what rank 0 has sent is damaged");
    memcpy(&decided, data->chars, sizeof decided);
    r->is_done = decided.is_done;
    r->resume.step = decided.resume_step;
    memcpy(r->boot, decided.boot, sizeof r->boot - 1);
    if (r->is_done) goto done;
    TRY(session_inputs_open_to_plan(j, r->own, &r->inputs, e));
    if (data->bytes > sizeof decided)
        TRY(text_copy(data->chars + sizeof decided, &r->resume.folder, e));
done:
    return result;
}

status session_run_receive(session_run *r, err *e)
{
    status result = OK;
    text data = {0};
    TRY(join_receive(&r->join, open_received, r, &r->job, &data, e));
    if (!r->job) FAIL(E_IO, "what rank 0 has sent is damaged");
done:
    text_clear(&data);
    return result;
}

// Returns whether this process may write the failure to log.jsonl, which else is another run's or gone.
static bool may_log(const session_run *r, const err *why)
{
    if (why->code == E_INTERRUPTED) return false;
    if (!r->claimed) return r->has_log && *r->has_log;
    return why->code != E_USAGE && session_run_check_folder(r, NULL) == OK;
}

// An unwritable log must not hide the failure.
static void log_failure(session_run *r, const err *why)
{
    log_file *l = NULL;
    const event failure = {.kind = EVENT_ERROR, .error = {r->join.first_rank, why->text}};
    const event end = end_of(r, -1, "failed");
    if (open_log(r, &l, NULL) != OK || log_event(l, &failure, NULL) != OK) goto done;
    if (r->trains) session_observe_end(r->job->train.out, true, &r->verdict);
    const event verdict = session_verdict_event(&r->verdict);
    if (!r->verdict.word || log_event(l, &verdict, NULL) == OK) (void)log_event(l, &end, NULL);
done:
    log_close(l);
    const event_sink *s = &r->failure_sink;
    if (s->take && s->take(s->arg, &failure, NULL) == OK) (void)s->take(s->arg, &end, NULL);
}

status session_run_end(session_run *r, status result, err *e)
{
    result = join_fail(&r->join, result, e);
    if (result != OK && may_log(r, e)) log_failure(r, e);
    if (r->has_log) munmap(r->has_log, sizeof *r->has_log);
    if (r->lock.held) close(r->lock.fd);
    session_inputs_close(&r->inputs);
    job_close(r->job);
    text_clear(&r->warnings);
    text_clear(&r->kept);
    free(r->resume.folder);
    return result;
}
