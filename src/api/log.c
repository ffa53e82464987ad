// log.c -- log.jsonl of a program's run, with the events of `trireme train`. Called by train.c. The
// log starts with the first step or checkpoint, so that a program that only evaluates or predicts
// does not change train.out.
#include "api/api.h"

#include "base/clock.h"
#include "base/file.h"
#include "session/folder.h"
#include "session/record.h"

#include <stdlib.h>

static status open_file(const job *j, log_file **out, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(j->train.out, "log.jsonl", &path, e));
    TRY(log_open(path, out, e));
done:
    free(path);
    return result;
}

// Called before this run changes train.out. Continues the history there from the checkpoint that
// this run resumed from, or moves an earlier run's files to log-1.jsonl, checkpoints-1, ….
static status own_folder(trm_trainer *t, err *e)
{
    status result = OK;
    const char *out = t->prepared->job->train.out;
    api_log_close(t); // it may be one of the files that are moved
    if (t->from)
        TRY(folder_resume(out, t->from, NULL, e));
    else
        TRY(folder_begin(out, false, NULL, e));
    t->owns_folder = true;
done:
    return result;
}

status api_log_open(trm_trainer *t, err *e)
{
    status result = OK;
    const api_prepared *r = t->prepared;
    if (t->rank > 0 || t->owns_folder) return OK;
    TRY(own_folder(t, e));
    TRY(open_file(r->job, &t->log.file, e));
    *t->log.is_open = true;
    TRY(session_log_start(&t->session, r->job, &r->inputs, TRIREME_VERSION, t->log.resumed,
                          t->log.file, e));
    if (t->log.has_eval)
        TRY(session_log_eval(&t->session, &r->inputs, t->log.eval_loss, t->log.file, e));
    t->log.has_eval = false;
done:
    return result;
}

status api_log_step(trm_trainer *t, const trainer_step_result *s, err *e)
{
    if (!t->log.file) return OK;
    const monitor_step m = session_step(t->prepared->job, &t->prepared->inputs, s);
    return log_step(t->log.file, &m, e);
}

status api_log_eval(trm_trainer *t, double loss, err *e)
{
    t->log.has_eval = !t->log.file || !t->owns_folder;
    t->log.eval_loss = loss;
    if (t->log.has_eval) return OK;
    return session_log_eval(&t->session, &t->prepared->inputs, loss, t->log.file, e);
}

status api_log_save(trm_trainer *t, const char *folder, double seconds, err *e)
{
    if (!t->log.file) return OK;
    return session_log_save(&t->session, folder, seconds, t->log.file, e);
}

status api_log_end(trm_trainer *t, bool interrupted, err *e)
{
    if (!t->log.file) return OK;
    return log_end(t->log.file, (int64_t)trainer_steps_done(t->session.trainer),
                   interrupted ? "interrupted" : "done", (float)(clock_seconds() - t->log.began),
                   e);
}

void api_log_close(trm_trainer *t)
{
    log_close(t->log.file);
    t->log.file = NULL;
}

void api_log_error(const job *j, const api_run_log *l, int rank, const err *why)
{
    log_file *file = NULL;
    if (!*l->is_open || why->code == E_INTERRUPTED) return;
    // An unwritable log must not hide the error that is about to be returned.
    if (open_file(j, &file, NULL) == OK && log_error(file, -1, rank, why->text, NULL) == OK)
        (void)log_end(file, -1, "failed", (float)(clock_seconds() - l->began), NULL);
    log_close(file);
}
