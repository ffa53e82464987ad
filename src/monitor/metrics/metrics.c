// metrics.c -- reads a run for its metrics (metrics.h), and adds up what its records do not. metrics_write.c writes them.
#include "monitor/metrics/metrics_private.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

const metric_row *metric_row_of(metric m)
{
#define METRIC_ROW(NAME, name, type, help) [METRIC_##NAME] = {name, METRIC_TYPE_##type, help},
    static const metric_row rows[] = {METRIC_LIST(METRIC_ROW)};
#undef METRIC_ROW
    return &rows[m];
}

status metrics_open(const metrics_options *o, metrics **out, err *e)
{
    status result = OK;
    metrics *m = NULL;
    TRY(alloc_zeroed(&m, 1, sizeof *m, "the metrics of a run", e));
    m->o = *o;
    *out = m;
done:
    return result;
}

bool metrics_has_rank(const metrics *m, int rank)
{
    const spans *s = m->view && rank < m->view->ranks ? m->view->rank[rank] : NULL;
    if (!m->o.boot) return true;
    return s && strcmp(s->head->boot, m->o.boot) == 0;
}

static status make_room(metrics *m, int ranks, err *e)
{
    status result = OK;
    metrics_rank *more = NULL;
    if (ranks <= m->ranks) return OK;
    TRY(alloc_zeroed(&more, (size_t)ranks, sizeof *more, "the metrics of a run", e));
    if (m->ranks) memcpy(more, m->rank, (size_t)m->ranks * sizeof *more);
    free(m->rank);
    m->rank = more;
    m->ranks = ranks;
done:
    return result;
}

// The sums of a rank whose process has a new record begin anew, as counters do when a process restarts.
static status begin_record(metrics_rank *r, const spans *s, err *e)
{
    status result = OK;
    metrics_row *rows = NULL;
    if (r->row && r->pid == s->head->pid && r->made_ns == s->head->clock.realtime_ns &&
        r->rows == s->row_count)
        return OK;
    TRY(alloc_zeroed(&rows, s->row_count, sizeof *rows, "the metrics of a run", e));
    free(r->row);
    *r = (metrics_rank){.pid = s->head->pid,
                        .made_ns = s->head->clock.realtime_ns,
                        .row = rows,
                        .rows = s->row_count,
                        .window_ns = INT64_MIN};
done:
    return result;
}

// Adds the steps that have come since. Those that the record keeps no longer are left out.
static void add_steps(metrics_rank *r, const spans *s)
{
    const uint64_t steps = atomic_load(&s->head->steps);
    if (steps > r->seen + s->step_count) r->seen = steps - s->step_count;
    for (; r->seen < steps; r->seen++) {
        spans_step x;
        if (!spans_read_step(s, r->seen, &x)) continue;
        for (int p = 0; p < SPANS_PHASES; p++) r->phase_ns[p] += x.phase_ns[p];
    }
}

static status refresh_rank(metrics *m, int rank, int64_t now_ns, err *e)
{
    status result = OK;
    const spans *s = m->view->rank[rank];
    metrics_rank *r = &m->rank[rank];
    if (!s || !metrics_has_rank(m, rank)) return OK;
    TRY(begin_record(r, s, e));
    add_steps(r, s);
    metrics_turn_window(r, s, now_ns);
done:
    return result;
}

// A folder that has no run yet, or whose files are just being made, is looked at again.
static status refresh_view(metrics *m, err *e)
{
    err why = {.code = OK};
    status got;
    if (!m->view)
        got = run_view_open(m->o.folder, &m->view, &why);
    else
        got = run_view_refresh(m->view, &why);
    if (got == E_USAGE || got == E_IO) return OK;
    if (got != OK && e) *e = why;
    return got;
}

status metrics_refresh(metrics *m, int64_t now_ns, err *e)
{
    status result = OK;
    TRY(refresh_view(m, e));
    if (!m->view) goto done;
    TRY(make_room(m, m->view->ranks, e));
    for (int r = 0; r < m->view->ranks; r++) TRY(refresh_rank(m, r, now_ns, e));
done:
    return result;
}

void metrics_close(metrics *m)
{
    if (!m) return;
    for (int r = 0; r < m->ranks; r++) free(m->rank[r].row);
    free(m->rank);
    run_view_close(m->view);
    free(m);
}
