// sink.c -- the program's sinks: an event of a run (base/event.h) as the struct of trireme.h. A kind of event is one row
// of FILL. Rank 0 calls them after the log; the starting process calls them for the failure of a run.
#include "api/api.h"

#include "base/alloc.h"

#include <math.h>

static void fill_start(const event *ev, trm_event *out)
{
    out->ranks = ev->start.ranks;
    out->steps = ev->start.steps;
    out->step = ev->start.resumed_from < 0 ? 0 : ev->start.resumed_from;
}

static void fill_step(const event *ev, trm_event *out)
{
    const event_step *s = &ev->step;
    out->step = s->step;
    out->steps = s->steps;
    out->loss = s->loss;
    out->grad_norm = s->grad_norm;
    out->lr = s->lr;
    out->seconds = (double)s->seconds;
    out->tokens = (double)s->tokens;
    out->tokens_per_s = (double)s->tokens_per_s;
    out->mfu = (double)s->mfu;
    out->skipped = s->skipped;
}

static void fill_eval(const event *ev, trm_event *out)
{
    out->step = ev->eval.step;
    out->loss = ev->eval.loss;
}

static void fill_save(const event *ev, trm_event *out)
{
    out->step = ev->save.step;
    out->text = ev->save.path;
    out->saved_bytes = ev->save.bytes;
    out->seconds = (double)ev->save.seconds;
}

static void fill_note(const event *ev, trm_event *out)
{
    out->text = ev->note;
}

static void fill_straggler(const event *ev, trm_event *out)
{
    out->step = ev->straggler.step;
    out->rank = ev->straggler.rank;
    out->host = ev->straggler.host;
    out->text = ev->straggler.cause;
    out->share = ev->straggler.share;
    out->chronic = ev->straggler.chronic;
}

static void fill_verdict(const event *ev, trm_event *out)
{
    out->verdict = ev->verdict.word;
    out->rank = ev->verdict.rank;
    out->host = ev->verdict.host;
    out->text = ev->verdict.line;
    out->next = ev->verdict.next;
}

static void fill_error(const event *ev, trm_event *out)
{
    out->rank = ev->error.rank;
    out->text = ev->error.text;
}

static void fill_end(const event *ev, trm_event *out)
{
    out->step = ev->end.step;
    out->text = ev->end.reason;
    out->seconds = (double)ev->end.seconds;
}

typedef struct sink_row {
    trm_event_kind kind;
    void (*fill)(const event *ev, trm_event *out); // NULL: programs do not get it
} sink_row;

static const sink_row FILL[] = {
    [EVENT_START] = {TRM_EVENT_START, fill_start},
    [EVENT_STEP] = {TRM_EVENT_STEP, fill_step},
    [EVENT_EVAL] = {TRM_EVENT_EVAL, fill_eval},
    [EVENT_SAVE] = {TRM_EVENT_SAVE, fill_save},
    [EVENT_NOTE] = {TRM_EVENT_NOTE, fill_note},
    [EVENT_ERROR] = {TRM_EVENT_ERROR, fill_error},
    [EVENT_END] = {TRM_EVENT_END, fill_end},
    [EVENT_STRAGGLER] = {TRM_EVENT_STRAGGLER, fill_straggler},
    [EVENT_VERDICT] = {TRM_EVENT_VERDICT, fill_verdict},
};
enum { ROWS = sizeof FILL / sizeof *FILL };

status api_sinks_take(void *arg, const event *ev, err *e)
{
    status result = OK;
    const trm_job *j = arg;
    const sink_row *row = (int)ev->kind < ROWS ? &FILL[ev->kind] : NULL;
    if (!row || !row->fill) return OK;
    trm_event out = {.bytes = sizeof out,
                     .kind = row->kind,
                     .rank = -1,
                     .step = -1,
                     .steps = -1,
                     .loss = NAN,
                     .grad_norm = NAN,
                     .lr = NAN,
                     .seconds = NAN,
                     .tokens = NAN,
                     .tokens_per_s = NAN,
                     .mfu = NAN,
                     .share = NAN};
    row->fill(ev, &out);
    for (size_t i = 0; i < j->sinks; i++) {
        trm_error why = {.code = TRM_OK};
        TRY(api_take(j->sink[i].take(j->sink[i].context, &out, &why), &why, e));
    }
done:
    return result;
}

void api_sinks_close(void *arg)
{
    (void)arg;
}

static status add_sink(trm_job *j, trm_sink sink, void *context, err *e)
{
    status result = OK;
    if (!sink) FAIL(E_USAGE, "trm_job_add_sink: the sink is NULL");
    TRY(alloc_grow(&j->sink, &j->sink_room, j->sinks + 1, sizeof *j->sink, "a job", e));
    j->sink[j->sinks++] = (api_sink){sink, context};
done:
    return result;
}

trm_status trm_job_add_sink(trm_job *j, trm_sink sink, void *context, trm_error *error)
{
    err e = {.code = OK};
    return api_give(add_sink(j, sink, context, &e), &e, error);
}
