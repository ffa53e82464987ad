// metrics_write.c -- writes the metrics of a run in Prometheus's text format (metrics.h). All samples of a metric stand
// together, so it walks metric by metric, and in each rank by rank.
#include "monitor/metrics/devices.h"
#include "monitor/metrics/metrics_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// A rank names so many of the ranks that it has waited for.
enum { MOST_WAITS = 8 };

static const double STEP_BOUNDS[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                     1,     2,     5,     10,   20,   50,   100, 200, 500};
enum { BOUNDS = sizeof STEP_BOUNDS / sizeof *STEP_BOUNDS };

// ---- Samples

static void add_value(text *out, double value)
{
    if (isnan(value))
        text_add(out, "NaN");
    else if (isinf(value))
        text_add(out, value > 0 ? "+Inf" : "-Inf");
    else
        text_add_number(out, value);
}

void metrics_add_label(text *labels, const char *key, const char *value)
{
    text_addf(labels, ",%s=\"", key);
    for (const char *at = value; *at; at++)
        if (*at == '\n')
            text_add(labels, "\\n");
        else if (*at == '"' || *at == '\\')
            text_addf(labels, "\\%c", *at);
        else
            text_add_bytes(labels, at, 1);
    text_add(labels, "\"");
}

void metrics_add(metrics_writer *w, metric of, const char *suffix, const char *labels, double value)
{
    static const char *const types[] = {"gauge", "counter", "histogram"};
    const metric_row *row = metric_row_of(of);
    text run = {0};
    if (w->metric != (int)of)
        text_addf(w->out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                  types[row->type]);
    w->metric = (int)of;
    metrics_add_label(&run, "run", w->m->o.folder);
    if (run.failed) text_fail(w->out);
    text_addf(w->out, "%s%s{%s%s} ", row->name, suffix, run.bytes ? run.chars + 1 : "",
              labels ? labels : "");
    add_value(w->out, value);
    text_add(w->out, "\n");
    text_clear(&run);
}

void metrics_label_rank(const metrics *m, int rank, text *labels)
{
    text_addf(labels, ",rank=\"%d\"", rank);
    metrics_add_label(labels, "host", m->view->rank[rank]->head->host);
}

// ---- The whole run

static void write_info(metrics_writer *w)
{
    static const char *const keys[] = {"version", "model", "policy", "precision", "device"};
    const run_view *v = w->m->view;
    text labels = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = run_view_text(v, keys[i]);
        metrics_add_label(&labels, keys[i], value ? value : "unknown");
    }
    if (labels.failed) text_fail(w->out);
    metrics_add(w, METRIC_RUN_INFO, "", labels.chars, 1);
    text_clear(&labels);
}

static void write_running(metrics_writer *w)
{
    const run_view *v = w->m->view;
    bool runs = false;
    for (int r = 0; r < v->ranks; r++)
        runs = runs || (metrics_has_rank(w->m, r) && run_view_runs(v, r));
    metrics_add(w, METRIC_RUNNING, "", NULL, runs && !v->end);
    metrics_add(w, METRIC_RANKS, "", NULL, v->ranks);
}

static void write_histogram(metrics_writer *w)
{
    const run_view *v = w->m->view;
    double sum = 0, below[BOUNDS] = {0}, count = 0;
    for (size_t i = 0; i < v->steps; i++) {
        const double seconds = v->step[i].seconds;
        if (isnan(seconds)) continue;
        sum += seconds;
        count++;
        for (int b = 0; b < BOUNDS; b++) below[b] += seconds <= STEP_BOUNDS[b];
    }
    for (int b = 0; b <= BOUNDS; b++) {
        char bound[32];
        if (b < BOUNDS) (void)snprintf(bound, sizeof bound, ",le=\"%g\"", STEP_BOUNDS[b]);
        metrics_add(w, METRIC_STEP_SECONDS, "_bucket", b < BOUNDS ? bound : ",le=\"+Inf\"",
                    b < BOUNDS ? below[b] : count);
    }
    metrics_add(w, METRIC_STEP_SECONDS, "_sum", NULL, sum);
    metrics_add(w, METRIC_STEP_SECONDS, "_count", NULL, count);
}

static void write_group_norms(metrics_writer *w)
{
    const char *name;
    json_t *norm;
    json_object_foreach(w->m->view->group_norms, name, norm)
    {
        text labels = {0};
        metrics_add_label(&labels, "group", name);
        if (labels.failed) text_fail(w->out);
        metrics_add(w, METRIC_GROUP_GRAD_NORM, "", labels.chars,
                    json_is_number(norm) ? json_number_value(norm) : NAN);
        text_clear(&labels);
    }
}

static void write_steps(metrics_writer *w)
{
    const run_view *v = w->m->view;
    const run_step *last = v->steps ? &v->step[v->steps - 1] : NULL;
    double tokens = 0, skipped = 0;
    for (size_t i = 0; i < v->steps; i++) {
        tokens += isnan(v->step[i].tokens) ? 0 : v->step[i].tokens;
        skipped += v->step[i].skipped;
    }
    metrics_add(w, METRIC_STEP, "", NULL, last ? (double)last->step : 0);
    const double planned = run_view_number(v, "steps");
    if (!isnan(planned)) metrics_add(w, METRIC_STEPS_PLANNED, "", NULL, planned);
    if (!last) return;
    metrics_add(w, METRIC_LOSS, "", NULL, last->loss);
    metrics_add(w, METRIC_GRAD_NORM, "", NULL, last->grad_norm);
    write_group_norms(w);
    metrics_add(w, METRIC_LR, "", NULL, last->lr);
    metrics_add(w, METRIC_TOKENS, "", NULL, tokens);
    metrics_add(w, METRIC_RATE, "", NULL, last->tokens_per_s);
    if (!isnan(last->matmul_share)) metrics_add(w, METRIC_MFU, "", NULL, last->matmul_share);
    write_histogram(w);
    metrics_add(w, METRIC_SKIPPED, "", NULL, skipped);
}

static void write_evals_and_saves(metrics_writer *w)
{
    const run_view *v = w->m->view;
    double seconds = 0;
    for (size_t i = 0; i < v->saves; i++)
        seconds += isnan(v->save[i].seconds) ? 0 : v->save[i].seconds;
    metrics_add(w, METRIC_EVALS, "", NULL, (double)v->evals);
    if (v->evals) metrics_add(w, METRIC_EVAL_LOSS, "", NULL, v->eval[v->evals - 1].loss);
    metrics_add(w, METRIC_SAVES, "", NULL, (double)v->saves);
    metrics_add(w, METRIC_SAVE_SECONDS, "", NULL, seconds);
    if (v->saves) metrics_add(w, METRIC_SAVE_BYTES, "", NULL, (double)v->save[v->saves - 1].bytes);
}

// ---- Ranks

static void add_with(metrics_writer *w, metric of, const char *rank, const char *key,
                     const char *value, double number)
{
    text labels = {0};
    text_add(&labels, rank);
    metrics_add_label(&labels, key, value);
    if (labels.failed) text_fail(w->out);
    metrics_add(w, of, "", labels.chars, number);
    text_clear(&labels);
}

// Evaluations and checkpoints are outside of steps: their rows have their time.
static void write_phases(metrics_writer *w, int rank, const char *labels)
{
    const metrics_rank *r = &w->m->rank[rank];
    const spans *s = w->m->view->rank[rank];
    for (int p = 0; p < SPANS_PHASES; p++) {
        double ns = (double)r->phase_ns[p];
        for (uint32_t i = 0; i < s->row_count; i++)
            if ((s->rows[i].kind == SPANS_EVAL && p == PHASE_EVAL) ||
                (s->rows[i].kind == SPANS_SAVE && p == PHASE_SAVE))
                ns += (double)s->rows[i].sum_ns;
        add_with(w, METRIC_PHASE_SECONDS, labels, "phase", spans_phase_word((spans_phase)p),
                 ns * 1e-9);
    }
}

static void write_waited(metrics_writer *w, int rank, const char *labels)
{
    const spans *s = w->m->view->rank[rank];
    double ns = 0;
    for (int r = 0; r < s->rank_count; r++) ns += (double)s->waits[r];
    metrics_add(w, METRIC_WAITED, "", labels, ns * 1e-9);
}

// The largest first; each is below the one before, or equal to it and of a higher rank.
static void write_waited_for(metrics_writer *w, int rank, const char *labels)
{
    const spans *s = w->m->view->rank[rank];
    int before = -1;
    for (int n = 0; n < MOST_WAITS; n++) {
        int most = -1;
        char number[16];
        for (int r = 0; r < s->rank_count; r++) {
            const bool is_next = before < 0 || s->waits[r] < s->waits[before] ||
                                 (s->waits[r] == s->waits[before] && r > before);
            if (s->waits[r] > 0 && is_next && (most < 0 || s->waits[r] > s->waits[most])) most = r;
        }
        if (most < 0) return;
        (void)snprintf(number, sizeof number, "%d", most);
        add_with(w, METRIC_WAITED_FOR, labels, "for", number, (double)s->waits[most] * 1e-9);
        before = most;
    }
}

static void write_plan(metrics_writer *w, int rank, const char *labels)
{
    const spans_head *h = w->m->view->rank[rank]->head;
    for (int i = 0; i < SPANS_MEMORIES; i++)
        add_with(w, METRIC_PLAN_BYTES, labels, "category", spans_memory_word((spans_memory)i),
                 (double)h->plan_bytes[i]);
}

static void write_running_rank(metrics_writer *w, int rank, const char *labels)
{
    metrics_add(w, METRIC_RANK_RUNNING, "", labels, run_view_runs(w->m->view, rank));
}

static void write_memory(metrics_writer *w, int rank, const char *labels)
{
    const spans_head *h = w->m->view->rank[rank]->head;
    metrics_add(w, METRIC_MEMORY, "", labels, (double)atomic_load(&h->bytes_now));
}

static void write_memory_peak(metrics_writer *w, int rank, const char *labels)
{
    const spans_head *h = w->m->view->rank[rank]->head;
    metrics_add(w, METRIC_MEMORY_PEAK, "", labels, (double)atomic_load(&h->bytes_peak));
}

static void write_flops(metrics_writer *w, int rank, const char *labels)
{
    metrics_add(w, METRIC_STEP_FLOPS, "", labels, w->m->view->rank[rank]->head->step_flops);
}

static void write_ranks(metrics_writer *w)
{
    static void (*const parts[])(metrics_writer * w, int rank, const char *labels) = {
        write_running_rank, write_phases,      write_waited, write_waited_for,
        write_memory,       write_memory_peak, write_plan,   write_flops};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (int r = 0; r < w->m->ranks; r++) {
            text labels = {0};
            if (!w->m->view->rank[r] || !metrics_has_rank(w->m, r)) continue;
            metrics_label_rank(w->m, r, &labels);
            if (labels.failed) text_fail(w->out);
            parts[p](w, r, labels.chars ? labels.chars : "");
            text_clear(&labels);
        }
}

static void write_devices(metrics_writer *w)
{
    const metrics_devices *d = w->m->o.devices;
    for (int m = METRIC_GPU_SM_CLOCK; m <= METRIC_GPU_USED; m++)
        for (int gpu = 0; gpu < metrics_devices_count(d); gpu++) {
            text labels = {0};
            const double value = metrics_devices_value(d, gpu, (metric)m);
            if (isnan(value)) continue;
            metrics_devices_label(d, gpu, &labels);
            if (labels.failed) text_fail(w->out);
            metrics_add(w, (metric)m, "", labels.chars, value);
            text_clear(&labels);
        }
}

void metrics_write(const metrics *m, text *out)
{
    metrics_writer w = {.m = m, .out = out, .metric = -1};
    write_devices(&w);
    if (!m->view) return;
    if (m->o.of_run) {
        write_info(&w);
        write_running(&w);
        write_steps(&w);
        write_evals_and_saves(&w);
    }
    write_ranks(&w);
    metrics_write_calls(&w);
}
