// verify.c -- verifies a job's schedules in the starting process, before any rank runs them.
// inputs.c calls it. It does not know what makes a schedule valid (parallel/verify.c).
#include "session/stages.h"

#include "parallel/verify.h"
#include "session/session.h"

status session_verify(const job *j, const session_inputs *in, int ranks, err *e)
{
    status result = OK;
    session_stages s = {.count = 0};
    trainer_options o = {0};
    TRY(session_options(j, in, ranks, &o, e));
    TRY(session_stages_open(&o, &s, e));
    result = schedule_verify(s.train_of, s.plan_of, s.count, o.strategy.pipeline.sends_wait, e);
    if (result != OK) err_prefix(e, "the schedule of a step cannot run: ");
    if (result == OK && o.valid) {
        result = schedule_verify(s.eval_of, s.plan_of, s.count, o.strategy.pipeline.sends_wait, e);
        if (result != OK) err_prefix(e, "the schedule of an evaluation cannot run: ");
    }
done:
    session_stages_close(&s);
    session_options_clear(&o);
    return result;
}
