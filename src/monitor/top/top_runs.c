// top_runs.c -- a line for each run: where it is, its loss and its rate. Called by top.c.
#include "monitor/top/top_parts.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

enum { MEAN_OF = 16, NAME_COLUMNS = 18 };

double top_seconds_of(const run_view *v)
{
    double sum = 0;
    int count = 0;
    for (size_t i = v->steps > MEAN_OF ? v->steps - MEAN_OF : 0; i < v->steps; i++) {
        if (!isfinite(v->step[i].seconds)) continue;
        sum += v->step[i].seconds;
        count++;
    }
    return count ? sum / count : NAN;
}

const char *top_now_of(const run_view *v, int rank)
{
    const spans *s = v->rank[rank];
    if (!s) return "no record";
    const int32_t row = atomic_load(&s->head->running);
    if (atomic_load(&s->head->ended)) return "ended";
    if (!run_view_runs(v, rank)) return "stopped";
    return row >= 0 && row < (int32_t)s->row_count ? s->rows[row].name : "-";
}

// How long the run still takes: "1m23s left".
static void add_left(const run_view *v, double steps, text *out)
{
    const double seconds = (steps - (double)v->step[v->steps - 1].step) * top_seconds_of(v);
    if (!isfinite(seconds) || seconds <= 0 || seconds > 1e9) return;
    const long long s = (long long)(seconds + 0.5);
    if (s < 60)
        text_addf(out, "  %llds left", s);
    else if (s < 3600)
        text_addf(out, "  %lldm%02llds left", s / 60, s % 60);
    else
        text_addf(out, "  %lldh%02lldm left", s / 3600, s / 60 % 60);
}

static void add_step(const run_view *v, bool runs, text *out)
{
    const double steps = run_view_number(v, "steps");
    char rate[24];
    if (!v->steps) {
        text_add(out, "no step yet");
        return;
    }
    const run_step *last = &v->step[v->steps - 1];
    text_addf(out, "step %lld", (long long)last->step);
    if (steps > 0) text_addf(out, "/%.0f", steps);
    if (isfinite(last->loss))
        text_addf(out, "  loss %.4f", last->loss);
    else
        text_add(out, "  loss nan");
    top_format_count(rate, last->tokens_per_s);
    text_addf(out, "  %s tok/s", rate);
    if (isfinite(top_seconds_of(v))) text_addf(out, "  %.3g s/step", top_seconds_of(v));
    if (runs && steps > 0) add_left(v, steps, out);
}

void top_add_runs(const top_run *runs, int count, const top_settings *s, text *out)
{
    for (int i = 0; i < count; i++) {
        const char *state = run_view_state(runs[i].v);
        const bool is_running = strcmp(state, "running") == 0;
        top_tone_add(out, i < TOP_MARKS ? TOP_MARK + i : TOP_SOFT);
        text_addf(out, "%c ", i < TOP_MARKS ? 'a' + i : ' ');
        top_tone_add(out, i == s->run ? TOP_CHOSEN : TOP_PLAIN);
        top_add_column(out, file_shown(runs[i].v->folder), NAME_COLUMNS, true);
        top_tone_add(out, is_running ? TOP_GOOD : strcmp(state, "ended") == 0 ? TOP_SOFT : TOP_BAD);
        text_add(out, "  ");
        top_add_column(out, state, 9, false);
        top_tone_add(out, TOP_PLAIN);
        add_step(runs[i].v, is_running, out);
        text_add(out, "\n");
    }
}
