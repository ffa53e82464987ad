// proof.c -- proves a job's lists in the starting process, before any rank runs them. Called when
// inputs are opened. Deliberately knows nothing of what makes a list right: parallel/check.c does.
#include "session/stages.h"

#include "parallel/check.h"
#include "session/session.h"

status session_prove(const job *j, const inputs *in, int ranks, err *e)
{
    status result = OK;
    stage_lists s = {.count = 0};
    trainer_options o = {0};
    TRY(session_options(j, in, ranks, &o, e));
    TRY(stage_lists_open(&o, &s, e));
    result = schedule_check(s.train_of, s.plan_of, s.count, e);
    if (result != OK) err_prefix(e, "the schedule of a step cannot run: ");
    if (result == OK && o.valid) {
        result = schedule_check(s.eval_of, s.plan_of, s.count, e);
        if (result != OK) err_prefix(e, "the schedule of an evaluation cannot run: ");
    }
done:
    stage_lists_close(&s);
    return result;
}
