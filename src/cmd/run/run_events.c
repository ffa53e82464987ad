// run_events.c -- `trireme run --json`: the events of a group of workers on stdout, in the form of log.jsonl. Called by
// run.c. It knows nothing of what the workers print.
#include "cmd/run/run.h"

#include "base/clock.h"
#include "monitor/log.h"

#include <unistd.h>

static status begin(const run_options *o, run_events *x, err *e)
{
    status result = OK;
    const event_start start = {.version = TRIREME_VERSION,
                               .program = o->entry,
                               .launched_as = "workers",
                               .ranks = o->agent.workers,
                               .threads_per_rank = -1,
                               .params = -1,
                               .plan_bytes_per_rank = -1,
                               .steps = -1,
                               .tokens_per_step = -1,
                               .resumed_from = -1};
    x->began = clock_seconds();
    TRY(log_open(NULL, &x->log, e));
    log_copy_to(x->log, STDOUT_FILENO);
    TRY(log_event(x->log, &(event){.kind = EVENT_START, .start = start}, e));
done:
    return result;
}

status run_events_begin(const run_request *q, const run_options *o, run_events *x, err *e)
{
    return q->json ? begin(o, x, e) : OK;
}

static void report_error(run_events *x, int rank, const char *line)
{
    (void)log_event(x->log, &(event){.kind = EVENT_ERROR, .error = {rank, line}}, NULL);
}

void run_events_end(run_events *x, const agent_result *r, status result, const err *e)
{
    if (!x->log) return;
    for (int i = 0; i < r->count; i++) {
        text line = {0};
        worker_failure_line(&r->failures[i], &line);
        if (!line.failed) report_error(x, r->failures[i].rank, line.chars);
        text_clear(&line);
    }
    if (!r->count && result != OK) report_error(x, -1, e->text);
    const char *reason = r->signal ? "interrupted" : result == OK ? "done" : "failed";
    const event end = {.kind = EVENT_END, .end = {-1, reason, (float)(clock_seconds() - x->began)}};
    (void)log_event(x->log, &end, NULL);
    log_close(x->log);
    *x = (run_events){.log = NULL};
}
