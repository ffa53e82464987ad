// page_log.c -- the data of a page that the log gives: the curves of steps, evaluations, checkpoints. Called by page.c.
#include "monitor/page/page_data.h"

#include <math.h>

// A field of a step as it is drawn.
typedef double step_number(const run_step *s);

static double loss_of(const run_step *s)
{
    return s->loss;
}

static double norm_of(const run_step *s)
{
    return s->grad_norm;
}

static double lr_of(const run_step *s)
{
    return s->lr;
}

static double rate_of(const run_step *s)
{
    return s->tokens_per_s;
}

static double seconds_of(const run_step *s)
{
    return s->seconds;
}

// The mean, minimum or maximum of the numbers of steps from…to-1.
typedef enum log_mode { LOG_MEAN, LOG_LEAST, LOG_MOST } log_mode;

static double summary_of(const run_view *v, size_t from, size_t to, step_number *number,
                         log_mode how)
{
    double sum = 0, least = INFINITY, most = -INFINITY;
    size_t count = 0;
    for (size_t i = from; i < to; i++) {
        const double x = number(&v->step[i]);
        if (!isfinite(x)) continue;
        sum += x;
        least = fmin(least, x);
        most = fmax(most, x);
        count++;
    }
    if (!count) return NAN;
    return how == LOG_MEAN ? sum / (double)count : how == LOG_LEAST ? least : most;
}

static size_t points_of(const run_view *v)
{
    return v->steps < PAGE_POINTS ? v->steps : PAGE_POINTS;
}

static void add_curve(const run_view *v, const char *key, step_number *number, log_mode how,
                      text *t)
{
    const size_t points = points_of(v);
    text_addf(t, ",\"%s\":[", key);
    for (size_t i = 0; i < points; i++) {
        page_add_comma(t, i);
        page_add_number(
            t, summary_of(v, i * v->steps / points, (i + 1) * v->steps / points, number, how));
    }
    text_add(t, "]");
}

static void add_skipped(const run_view *v, text *t)
{
    size_t count = 0;
    text_add(t, ",\"skipped\":[");
    for (size_t i = 0; i < v->steps && count < PAGE_POINTS; i++) {
        if (!v->step[i].skipped) continue;
        page_add_comma(t, count++);
        text_addf(t, "%lld", (long long)v->step[i].step);
    }
    text_add(t, "]");
}

void page_add_log(const run_view *v, text *t)
{
    const size_t points = points_of(v);
    text_addf(t, "{\"steps_of_a_point\":%zu,\"step\":[",
              points ? (v->steps + points - 1) / points : 1);
    for (size_t i = 0; i < points; i++) {
        page_add_comma(t, i);
        text_addf(t, "%lld", (long long)v->step[(i + 1) * v->steps / points - 1].step);
    }
    text_add(t, "]");
    add_curve(v, "loss", loss_of, LOG_MEAN, t);
    if (points < v->steps) {
        add_curve(v, "loss_least", loss_of, LOG_LEAST, t);
        add_curve(v, "loss_most", loss_of, LOG_MOST, t);
    }
    add_curve(v, "grad_norm", norm_of, LOG_MEAN, t);
    add_curve(v, "lr", lr_of, LOG_MEAN, t);
    add_curve(v, "tokens_per_s", rate_of, LOG_MEAN, t);
    add_curve(v, "seconds", seconds_of, LOG_MEAN, t);
    add_skipped(v, t);
    text_add(t, "}");
}

// ---- Evaluations and checkpoints; of very many only each k-th

static size_t each_of(size_t count)
{
    return (count + PAGE_POINTS - 1) / PAGE_POINTS;
}

void page_add_evals(const run_view *v, text *t)
{
    const size_t each = each_of(v->evals);
    text_add(t, "{\"step\":[");
    for (size_t i = 0; i < v->evals; i += each) {
        page_add_comma(t, i);
        text_addf(t, "%lld", (long long)v->eval[i].step);
    }
    text_add(t, "],\"loss\":[");
    for (size_t i = 0; i < v->evals; i += each) {
        page_add_comma(t, i);
        page_add_number(t, v->eval[i].loss);
    }
    text_add(t, "]}");
}

void page_add_saves(const run_view *v, text *t)
{
    const size_t each = each_of(v->saves);
    text_add(t, "{\"step\":[");
    for (size_t i = 0; i < v->saves; i += each) {
        page_add_comma(t, i);
        text_addf(t, "%lld", (long long)v->save[i].step);
    }
    text_add(t, "],\"seconds\":[");
    for (size_t i = 0; i < v->saves; i += each) {
        page_add_comma(t, i);
        page_add_number(t, v->save[i].seconds);
    }
    text_add(t, "]}");
}
