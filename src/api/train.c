// train.c -- trm_run, which starts the ranks of a complete job and opens a trainer on each, and the
// functions of a trainer: step, evaluate, save, resume. tensors.c reads and writes single tensors.
#include "api/api.h"

#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "launch/launch.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct api_run_request {
    api_prepared prepared;
    const char *config_json; // NULL: that of the job's model
    trm_rank_main fn;
    void *arg;
    api_run_log log;
} api_run_request;

static status run_rank(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const api_run_request *q = arg;
    trm_error why = {.code = TRM_OK};
    trm_trainer t = {.prepared = &q->prepared,
                     .config_json = q->config_json,
                     .world = w,
                     .rank = rank,
                     .log = q->log};
    (void)ranks;
    TRY(session_open(q->prepared.job, &q->prepared.inputs, w, rank, &t.session, e));
    TRY(model_param_files_make(trainer_get_model(t.session.trainer), F32, &t.files, e));
    TRY(api_take(q->fn(&t, q->arg, &why), &why, e));
    TRY(api_log_end(&t, t.log.interrupted, e));
done:
    if (result == E_INTERRUPTED) (void)api_log_end(&t, true, NULL);
    api_log_close(&t);
    if (result != OK && result != E_INTERRUPTED) session_abort(&t.session, e);
    model_param_files_clear(&t.files);
    free(t.from);
    session_close(&t.session);
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

// A flag in memory that ranks share, as threads or as processes. NULL where mapping fails.
static bool *shared_flag(void)
{
    void *p = mmap(NULL, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static status run(trm_job *j, trm_rank_main fn, void *arg, err *e)
{
    status result = OK;
    api_run_request q = {.config_json = j->config_json, .fn = fn, .arg = arg};
    text prefix = {0};
    int first_rank = -1;
    if (!fn) FAIL(E_USAGE, "trm_run: fn is NULL; valid: the function that each rank runs");
    TRY(api_job_prepare(j, &q.prepared, e));
    if (!q.prepared.job->launch.as_threads) TRY(check_alone(e));
    const job *opened = q.prepared.job;
    job_record_prefix(opened, &prefix);
    TRY(text_check(&prefix, e));
    const launch_options o = {
        .ranks = opened->launch.ranks,
        .as_threads = opened->launch.as_threads,
        .record = {.calls = (int)opened->checks.record_calls,
                   .compares = opened->checks.desync,
                   .prefix = prefix.chars,
                   .within = opened->checks.record_prefix ? NULL : opened->train.out}};
    q.log = (api_run_log){.is_open = shared_flag(), .began = clock_seconds(), .resumed = -1};
    if (!q.log.is_open) FAIL(E_MEMORY, "trm_run: out of memory");
    TRY(launch_ranks(&o, run_rank, &q, &first_rank, e));
done:
    if (result != OK && q.log.is_open) api_log_error(q.prepared.job, &q.log, first_rank, e);
    if (q.log.is_open) munmap(q.log.is_open, sizeof *q.log.is_open);
    if (result == E_INTERRUPTED) err_set(e, result, "a rank ended the run early");
    api_prepared_close(&q.prepared);
    text_clear(&prefix);
    return result;
}

trm_status trm_run(trm_job *j, trm_rank_main fn, void *arg, trm_error *error)
{
    err e = {.code = OK};
    return api_give(run(j, fn, arg, &e), &e, error);
}

int trm_trainer_rank(const trm_trainer *t)
{
    return t->rank;
}

int trm_trainer_ranks(const trm_trainer *t)
{
    return t->session.comm->size;
}

const char *trm_trainer_note(const trm_trainer *t)
{
    return trainer_note(t->session.trainer);
}

uint64_t trm_trainer_steps_left(const trm_trainer *t)
{
    const uint64_t steps = (uint64_t)t->prepared->job->train.steps,
                   done = trainer_steps_done(t->session.trainer);
    return t->stopped || done >= steps ? 0 : steps - done;
}

static status step(trm_trainer *t, trainer_step_result *s, err *e)
{
    status result = OK;
    TRY(api_log_open(t, e));
    TRY(trainer_step(t->session.trainer, comm_stop_requested(t->world->stop), s, e));
    t->log.interrupted = t->log.interrupted || s->stop;
    if (!s->exhausted) TRY(api_log_step(t, s, e));
done:
    return result;
}

trm_status trm_trainer_step(trm_trainer *t, trm_step *out, trm_error *error)
{
    err e = {.code = OK};
    trainer_step_result s;
    status result = step(t, &s, &e);
    if (result != OK) return api_give(result, &e, error);
    t->stopped = t->stopped || s.stop || s.exhausted;
    if (out)
        *out = (trm_step){.step = s.step,
                          .steps = (uint64_t)t->prepared->job->train.steps,
                          .loss = s.loss,
                          .grad_norm = s.grad_norm,
                          .lr = s.lr,
                          .positions = s.tokens,
                          .seconds = s.seconds,
                          .skipped = s.skipped,
                          .exhausted = s.exhausted};
    return TRM_OK;
}

void trm_trainer_stop(trm_trainer *t)
{
    comm_stop_request(t->world->stop);
}

static status evaluate(trm_trainer *t, int64_t batches, double *loss, err *e)
{
    status result = OK;
    TRY(trainer_evaluate(t->session.trainer, batches, loss, NULL, e));
    TRY(api_log_eval(t, *loss, e));
done:
    return result;
}

trm_status trm_trainer_evaluate(trm_trainer *t, int64_t batches, double *loss, trm_error *error)
{
    err e = {.code = OK};
    return api_give(evaluate(t, batches, loss, &e), &e, error);
}

static status save(trm_trainer *t, err *e)
{
    status result = OK;
    const api_prepared *r = t->prepared;
    const double begin = clock_seconds();
    char *folder = NULL;
    TRY(api_log_open(t, e));
    TRY(session_save(&t->session, r->job, &r->inputs, t->config_json, &folder, e));
    TRY(api_log_save(t, folder, clock_seconds() - begin, e));
done:
    free(folder);
    return result;
}

trm_status trm_trainer_save(trm_trainer *t, trm_error *error)
{
    err e = {.code = OK};
    return api_give(save(t, &e), &e, error);
}

static status resume(trm_trainer *t, const char *folder, err *e)
{
    status result = OK;
    char *found = NULL;
    uint64_t step;
    const api_prepared *r = t->prepared;
    const char *out = r->job->train.out;
    if (folder)
        TRY(ckpt_locate(folder, &found, NULL, e));
    else
        TRY(ckpt_newest(out, &found, NULL, e));
    if (!found) goto done;
    // Only rank 0 reads all bytes of a folder that the program names; its error ends the run.
    if (folder && t->rank == 0) TRY(ckpt_verify(found, e));
    TRY(session_check_resume(r->job, &r->inputs, t->config_json, found, &step, e));
    TRY(trainer_resume(t->session.trainer, found, e));
    t->log.resumed = (int64_t)step;
    t->log.has_eval = false;
    if (t->rank > 0) goto done;
    free(t->from);
    t->from = NULL;
    t->owns_folder = false;
    bool is_own = false;
    TRY(ckpt_belongs_to_run(out, found, &is_own, e));
    if (!is_own) goto done;
    t->from = found;
    found = NULL;
done:
    free(found);
    return result;
}

trm_status trm_trainer_resume(trm_trainer *t, const char *folder, trm_error *error)
{
    err e = {.code = OK};
    return api_give(resume(t, folder, &e), &e, error);
}
