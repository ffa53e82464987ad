// train.c -- trm_run, which starts the ranks of a complete job and opens a trainer on each, and the
// functions of a trainer: step, evaluate, save, resume. engine.c takes a step in parts, tensors.c reads and writes
// single tensors.
#include "api/api.h"

#include "base/clock.h"

#include <dirent.h>
#include <stdlib.h>

typedef struct api_run_request {
    trm_rank_main fn;
    void *arg;
} api_run_request;

static status run_rank(session_rank *r, void *arg, err *e)
{
    status result = OK;
    const api_run_request *q = arg;
    trm_error why = {.code = TRM_OK};
    trm_trainer t = {.rank = r};
    TRY(model_param_files_make(trainer_get_model(r->session.trainer), F32, &t.files, e));
    TRY(api_take(q->fn(&t, q->arg, &why), &why, e));
done:
    model_param_files_clear(&t.files);
    free(t.hook.tensor);
    return result;
}

// The number of threads of a process that has started none.
#ifdef __SANITIZE_THREAD__
enum { ALONE = 2 }; // the sanitizer has a thread of its own
#else
enum { ALONE = 1 };
#endif

// A forked rank has only the thread that called fork. Libraries that have started threads before
// would wait for them forever.
static status check_alone(err *e)
{
    int threads = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d))
        if (entry->d_name[0] != '.') threads++;
    if (d) closedir(d);
    if (threads <= ALONE) return OK;
    return err_set(e, E_USAGE,
                   "launch.as: processes cannot be forked from a process that has %d threads; "
                   "valid: threads, or trm_run before other threads are started",
                   threads);
}

// The only process, or that of rank 0.
static status decide(trm_job *j, session_run *r, err *e)
{
    status result = OK;
    TRY(job_open_own(j->path, 0, NULL, &r->join.own, &r->job, e));
    TRY(session_inputs_open_own(r->job, r->own, &r->inputs, e));
    TRY(session_run_broadcast(r, e));
done:
    return result;
}

static status run(trm_job *j, trm_rank_main fn, void *arg, err *e)
{
    status result = OK;
    api_run_request q = {.fn = fn, .arg = arg};
    const session_own_inputs own = api_job_inputs(j);
    session_run r = {.own = &own,
                     .config_json = j->config_json,
                     .began = clock_seconds(),
                     .main = run_rank,
                     .arg = &q,
                     .trains = true};
    const event_sink sinks = {api_sinks_take, api_sinks_close, j};
    if (j->sinks) event_sinks_add(&r.sinks, sinks);
    if (j->sinks) r.failure_sink = sinks;
    TRY(join_open(&r.join, 0, NULL, e));
    if (!fn) FAIL(E_USAGE, "trm_run: fn is NULL; valid: the function that each rank runs");
    api_job_own(j, &r.join.own);
    if (r.join.location.launcher) TRY(check_alone(e)); // attaching may fork, too
    TRY(join_attach(&r.join, e));
    TRY(join_follows(&r.join) ? session_run_receive(&r, e) : decide(j, &r, e));
    if (!r.job->launch.as_threads) TRY(check_alone(e));
    TRY(session_run_ranks(&r, e));
done:
    result = session_run_end(&r, result, e);
    result = join_end(&r.join, result, e);
    if (result == E_INTERRUPTED) err_set(e, result, "a rank ended the run early");
    return result;
}

trm_status trm_run(trm_job *j, trm_rank_main fn, void *arg, trm_error *error)
{
    err e = {.code = OK};
    return api_give(run(j, fn, arg, &e), &e, error);
}

int trm_trainer_rank(const trm_trainer *t)
{
    return t->rank->rank;
}

int trm_trainer_ranks(const trm_trainer *t)
{
    return t->rank->session.comm->size;
}

const char *trm_trainer_note(const trm_trainer *t)
{
    return trainer_note(t->rank->session.trainer);
}

uint64_t trm_trainer_steps_left(const trm_trainer *t)
{
    const uint64_t steps = (uint64_t)t->rank->run->job->train.steps,
                   done = trainer_steps_done(t->rank->session.trainer);
    return t->stopped || done >= steps ? 0 : steps - done;
}

void api_end_step(trm_trainer *t, const trainer_step_result *s, trm_step *out)
{
    t->stopped = t->stopped || s->stop || s->exhausted;
    if (out)
        *out = (trm_step){.step = s->step,
                          .steps = (uint64_t)t->rank->run->job->train.steps,
                          .loss = s->loss,
                          .grad_norm = s->grad_norm,
                          .lr = s->lr,
                          .positions = s->tokens,
                          .seconds = s->seconds,
                          .skipped = s->skipped,
                          .exhausted = s->exhausted};
}

trm_status trm_trainer_step(trm_trainer *t, trm_step *out, trm_error *error)
{
    err e = {.code = OK};
    trainer_step_result s;
    const status result = session_rank_step(t->rank, &s, &e);
    if (result == OK) api_end_step(t, &s, out);
    return api_give(result, &e, error);
}

void trm_trainer_stop(trm_trainer *t)
{
    comm_stop_request(t->rank->world->stop);
}

trm_status trm_trainer_evaluate(trm_trainer *t, int64_t batches, double *loss, trm_error *error)
{
    err e = {.code = OK};
    return api_give(session_rank_evaluate(t->rank, batches, loss, &e), &e, error);
}

trm_status trm_trainer_save(trm_trainer *t, trm_error *error)
{
    err e = {.code = OK};
    return api_give(session_rank_save(t->rank, &e), &e, error);
}

trm_status trm_trainer_resume(trm_trainer *t, const char *folder, trm_error *error)
{
    err e = {.code = OK};
    return api_give(session_rank_resume(t->rank, folder, &e), &e, error);
}
