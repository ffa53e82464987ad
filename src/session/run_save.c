// run_save.c -- the checkpoints of a rank: saved, waited for or written beside the steps, and resumed from. See run.h.
#include "base/clock.h"
#include "session/best.h"
#include "session/run_spans.h"

#include <stdlib.h>

static status report_save(const session_rank *r, int64_t step, const char *folder, int64_t begin,
                          err *e)
{
    const session_run *run = r->run;
    const event ev = {.kind = EVENT_SAVE,
                      .save = {.step = step,
                               .path = folder,
                               .bytes = (int64_t)(trainer_saved_bytes(r->session.trainer) +
                                                  model_folder_carried_bytes(run->inputs.folder)),
                               .seconds = (float)((double)(clock_ns() - begin) * 1e-9)}};
    return event_emit(&r->sinks, &ev, e);
}

status session_rank_follow_save(session_rank *r, bool waits, err *e)
{
    status result = OK;
    char *folder = NULL;
    bool done;
    if (!trainer_is_saving(r->session.trainer)) return OK;
    TRY(trainer_save_follow(r->session.trainer, waits, &done, &folder, e));
    if (done) TRY(report_save(r, r->saving.step, folder, r->saving.begin, e));
done:
    free(folder);
    return result;
}

status session_rank_save(session_rank *r, err *e)
{
    status result = OK;
    const session_run *run = r->run;
    const int64_t begin = clock_ns();
    char *folder = NULL;
    TRY(trainer_check_ended(r->session.trainer, "a checkpoint", e));
    TRY(session_rank_begin(r, e));
    trainer_begin_span(r->session.trainer, SPANS_SAVE);
    TRY(session_rank_follow_save(r, true, e));
    TRY(session_save(&r->session, run->job, &run->inputs, run->config_json, &r->best, &folder, e));
    trainer_end_span(r->session.trainer, SPANS_SAVE, begin);
    r->saving.step = (int64_t)trainer_steps_done(r->session.trainer), r->saving.begin = begin;
    if (!trainer_is_saving(r->session.trainer))
        TRY(report_save(r, r->saving.step, folder, begin, e));
done:
    free(folder);
    return result;
}

status session_rank_resume_from(session_rank *r, const session_checkpoint *c, err *e)
{
    status result = OK;
    r->resumed = c;
    TRY(trainer_resume(r->session.trainer, c->folder, e));
    TRY(session_best_read(c->folder, &r->best, e));
done:
    return result;
}

status session_rank_resume(session_rank *r, const char *folder, err *e)
{
    status result = OK;
    session_checkpoint found = {.folder = NULL};
    TRY(trainer_check_ended(r->session.trainer, "resuming", e));
    // Only rank 0 reads all bytes of a folder that the program names; its error ends the run.
    TRY(session_run_find_checkpoint(r->run, folder, r->rank == 0, NULL, &found, e));
    if (!found.folder) goto done;
    TRY(session_rank_follow_save(r, true, e));
    free(r->found.folder);
    r->found = found;
    found.folder = NULL;
    r->has_eval = r->owns_folder = false;
    session_spans_end(r, true);
    session_observer_close(r->observer);
    r->observer = NULL;
    TRY(session_rank_resume_from(r, &r->found, e));
done:
    free(found.folder);
    return result;
}
