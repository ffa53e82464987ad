// measures.c -- see measures.h.
#include "monitor/report/measures.h"

#include "base/alloc.h"
#include "monitor/report/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_STEPS = 1 << 19, // of all ranks together; of a large run the last ones count
    LEAST_STEPS = 64,
    SAMPLES = 64,        // of a rank's memory
    GROWTH_STEPS = 100,  // that a growth is seen in
    GROWTH_SKIPPED = 20, // first steps, in which memory still fills
    QUARTERS = 4,
};
static const double LEAST_GROWN = 1 << 20; // bytes

// ---- Where ranks are

// The number of a host; one that is not there yet is added.
static int number_of(const char **host, int *hosts, const char *name)
{
    // Neighbouring ranks are mostly on one host.
    for (int i = *hosts - 1; i >= 0; i--)
        if (strcmp(host[i], name) == 0) return i;
    host[*hosts] = name;
    return (*hosts)++;
}

static int stage_of(const run_view *v, const spans_head *h)
{
    return h->stage >= 0 && h->stage < v->ranks ? h->stage : 0;
}

status run_measures_locate(const run_view *v, straggler_location **location, const char ***host,
                           int *hosts, err *e)
{
    status result = OK;
    straggler_location *l = NULL;
    const char **names = NULL;
    *hosts = 0;
    TRY(alloc_zeroed(&l, (size_t)v->ranks, sizeof *l, "the ranks of a run", e));
    TRY(alloc_zeroed(&names, (size_t)v->ranks, sizeof *names, "the hosts of a run", e));
    for (int r = 0; r < v->ranks; r++) {
        if (!v->rank[r]) continue;
        const spans_head *h = v->rank[r]->head;
        l[r] = (straggler_location){.stage = stage_of(v, h),
                                    .host = number_of(names, hosts, h->host),
                                    .is_recorded = true,
                                    .has_device = strncmp(h->device, "NVIDIA", 6) == 0};
    }
    if (!*hosts) *hosts = 1;
    *location = l;
    *host = names;
    l = NULL;
    names = NULL;
done:
    free(l);
    free(names);
    return result;
}

// ---- Steps

static void add_step(rank_measures *x, const spans_step *s, bool is_first)
{
    for (int p = 0; p < SPANS_PHASES; p++) x->phase_ns[p] += s->phase_ns[p];
    x->duration_ns += s->duration_ns;
    x->waited_ns += s->waited_ns;
    x->comm_ns += s->comm_ns;
    if (!is_first) x->gap_ns += s->gap_ns;
}

// The steps that are measured: those that all records have, without the run's first one.
static void choose_steps(run_measures *m)
{
    const run_view *v = m->view;
    if (!run_view_common_steps(v, &m->first, &m->last)) return;
    uint64_t most = MOST_STEPS / (uint64_t)m->recorded;
    if (most < LEAST_STEPS) most = LEAST_STEPS;
    if (m->first <= 1) m->first = 2;
    if (m->last + 1 > m->first + most) m->first = m->last + 1 - most;
    m->steps = m->last >= m->first ? m->last + 1 - m->first : 0;
}

static bool read_step(const run_measures *m, uint64_t number, spans_step *step)
{
    for (int r = 0; r < m->ranks; r++)
        if (m->view->rank[r] && !run_view_step_of(m->view, r, number, &step[r])) return false;
    return true;
}

static status add_steps(run_measures *m, double *middle, err *e)
{
    status result = OK;
    spans_step *step = NULL;
    double *value = NULL;
    uint64_t read = 0;
    TRY(alloc_zeroed(&step, (size_t)m->ranks, sizeof *step, "the steps of a run", e));
    TRY(alloc_zeroed(&value, (size_t)m->ranks, sizeof *value, "the steps of a run", e));
    // The first step of a run is one that the watch does not judge.
    const uint64_t begin = m->first == 2 ? 1 : m->first;
    for (uint64_t n = begin; m->steps && n <= m->last; n++) {
        size_t count = 0;
        if (!read_step(m, n, step)) continue;
        straggler_watch_add(m->watch, step);
        if (n < m->first) continue;
        for (int r = 0; r < m->ranks; r++) {
            if (!m->view->rank[r]) continue;
            const spans_step *s = &step[r];
            add_step(&m->rank[r], s, n == m->first);
            value[count++] = (double)s->duration_ns;
            if (s->waited_for >= 0 && s->waited_for < m->ranks)
                m->rank[s->waited_for].charged_ns += s->waited_for_ns;
        }
        middle[read] = statistics_median(value, count);
        m->steps_ns += middle[read++];
    }
    m->steps = read;
    m->step_ns = statistics_median(middle, (size_t)read);
done:
    free(step);
    free(value);
    return result;
}

// ---- Shares

// Time of a rank that spans of a kind outside of steps took, as far as the measured steps have seen it.
static double outside_ns(const run_measures *m, int rank, spans_kind kind)
{
    const spans *s = m->view->rank[rank];
    double sum = 0, count = 0, times = 0;
    for (uint32_t i = s->row_count; i-- > 0;) {
        if (s->rows[i].kind != (int32_t)kind) continue;
        sum += (double)s->rows[i].sum_ns;
        count += (double)s->rows[i].count;
    }
    const run_view *v = m->view;
    for (size_t i = 0; kind == SPANS_SAVE && i < v->saves; i++)
        times += v->save[i].step >= (int64_t)m->first && v->save[i].step < (int64_t)m->last;
    for (size_t i = 0; kind == SPANS_EVAL && i < v->evals; i++)
        times += v->eval[i].step >= (int64_t)m->first && v->eval[i].step < (int64_t)m->last;
    return count > 0 ? fmin(times * sum / count, (double)m->rank[rank].gap_ns) : 0;
}

static double share_of(const run_measures *m, int rank, spans_phase phase)
{
    const rank_measures *x = &m->rank[rank];
    const double all = (double)(x->duration_ns + x->gap_ns);
    const double ns = phase == PHASE_SAVE   ? outside_ns(m, rank, SPANS_SAVE)
                      : phase == PHASE_EVAL ? outside_ns(m, rank, SPANS_EVAL)
                                            : (double)x->phase_ns[phase];
    return all > 0 ? ns / all : 0;
}

static void set_shares(run_measures *m, double *value)
{
    size_t count;
    for (int p = 0; p < SPANS_PHASES; p++) {
        count = 0;
        for (int r = 0; r < m->ranks; r++)
            if (m->view->rank[r]) value[count++] = share_of(m, r, (spans_phase)p);
        m->phase[p] = statistics_median(value, count);
    }
    count = 0;
    for (int r = 0; r < m->ranks; r++) {
        const rank_measures *x = &m->rank[r];
        const int64_t all = x->duration_ns + x->gap_ns, comm = x->phase_ns[PHASE_COMM];
        const int64_t waited = x->waited_ns < comm ? x->waited_ns : comm;
        if (m->view->rank[r]) value[count++] = all > 0 ? (double)waited / (double)all : 0;
    }
    m->waited = statistics_median(value, count);
    m->compute = m->phase[PHASE_FORWARD] + m->phase[PHASE_BACKWARD] + m->phase[PHASE_OPTIMIZER];
    count = 0;
    for (int r = 0; r < m->ranks; r++) {
        if (!m->view->rank[r]) continue;
        value[count] = 1;
        for (int p = 0; p < SPANS_PHASES; p++)
            if (p != PHASE_OTHER) value[count] -= share_of(m, r, (spans_phase)p);
        count++;
    }
    // What remains of a difference of sums is no time.
    const double least = 1e-6;
    m->other = statistics_median(value, count);
    if (m->other < least) m->other = 0;
}

static void compare_stages(run_measures *m, double *value)
{
    double fastest = INFINITY, slowest = 0;
    for (int stage = 0; m->stages > 1 && m->steps && stage < m->stages; stage++) {
        size_t count = 0;
        for (int r = 0; r < m->ranks; r++)
            if (m->location[r].is_recorded && m->location[r].stage == stage)
                value[count++] = (double)(m->rank[r].phase_ns[PHASE_FORWARD] +
                                          m->rank[r].phase_ns[PHASE_BACKWARD]);
        if (!count) continue;
        const double middle = statistics_median(value, count);
        if (middle > slowest) m->slow_stage = stage;
        slowest = fmax(slowest, middle);
        fastest = fmin(fastest, middle);
    }
    if (slowest > 0 && fastest > 0 && fastest < INFINITY) m->stage_excess = slowest / fastest - 1;
}

static status read_log(run_measures *m, err *e)
{
    status result = OK;
    const run_view *v = m->view;
    double *value = NULL;
    size_t count = 0;
    TRY(alloc_array(&value, v->steps, sizeof *value, "the steps of a log", e));
    for (size_t i = 0; i < v->steps; i++)
        if (isfinite(v->step[i].matmul_share)) value[count++] = v->step[i].matmul_share;
    m->matmul_share = count ? statistics_median(value, count) : NAN;
done:
    free(value);
    return result;
}

// ---- Memory

// Whether the medians of the quarters of the samples rise.
static bool rises(const double *bytes, size_t count)
{
    double quarter[SAMPLES], before = 0;
    for (size_t q = 0; q < QUARTERS; q++) {
        const size_t first = q * count / QUARTERS, end = (q + 1) * count / QUARTERS;
        memcpy(quarter, bytes + first, (end - first) * sizeof *quarter);
        const double middle = statistics_median(quarter, end - first);
        if (middle <= before) return false;
        before = middle;
    }
    return true;
}

// The median of the slopes of all pairs, in bytes of a step.
static double slope_of(const double *bytes, size_t count, double apart)
{
    double slopes[SAMPLES * (SAMPLES - 1) / 2];
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            slopes[pairs++] = (bytes[j] - bytes[i]) / ((double)(j - i) * apart);
    return statistics_median(slopes, pairs);
}

static void measure_memory(run_measures *m, int rank)
{
    double bytes[SAMPLES], copy[SAMPLES];
    size_t count = 0;
    rank_measures *x = &m->rank[rank];
    const uint64_t tenth = m->last / 10, skipped = tenth > GROWTH_SKIPPED ? tenth : GROWTH_SKIPPED;
    const uint64_t first = m->first > skipped ? m->first : skipped + 1;
    const bool is_long = m->last >= first + GROWTH_STEPS - 1;
    const uint64_t begin = is_long ? first : m->first;
    const double apart = (double)(m->last - begin) / (SAMPLES - 1);
    for (int i = 0; i < SAMPLES; i++) {
        spans_step s;
        const uint64_t n = begin + (uint64_t)(i * apart);
        if (run_view_step_of(m->view, rank, n, &s)) bytes[count++] = (double)s.bytes_now;
    }
    memcpy(copy, bytes, count * sizeof *copy);
    x->bytes = statistics_median(copy, count);
    if (!is_long || count < SAMPLES / 2 || x->bytes <= 0 || !rises(bytes, count)) return;
    const double slope = slope_of(bytes, count, apart);
    if (slope * (double)(m->last - begin) >= LEAST_GROWN) x->growth = 1000 * slope / x->bytes;
}

// ---- The measures

static status measure(run_measures *m, err *e)
{
    status result = OK;
    double *value = NULL, *middle = NULL;
    TRY(alloc_zeroed(&value, (size_t)m->ranks, sizeof *value, "the ranks of a run", e));
    choose_steps(m);
    TRY(alloc_zeroed(&middle, (size_t)m->steps, sizeof *middle, "the steps of a run", e));
    TRY(add_steps(m, middle, e));
    TRY(read_log(m, e));
    if (!m->steps) goto done;
    set_shares(m, value);
    compare_stages(m, value);
    for (int r = 0; r < m->ranks; r++) {
        if (!m->view->rank[r]) continue;
        measure_memory(m, r);
        if (m->rank[r].growth > (m->growing < 0 ? 0 : m->rank[m->growing].growth)) m->growing = r;
    }
done:
    free(value);
    free(middle);
    return result;
}

status run_measures_make(const run_view *v, run_measures **out, err *e)
{
    status result = OK;
    run_measures *m = NULL;
    TRY(alloc_zeroed(&m, 1, sizeof *m, "a report", e));
    m->view = v;
    m->ranks = v->ranks;
    m->recorded = v->recorded;
    m->growing = -1;
    m->matmul_share = NAN;
    TRY(alloc_zeroed(&m->rank, (size_t)v->ranks, sizeof *m->rank, "a report", e));
    TRY(run_measures_locate(v, &m->location, &m->host, &m->hosts, e));
    for (int r = 0; r < m->ranks; r++)
        if (m->location[r].stage >= m->stages) m->stages = m->location[r].stage + 1;
    TRY(straggler_watch_open(m->location, m->ranks, &m->watch, e));
    if (m->recorded) TRY(measure(m, e));
    *out = m;
    m = NULL;
done:
    run_measures_close(m);
    return result;
}

void run_measures_close(run_measures *m)
{
    if (!m) return;
    straggler_watch_close(m->watch);
    free(m->location);
    free(m->host);
    free(m->rank);
    free(m);
}

const char *run_measures_host(const run_measures *m, int rank)
{
    return m->location[rank].is_recorded ? m->host[m->location[rank].host] : "";
}
