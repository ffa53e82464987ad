// log.c -- log.jsonl of a program's own run: the events that the command train writes, too. Called
// from run.c. It begins with the first step or checkpoint, so that a program that only evaluates or
// predicts leaves train.out as it is.
#include "api/api.h"

#include "base/clock.h"
#include "base/file.h"
#include "session/record.h"

#include <stdlib.h>

static status open_file(const job *j, log_file **out, err *e)
{
    status result = OK;
    char *path = file_join(j->train.out, "log.jsonl");
    TRY(file_make_directories(j->train.out, e));
    TRY(log_open(path, true, out, e));
done:
    free(path);
    return result;
}

status api_log_open(trm_trainer *t, err *e)
{
    status result = OK;
    const ready *r = t->ready;
    if (t->rank > 0 || t->log.file) return OK;
    TRY(open_file(r->job, &t->log.file, e));
    *t->log.is_open = true;
    TRY(session_log_start(&t->session, r->job, &r->inputs, TRIREME_VERSION, t->log.resumed,
                          t->log.file, e));
    if (t->log.has_eval)
        TRY(session_log_eval(&t->session, &r->inputs, t->log.eval_loss, t->log.file, e));
done:
    return result;
}

status api_log_step(trm_trainer *t, const step_result *s, err *e)
{
    if (!t->log.file) return OK;
    const monitor_step m = session_step(t->ready->job, &t->ready->inputs, s);
    return log_step(t->log.file, &m, e);
}

status api_log_eval(trm_trainer *t, double loss, err *e)
{
    t->log.has_eval = true;
    t->log.eval_loss = loss;
    if (!t->log.file) return OK;
    return session_log_eval(&t->session, &t->ready->inputs, loss, t->log.file, e);
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

void api_log_error(const job *j, const run_log *l, int rank, const err *why)
{
    log_file *file = NULL;
    if (!*l->is_open || why->code == E_INTERRUPTED) return;
    // A log that cannot be written must not hide the error that is about to be returned.
    if (open_file(j, &file, NULL) == OK && log_error(file, -1, rank, why->text, NULL) == OK)
        (void)log_end(file, -1, "failed", (float)(clock_seconds() - l->began), NULL);
    log_close(file);
}
