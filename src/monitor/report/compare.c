// compare.c -- what differs between two runs; see report_compare of report.h.
#include "base/alloc.h"
#include "base/json.h"
#include "monitor/report/report.h"
#include "monitor/report/settings.h"
#include "monitor/report/statistics.h"
#include "monitor/report/verdict.h"

#include <math.h>
#include <stdlib.h>

static const double SAME = 0.02; // speeds within this share are equal

// Figures of one run.
typedef struct compare_run {
    double tokens_per_s; // median of the log; NAN: none
    double step_s;       // median of the records, else of the log
    double phase_s[SPANS_PHASES];
    double bytes; // the most of a rank
    const char *folder;
} compare_run;

static status median_of_log(const run_view *v, bool is_rate, double *out, err *e)
{
    status result = OK;
    double *value = NULL;
    size_t count = 0;
    TRY(alloc_array(&value, v->steps, sizeof *value, "the steps of a log", e));
    for (size_t i = v->steps > 1; i < v->steps; i++) {
        const double x = is_rate ? v->step[i].tokens_per_s : v->step[i].seconds;
        if (isfinite(x)) value[count++] = x;
    }
    *out = count ? statistics_median(value, count) : NAN;
done:
    free(value);
    return result;
}

static status read_run(const report *r, compare_run *x, err *e)
{
    status result = OK;
    const run_measures *m = r->measures;
    *x = (compare_run){.folder = m->view->folder, .step_s = m->step_ns * 1e-9};
    TRY(median_of_log(m->view, true, &x->tokens_per_s, e));
    if (!m->steps) TRY(median_of_log(m->view, false, &x->step_s, e));
    for (int i = 0; m->steps && i < m->ranks; i++) {
        const rank_measures *rank = &m->rank[i];
        if (!m->location[i].is_recorded) continue;
        x->bytes = fmax(x->bytes, rank->bytes);
        if (x->phase_s[PHASE_OTHER] > 0) continue;
        const double wall_s = (double)(rank->duration_ns + rank->gap_ns) * 1e-9 / (double)m->steps;
        for (int p = 0; p < SPANS_PHASES; p++)
            x->phase_s[p] = wall_s * (p == PHASE_OTHER ? m->other : m->phase[p]);
    }
done:
    return result;
}

// The loss of the last step that both logs have; NAN: none.
static int64_t last_losses(const run_view *a, const run_view *b, double *loss_a, double *loss_b)
{
    size_t i = a->steps, j = b->steps;
    *loss_a = *loss_b = NAN;
    while (i && j && a->step[i - 1].step != b->step[j - 1].step)
        a->step[i - 1].step > b->step[j - 1].step ? i-- : j--;
    if (!i || !j) return 0;
    *loss_a = a->step[i - 1].loss;
    *loss_b = b->step[j - 1].loss;
    return a->step[i - 1].step;
}

static void add_pair(json_t *j, const char *key, double a, double b)
{
    json_t *pair = json_array();
    json_array_append_new(pair, isfinite(a) ? json_real(a) : json_null());
    json_array_append_new(pair, isfinite(b) ? json_real(b) : json_null());
    json_object_set_new(j, key, pair);
}

// The phase whose time differs most.
static spans_phase largest_phase(const compare_run *a, const compare_run *b)
{
    spans_phase most = PHASE_INPUT;
    for (int p = 0; p < SPANS_PHASES; p++)
        if (fabs(b->phase_s[p] - a->phase_s[p]) > fabs(b->phase_s[most] - a->phase_s[most]))
            most = (spans_phase)p;
    return most;
}

static void add_speed(const compare_run *a, const compare_run *b, double speedup, text *out)
{
    const spans_phase p = largest_phase(a, b);
    const double more_s = b->phase_s[p] - a->phase_s[p];
    char time[24];
    if (!isfinite(speedup)) {
        text_add(out, "no step of both can be compared");
        return;
    }
    if (fabs(speedup - 1) < SAME)
        text_addf(out, "%s is as fast as %s", b->folder, a->folder);
    else
        text_addf(out, "%s is %.2f times as fast as %s", b->folder, speedup, a->folder);
    verdict_time(time, fabs(more_s) * 1e9);
    if (fabs(more_s) > SAME * a->step_s)
        text_addf(out, ": in a step, %s takes %s %s", spans_phase_word(p), time,
                  more_s > 0 ? "more" : "less");
}

static void add_times(const compare_run *a, const compare_run *b, text *out)
{
    char x[24], y[24];
    verdict_time(x, a->step_s * 1e9);
    verdict_time(y, b->step_s * 1e9);
    text_addf(out, "%-24s %14s %14s\n", "step", x, y);
    if (isfinite(a->tokens_per_s) && isfinite(b->tokens_per_s))
        text_addf(out, "%-24s %14.0f %14.0f\n", "tokens/s", a->tokens_per_s, b->tokens_per_s);
    for (int p = 0; p < SPANS_PHASES; p++) {
        if (fmax(a->phase_s[p], b->phase_s[p]) < 0.005 * a->step_s) continue;
        verdict_time(x, a->phase_s[p] * 1e9);
        verdict_time(y, b->phase_s[p] * 1e9);
        text_addf(out, "%-24s %14s %14s\n", spans_phase_word((spans_phase)p), x, y);
    }
    text_bytes(x, a->bytes);
    text_bytes(y, b->bytes);
    text_addf(out, "%-24s %14s %14s\n", "memory of a rank", x, y);
}

static void add_settings(const json_t *settings, text *out)
{
    const char *key;
    json_t *pair;
    json_object_foreach((json_t *)settings, key, pair)
    {
        const char *a = json_string_value(json_array_get(pair, 0));
        const char *b = json_string_value(json_array_get(pair, 1));
        text_addf(out, "%-24s %14s %14s\n", key, a ? a : "-", b ? b : "-");
    }
}

static json_t *json_of(const compare_run *a, const compare_run *b, double speedup)
{
    json_t *j = json_object(), *phases = json_object();
    json_t *folders = json_array();
    json_array_append_new(folders, json_of_text(a->folder));
    json_array_append_new(folders, json_of_text(b->folder));
    json_object_set_new(j, "runs", folders);
    json_object_set_new(j, "speedup", isfinite(speedup) ? json_real(speedup) : json_null());
    add_pair(j, "step_seconds", a->step_s, b->step_s);
    add_pair(j, "tokens_per_s", a->tokens_per_s, b->tokens_per_s);
    for (int p = 0; p < SPANS_PHASES; p++)
        add_pair(phases, spans_phase_word((spans_phase)p), a->phase_s[p], b->phase_s[p]);
    json_object_set_new(j, "phase_seconds", phases);
    add_pair(j, "memory_bytes", a->bytes, b->bytes);
    return j;
}

status report_compare(const report *ra, const report *rb, json_t **json, text *out, err *e)
{
    status result = OK;
    compare_run a, b;
    json_t *settings = NULL;
    double loss_a, loss_b;
    text line = {0};
    TRY(read_run(ra, &a, e));
    TRY(read_run(rb, &b, e));
    TRY(report_settings_compare(a.folder, b.folder, &settings, e));
    const bool has_rates = isfinite(a.tokens_per_s) && isfinite(b.tokens_per_s);
    const double speedup = has_rates      ? b.tokens_per_s / a.tokens_per_s
                           : a.step_s > 0 ? a.step_s / b.step_s
                                          : NAN;
    const int64_t step = last_losses(ra->measures->view, rb->measures->view, &loss_a, &loss_b);
    add_speed(&a, &b, speedup, &line);
    TRY(text_check(&line, e));
    text_addf(out, "%s\n%-24s %14s %14s\n", line.chars, "", a.folder, b.folder);
    text_addf(out, "%-24s %14s %14s\n", "verdict", ra->verdict, rb->verdict);
    add_times(&a, &b, out);
    if (step)
        text_addf(out, "loss of step %-11lld %14.4f %14.4f\n", (long long)step, loss_a, loss_b);
    add_settings(settings, out);
    *json = json_of(&a, &b, speedup);
    json_object_set_new(*json, "line", json_of_text(line.chars));
    json_object_set_new(*json, "loss_step", json_integer(step));
    add_pair(*json, "loss", loss_a, loss_b);
    json_object_set(*json, "settings", settings);
    TRY(text_check(out, e));
done:
    json_decref(settings);
    text_clear(&line);
    return result;
}
