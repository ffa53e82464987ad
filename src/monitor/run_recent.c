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

enum { LEAST_COMPARED = 8 };                        // steps
static const double SLOWER = 1.1, SLOW_SHARE = 0.8; // than the median; of the compared steps

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *list, size_t count)
{
    qsort(list, count, sizeof *list, by_value);
    return list[(count - 1) / 2];
}

typedef struct run_stage {
    const run_view *v;
    run_rank *rank;
    int *member; // [members] ranks of the stage
    int members;
    double *own, *sorted; // [members] of one step, without waits
} run_stage;

static void compare_step(run_stage *x, uint64_t step)
{
    int count = 0;
    for (int i = 0; i < x->members; i++) {
        spans_step s;
        x->own[i] = NAN;
        if (!run_view_step_of(x->v, x->member[i], step, &s)) continue;
        x->own[i] = (double)(s.duration_ns - s.waited_ns);
        x->sorted[count++] = x->own[i];
    }
    if (count < 2) return;
    const double median = median_of(x->sorted, (size_t)count);
    for (int i = 0; i < x->members; i++) {
        run_rank *rank = &x->rank[x->member[i]];
        if (isnan(x->own[i])) continue;
        rank->compared++;
        rank->slow += x->own[i] > SLOWER * median;
    }
}

static void find_members(run_stage *x, int stage)
{
    x->members = 0;
    for (int r = 0; r < x->v->ranks; r++)
        if (x->rank[r].recorded && x->v->rank[r]->head->stage == stage) x->member[x->members++] = r;
}

static status compare(const run_view *v, run_rank *rank, uint64_t last, err *e)
{
    status result = OK;
    run_stage x = {.v = v, .rank = rank};
    bool *seen = NULL;
    const size_t n = (size_t)v->ranks;
    TRY(alloc_array(&x.member, n, sizeof *x.member, "the ranks of a run", e));
    TRY(alloc_array(&x.own, n, sizeof *x.own, "the ranks of a run", e));
    TRY(alloc_array(&x.sorted, n, sizeof *x.sorted, "the ranks of a run", e));
    TRY(alloc_zeroed(&seen, n, sizeof *seen, "the ranks of a run", e));
    for (int r = 0; r < v->ranks; r++) {
        if (!rank[r].recorded || seen[r]) continue;
        find_members(&x, v->rank[r]->head->stage);
        for (int i = 0; i < x.members; i++) seen[x.member[i]] = true;
        for (uint64_t k = 0; k < RUN_RECENT_STEPS && k < last; k++) compare_step(&x, last - k);
    }
done:
    free(seen);
    free(x.sorted);
    free(x.own);
    free(x.member);
    return result;
}

bool run_recent_is_straggler(const run_rank *rank)
{
    return rank->compared >= LEAST_COMPARED && rank->slow >= SLOW_SHARE * rank->compared &&
           rank->caused_ns > 0;
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
    TRY(compare(v, rank, *last, e));
done:
    return result;
}
