// observe.c -- see observe.h.
#include "session/observe.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "monitor/page/page.h"
#include "monitor/report/report.h"
#include "monitor/report/statistics.h"
#include "monitor/trace/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 20,  // looks until the records of all ranks are expected
    TRACED = 3,  // steps of a trace
    LOSSES = 50, // from which a spike stands out
    LEAST_LOSSES = 20,
};
static const int64_t LOOK_NS = 100000000;
static const double SPIKE_DEVIATIONS = 8, SPIKE_FACTOR = 1.2; // median distances from the median

struct session_observer {
    run_view view; // records only; the log is not read
    char *folder;
    int looks;
    int64_t looked_ns;
    straggler_watch *watch; // NULL: not all records were found yet
    straggler_location *location;
    const char **host;
    spans_step *step; // [view.ranks]
    uint64_t next;    // the step to look at

    int traces;
    uint64_t trace_first; // of the trace that is to be cut; 0: none
    double loss[LOSSES];
    uint64_t losses;
};

// ---- Records

static void close_records(session_observer *o)
{
    straggler_watch_close(o->watch);
    for (int r = 0; r < o->view.ranks; r++) spans_close(o->view.rank[r]);
    free(o->view.rank);
    free(o->location);
    free(o->host);
    free(o->step);
    memset(&o->view, 0, sizeof o->view);
    o->watch = NULL;
    o->location = NULL;
    o->host = NULL;
    o->step = NULL;
}

static spans *open_record(const session_observer *o, int rank)
{
    char *path = NULL;
    spans *s = NULL;
    if (run_view_spans_path(o->folder, rank, &path, NULL) == OK) (void)spans_open(path, &s, NULL);
    free(path);
    // An earlier run's says nothing about this one.
    if (s && atomic_load(&s->head->ended)) {
        spans_close(s);
        s = NULL;
    }
    return s;
}

static status open_records(session_observer *o, err *e)
{
    status result = OK;
    int hosts;
    spans *own = open_record(o, 0);
    if (!own) return OK;
    const int ranks = own->rank_count;
    TRY(alloc_zeroed(&o->view.rank, (size_t)ranks, sizeof *o->view.rank, "the records", e));
    o->view.ranks = ranks;
    o->view.rank[0] = own;
    own = NULL;
    for (int r = 1; r < ranks; r++) o->view.rank[r] = open_record(o, r);
    for (int r = 0; r < ranks; r++) o->view.recorded += o->view.rank[r] != NULL;
    if (o->view.recorded < ranks && o->looks < TRIES) goto done;
    TRY(alloc_zeroed(&o->step, (size_t)ranks, sizeof *o->step, "the records", e));
    TRY(run_measures_locate(&o->view, &o->location, &o->host, &hosts, e));
    TRY(straggler_watch_open(o->location, ranks, &o->watch, e));
done:
    spans_close(own);
    if (!o->watch) close_records(o);
    return result;
}

// ---- Traces

// The steps behind `step` are traced, unless others are to be.
static void want_trace(session_observer *o, uint64_t step)
{
    if (!o->trace_first && o->traces < SESSION_TRACES) o->trace_first = step + 1;
}

// Cuts a trace of the steps that all records have. *folder stays NULL where that is not possible.
static void cut_trace(const char *run, uint64_t first, uint64_t last, char **folder)
{
    run_view *v = NULL;
    uint64_t oldest, newest;
    if (run_view_open(run, &v, NULL) != OK) return;
    if (run_view_common_steps(v, &oldest, &newest)) {
        if (first < oldest) first = oldest;
        if (last > newest) last = newest;
        if (first <= last) (void)trace_cut(v, first, last, folder, NULL);
    }
    run_view_close(v);
}

static status finish_trace(session_observer *o, const event_sinks *sinks, err *e)
{
    status result = OK;
    char *folder = NULL;
    text note = {0};
    const uint64_t last = o->trace_first + TRACED - 1;
    if (!o->trace_first || o->next <= last) return OK;
    cut_trace(o->folder, o->trace_first, last, &folder);
    o->trace_first = 0;
    o->traces++;
    if (!folder) goto done;
    text_addf(&note, "traced steps %llu to %llu: %s", (unsigned long long)(last - TRACED + 1),
              (unsigned long long)last, file_shown(folder));
    TRY(event_emit(sinks, &(event){.kind = EVENT_NOTE, .note = note.chars}, e));
done:
    text_clear(&note);
    free(folder);
    return result;
}

// Whether a loss is far above those before it.
static bool is_spike(session_observer *o, double loss)
{
    double values[LOSSES];
    const size_t count = o->losses < LOSSES ? (size_t)o->losses : LOSSES;
    if (!isfinite(loss)) return false;
    memcpy(values, o->loss, count * sizeof *values);
    const double middle = statistics_median(values, count);
    const double deviation = statistics_deviation(values, count) / 1.4826;
    o->loss[o->losses++ % LOSSES] = loss;
    return count >= LEAST_LOSSES && loss > middle + SPIKE_DEVIATIONS * deviation &&
           loss > SPIKE_FACTOR * middle;
}

// ---- Steps

static status report_stragglers(session_observer *o, uint64_t step, const event_sinks *sinks,
                                err *e)
{
    status result = OK;
    for (const straggler *s; (s = straggler_watch_news(o->watch));) {
        const event ev = {.kind = EVENT_STRAGGLER,
                          .straggler = {.step = (int64_t)step,
                                        .rank = s->rank,
                                        .host = o->host[s->host],
                                        .cause = straggler_cause_word(s->cause),
                                        .share = s->share,
                                        .chronic = s->is_chronic}};
        if (s->is_chronic) want_trace(o, step);
        TRY(event_emit(sinks, &ev, e));
    }
done:
    return result;
}

// The last step that all records have; 0: none.
static uint64_t last_step(const session_observer *o)
{
    uint64_t last = UINT64_MAX;
    spans_step s;
    for (int r = 0; r < o->view.ranks; r++) {
        const spans *x = o->view.rank[r];
        if (!x) continue;
        const uint64_t count = atomic_load(&x->head->steps);
        if (!count || !spans_read_step(x, count - 1, &s)) return 0;
        if (s.step < last) last = s.step;
    }
    return last;
}

// The first step of rank 0's record, where it is still there.
static uint64_t first_step(const session_observer *o, uint64_t last)
{
    spans_step s;
    return spans_read_step(o->view.rank[0], 0, &s) && s.step < last ? s.step : last;
}

static status look(session_observer *o, const event_sinks *sinks, err *e)
{
    status result = OK;
    if (!o->watch && o->looks++ < TRIES) (void)open_records(o, NULL);
    if (!o->watch) return OK;
    const uint64_t last = last_step(o);
    if (!o->next && last) o->next = first_step(o, last);
    for (; o->next && o->next <= last; o->next++) {
        bool has_all = true;
        for (int r = 0; has_all && r < o->view.ranks; r++)
            has_all = !o->view.rank[r] || run_view_step_of(&o->view, r, o->next, &o->step[r]);
        if (!has_all) continue;
        straggler_watch_add(o->watch, o->step);
        TRY(report_stragglers(o, o->next, sinks, e));
    }
    TRY(finish_trace(o, sinks, e));
done:
    return result;
}

status session_observe_step(session_observer *o, const event_step *s, const event_sinks *sinks,
                            err *e)
{
    const int64_t now_ns = clock_ns();
    if (!s->skipped && is_spike(o, s->loss)) want_trace(o, (uint64_t)s->step);
    if (s->step < s->steps && now_ns - o->looked_ns < LOOK_NS) return OK;
    o->looked_ns = now_ns;
    return look(o, sinks, e);
}

status session_observer_open(const char *folder, session_observer **out, err *e)
{
    status result = OK;
    session_observer *o = NULL;
    TRY(alloc_zeroed(&o, 1, sizeof *o, "the observer of a run", e));
    TRY(text_copy(folder, &o->folder, e));
    *out = o;
    o = NULL;
done:
    session_observer_close(o);
    return result;
}

void session_observer_close(session_observer *o)
{
    if (!o) return;
    close_records(o);
    free(o->folder);
    free(o);
}

// ---- The end

static void trace_failure(const char *folder, const run_view *v)
{
    uint64_t first, last;
    char *trace = NULL;
    if (!run_view_common_steps(v, &first, &last)) return;
    if (last >= first + TRACED) first = last - TRACED + 1;
    cut_trace(folder, first, last, &trace);
    free(trace);
}

static status copy_verdict(const report *r, session_verdict *out, err *e)
{
    status result = OK;
    if (r->is_short) return OK;
    out->rank = r->rank;
    TRY(text_copy(r->line, &out->line, e));
    TRY(text_copy(r->next, &out->next, e));
    if (r->host) TRY(text_copy(r->host, &out->host, e));
    TRY(text_copy(r->verdict, &out->word, e));
done:
    return result;
}

void session_observe_end(const char *folder, bool failed, session_verdict *out)
{
    run_view *v = NULL;
    report *r = NULL;
    *out = (session_verdict){.rank = -1};
    if (run_view_open(folder, &v, NULL) != OK || !v->recorded) goto done;
    if (failed) trace_failure(folder, v);
    if (report_make(v, &r, NULL) != OK || !r->measures->steps) goto done;
    (void)report_write(r, NULL);
    (void)page_write(v, r, NULL);
    (void)copy_verdict(r, out, NULL);
done:
    report_close(r);
    run_view_close(v);
}

void session_verdict_clear(session_verdict *v)
{
    free(v->word);
    free(v->host);
    free(v->line);
    free(v->next);
    *v = (session_verdict){.rank = -1};
}

event session_verdict_event(const session_verdict *v)
{
    return (event){
        .kind = EVENT_VERDICT,
        .verdict = {
            .word = v->word, .rank = v->rank, .host = v->host, .line = v->line, .next = v->next}};
}
