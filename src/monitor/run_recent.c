// run_recent.c -- reads the last steps of all ranks (run_recent.h).
#include "monitor/run_recent.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SPANS = 2000000 }; // of all ranks that are read for the waits

static void add_step(run_rank *rank, const spans_step *s)
{
    rank->steps++;
    for (int i = 0; i < SPANS_PHASES; i++) rank->phase_ns[i] += (double)s->phase_ns[i];
    rank->step_ns += (double)s->duration_ns;
    rank->waited_ns += (double)s->waited_ns;
}

static void read_steps(const spans *s, run_rank *rank, uint64_t *last)
{
    spans_step step = {0};
    const uint64_t end = atomic_load(&s->head->steps);
    for (uint64_t n = end > RUN_RECENT_STEPS ? end - RUN_RECENT_STEPS : 0; n < end; n++)
        if (spans_read_step(s, n, &step)) add_step(rank, &step);
    if (!rank->steps) return;
    rank->recorded = true;
    for (int i = 0; i < SPANS_PHASES; i++) rank->phase_ns[i] /= rank->steps;
    rank->step_ns /= rank->steps;
    rank->waited_ns /= rank->steps;
    if (!*last || step.step < *last) *last = step.step;
}

// Charges the waits of the rank's last steps, as many as `most` spans hold, to the ranks that came last.
static status charge_waits(const run_view *v, const spans *s, size_t most, run_rank *rank, err *e)
{
    status result = OK;
    span *list = NULL;
    spans_step step = {0};
    const uint64_t end = atomic_load(&s->head->steps), written = atomic_load(&s->head->spans);
    int steps = 0;
    for (uint64_t n = end; n > 0 && end - n < RUN_RECENT_STEPS; n--, steps++) {
        spans_step x;
        if (!spans_read_step(s, n - 1, &x) || (steps && x.first_span + most < written)) break;
        step = x;
    }
    if (!steps) return OK;
    TRY(alloc_array(&list, most, sizeof *list, "the spans of a run", e));
    uint64_t from = step.first_span;
    const size_t count = spans_read(s, &from, list, most);
    for (size_t i = 0; i < count; i++)
        if (list[i].last >= 0 && list[i].last < v->ranks && list[i].step >= (uint32_t)step.step)
            rank[list[i].last].caused_ns += (double)list[i].waited_ns / steps;
done:
    free(list);
    return result;
}

// ---- Stragglers

static double own_of(const run_rank *rank)
{
    return rank->step_ns - rank->waited_ns;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_of_stage(const run_view *v, const run_rank *rank, int r, int stage)
{
    return rank[r].recorded && v->rank[r]->head->stage == stage;
}

static void compare_stage(const run_view *v, run_rank *rank, int stage, double *own)
{
    size_t count = 0;
    for (int r = 0; r < v->ranks; r++)
        if (is_of_stage(v, rank, r, stage)) own[count++] = own_of(&rank[r]);
    qsort(own, count, sizeof *own, by_value);
    const double median = own[(count - 1) / 2];
    for (int r = 0; r < v->ranks; r++)
        if (is_of_stage(v, rank, r, stage))
            rank[r].slower = median > 0 ? own_of(&rank[r]) / median - 1 : 0;
}

static status compare(const run_view *v, run_rank *rank, err *e)
{
    status result = OK;
    double *own = NULL;
    TRY(alloc_array(&own, (size_t)v->ranks, sizeof *own, "the ranks of a run", e));
    for (int r = 0; r < v->ranks; r++) rank[r].slower = NAN;
    for (int r = 0; r < v->ranks; r++)
        if (rank[r].recorded && isnan(rank[r].slower))
            compare_stage(v, rank, v->rank[r]->head->stage, own);
done:
    free(own);
    return result;
}

bool run_recent_is_straggler(const run_rank *rank)
{
    return rank->recorded && rank->slower > 0.1 && rank->caused_ns > 0.02 * rank->step_ns;
}

status run_recent_read(const run_view *v, run_rank *rank, uint64_t *last, err *e)
{
    status result = OK;
    const size_t share = MOST_SPANS / (size_t)(v->recorded ? v->recorded : 1) + 1;
    *last = 0;
    memset(rank, 0, (size_t)v->ranks * sizeof *rank);
    for (int r = 0; r < v->ranks; r++) {
        const spans *s = v->rank[r];
        if (!s) continue;
        read_steps(s, &rank[r], last);
        TRY(charge_waits(v, s, share < s->ring_count ? share : s->ring_count, rank, e));
    }
    TRY(compare(v, rank, e));
done:
    return result;
}
