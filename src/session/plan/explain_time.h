// explain_time.h -- the predicted times of a step, as `trireme explain --time` shows them: a summary, a line for each
// stage, the begin and the duration of each instruction, a timeline, and a trace. explain_job.c calls it.
#ifndef TRIREME_SESSION_PLAN_EXPLAIN_TIME_H
#define TRIREME_SESSION_PLAN_EXPLAIN_TIME_H

#include "planner/waits.h"
#include "session/plan/predict.h"

typedef struct explained_times {
    const planner_machine *machine;
    session_stages stages;
    planner_times times;
    prediction prediction;
    planner_waits waits;
    // The same times, as the picture of a pipeline takes them; spans are those of `times`.
    simulate_result result;
} explained_times;

// The caller closes *out, also after a failure.
status explained_times_open(const job *j, const session_inputs *in, const planner_machine *m,
                            explained_times *out, err *e);
void explained_times_close(explained_times *t);

// Appends the lines of the summary and of the stages; or ,"step_ms_predicted":… and ,"prediction":{…}.
void explained_times_print(const explained_times *t, bool json, text *out);
// Appends the list of a stage with its times; or ,"times":[{"begin_ms":…,"ms":…},…] in the order of the list.
void explained_times_print_list(const explained_times *t, int stage, bool json, text *out);
void explained_times_draw(const explained_times *t, text *out); // the timeline, as SVG

#endif
