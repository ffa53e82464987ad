// report.c -- makes report.json; see report.h. docs/what-is-my-run-doing.md describes its members.
#include "monitor/report/report.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "monitor/report/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAITS = 32, DIGITS = 6 };

static json_t *real_of(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

// ---- The verdict

static json_t *json_of_lines(const report *r)
{
    json_t *all = json_array();
    for (int i = 0; i < r->evidences; i++) json_array_append_new(all, json_of_text(r->evidence[i]));
    return all;
}

static status split_lines(report *r, const text *lines, err *e)
{
    status result = OK;
    size_t count = 0;
    for (const char *at = lines->chars; at && (at = strchr(at, '\n')); at++) count++;
    TRY(alloc_zeroed(&r->evidence, count, sizeof *r->evidence, "a report", e));
    for (const char *at = lines->chars; at && *at;) {
        const char *end = strchr(at, '\n');
        text line = {0};
        text_add_bytes(&line, at, (size_t)(end - at));
        TRY(text_take(&line, &r->evidence[r->evidences++], e));
        at = end + 1;
    }
done:
    return result;
}

// ---- Figures

static json_t *json_of_steps(const run_measures *m)
{
    const run_view *v = m->view;
    json_t *x = json_object();
    json_object_set_new(x, "first", json_integer((json_int_t)m->first));
    json_object_set_new(x, "last", json_integer((json_int_t)m->last));
    json_object_set_new(x, "measured", json_integer((json_int_t)m->steps));
    json_object_set_new(x, "seconds", real_of(m->step_ns * 1e-9));
    json_object_set_new(x, "done", json_integer(v->steps ? v->step[v->steps - 1].step : 0));
    json_object_set_new(x, "loss", real_of(v->steps ? v->step[v->steps - 1].loss : NAN));
    json_object_set_new(x, "matmul_share", real_of(m->matmul_share));
    return x;
}

static json_t *json_of_phases(const run_measures *m)
{
    json_t *x = json_object();
    for (int p = 0; p < SPANS_PHASES; p++)
        json_object_set_new(x, spans_phase_word((spans_phase)p),
                            real_of(p == PHASE_OTHER ? m->other : m->phase[p]));
    json_object_set_new(x, "waits", real_of(m->waited));
    return x;
}

static json_t *json_of_rank(const run_measures *m, int rank)
{
    const rank_measures *x = &m->rank[rank];
    const double all = (double)(x->duration_ns + x->gap_ns), steps = (double)m->steps;
    json_t *j = json_object(), *phases = json_object();
    json_object_set_new(j, "rank", json_integer(rank));
    json_object_set_new(j, "host", json_of_text(run_measures_host(m, rank)));
    json_object_set_new(j, "stage", json_integer(m->location[rank].stage));
    json_object_set_new(j, "seconds", real_of((double)x->duration_ns * 1e-9 / steps));
    for (int p = 0; p < SPANS_PHASES; p++)
        if (p != PHASE_EVAL && p != PHASE_SAVE)
            json_object_set_new(phases, spans_phase_word((spans_phase)p),
                                real_of((double)x->phase_ns[p] / all));
    json_object_set_new(j, "phases", phases);
    json_object_set_new(j, "waited", real_of((double)x->waited_ns / all));
    json_object_set_new(j, "charged_seconds", real_of((double)x->charged_ns * 1e-9));
    json_object_set_new(j, "memory_bytes", json_integer((json_int_t)x->bytes));
    json_object_set_new(j, "memory_growth", real_of(x->growth));
    return j;
}

static json_t *json_of_ranks(const run_measures *m)
{
    json_t *all = json_array();
    for (int r = 0; m->steps && r < m->ranks; r++)
        if (m->location[r].is_recorded) json_array_append_new(all, json_of_rank(m, r));
    return all;
}

typedef struct rank_wait {
    int rank, of;
    int64_t ns;
} rank_wait;

// Keeps the longest waits, sorted, the longest first.
static void keep_wait(rank_wait *most, int *count, rank_wait one)
{
    if (*count == MOST_WAITS && one.ns <= most[MOST_WAITS - 1].ns) return;
    int i = *count < MOST_WAITS ? (*count)++ : MOST_WAITS - 1;
    for (; i > 0 && most[i - 1].ns < one.ns; i--) most[i] = most[i - 1];
    most[i] = one;
}

// Who waited for whom since the run began: the longest waits.
static json_t *json_of_waits(const run_measures *m)
{
    rank_wait most[MOST_WAITS];
    int count = 0;
    json_t *all = json_array();
    for (int r = 0; r < m->ranks; r++) {
        const spans *s = m->view->rank[r];
        for (int of = 0; s && of < s->rank_count; of++)
            if (s->waits[of] > 0) keep_wait(most, &count, (rank_wait){r, of, s->waits[of]});
    }
    for (int i = 0; i < count; i++) {
        json_t *x = json_object();
        json_object_set_new(x, "rank", json_integer(most[i].rank));
        json_object_set_new(x, "for", json_integer(most[i].of));
        json_object_set_new(x, "seconds", real_of((double)most[i].ns * 1e-9));
        json_array_append_new(all, x);
    }
    return all;
}

static json_t *json_of_stragglers(const run_measures *m)
{
    json_t *all = json_array();
    for (int i = 0; i < straggler_watch_count(m->watch); i++) {
        const straggler *s = straggler_watch_get(m->watch, i);
        if (!s->slow_steps) continue;
        json_t *x = json_object();
        const double steps_ns = m->steps_ns;
        json_object_set_new(x, "rank", s->rank < 0 ? json_null() : json_integer(s->rank));
        json_object_set_new(x, "host", json_of_text(m->host[s->host]));
        json_object_set_new(x, "cause", json_string(straggler_cause_word(s->cause)));
        json_object_set_new(x, "share", real_of(s->share));
        json_object_set_new(x, "explained", real_of(s->explained));
        json_object_set_new(x, "lost", real_of((double)s->lost_ns / steps_ns));
        json_object_set_new(x, "steps", json_integer((json_int_t)s->slow_steps));
        json_object_set_new(x, "first", json_integer((json_int_t)s->first_step));
        json_object_set_new(x, "last", json_integer((json_int_t)s->last_step));
        json_object_set_new(x, "chronic", json_boolean(s->chronic_step != 0));
        json_array_append_new(all, x);
    }
    return all;
}

static status make_json(report *r, err *e)
{
    const run_measures *m = r->measures;
    json_t *j = r->json = json_object();
    json_object_set_new(j, "verdict", json_string(r->verdict));
    json_object_set_new(j, "rank", r->rank < 0 ? json_null() : json_integer(r->rank));
    json_object_set_new(j, "host", r->host ? json_of_text(r->host) : json_null());
    json_object_set_new(j, "line", json_of_text(r->line));
    json_object_set_new(j, "evidence", json_of_lines(r));
    json_object_set_new(j, "next", json_of_text(r->next));
    json_object_set_new(j, "steps", json_of_steps(m));
    json_object_set_new(j, "phases", json_of_phases(m));
    json_object_set_new(j, "ranks", json_of_ranks(m));
    json_object_set_new(j, "waits", json_of_waits(m));
    // The last member fails where memory has run out before.
    if (json_object_set_new(j, "stragglers", json_of_stragglers(m)) != 0)
        return alloc_failed(0, "a report", e);
    return OK;
}

// ---- The report

status report_make(const run_view *v, report **out, err *e)
{
    status result = OK;
    report *r = NULL;
    verdict judged = {.rank = -1};
    TRY(alloc_zeroed(&r, 1, sizeof *r, "a report", e));
    TRY(run_measures_make(v, &r->measures, e));
    TRY(verdict_make(r->measures, &judged, e));
    r->verdict = judged.word;
    r->rank = judged.rank;
    r->host = judged.host;
    r->is_short = r->measures->steps < VERDICT_STEPS;
    TRY(split_lines(r, &judged.evidence, e));
    TRY(text_take(&judged.line, &r->line, e));
    TRY(text_take(&judged.next, &r->next, e));
    TRY(make_json(r, e));
    *out = r;
    r = NULL;
done:
    verdict_clear(&judged);
    report_close(r);
    return result;
}

void report_close(report *r)
{
    if (!r) return;
    for (int i = 0; i < r->evidences; i++) free(r->evidence[i]);
    free(r->evidence);
    free(r->line);
    free(r->next);
    json_decref(r->json);
    run_measures_close(r->measures);
    free(r);
}

status report_write(const report *r, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    text lines = {0};
    TRY(file_join(r->measures->view->folder, "report.json", &path, e));
    chars = json_dumps(r->json, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
    if (!chars) FAIL(E_MEMORY, "%s: no memory for it", path);
    text_addf(&lines, "%s\n", chars);
    TRY(text_check(&lines, e));
    TRY(file_replace(path, lines.chars, lines.bytes, e));
done:
    text_clear(&lines);
    free(chars);
    free(path);
    return result;
}
