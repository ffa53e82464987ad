// report_text.c -- prints a report: the verdict and a table of ranks. See report.h.
#include "monitor/report/report.h"
#include "monitor/report/verdict.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RANKS_SHOWN = 8 };

// The phases of a step, in the order of the columns.
static const spans_phase COLUMNS[] = {PHASE_INPUT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER,
                                      PHASE_COMM,  PHASE_COPY,    PHASE_OTHER};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

static void add_head(text *out)
{
    text_addf(out, "%6s  %-16s %5s %10s", "rank", "host", "stage", "step");
    for (int i = 0; i < COLUMN_COUNT; i++)
        text_addf(out, " %9s", COLUMNS[i] == PHASE_COMM ? "exposed" : spans_phase_word(COLUMNS[i]));
    text_addf(out, " %9s %9s %11s\n", "waits", "charged", "memory");
}

static void add_row(const run_measures *m, int rank, text *out)
{
    const rank_measures *x = &m->rank[rank];
    const double all = (double)(x->duration_ns + x->gap_ns);
    char time[24], bytes[24];
    verdict_time(time, (double)x->duration_ns / (double)m->steps);
    text_bytes(bytes, x->bytes);
    text_addf(out, "%6d  %-16s %5d %10s", rank, run_measures_host(m, rank), m->location[rank].stage,
              time);
    for (int i = 0; i < COLUMN_COUNT; i++)
        text_addf(out, " %7.1f %%", 100 * (double)x->phase_ns[COLUMNS[i]] / all);
    text_addf(out, " %7.1f %%", 100 * (double)x->waited_ns / all);
    const double others = m->recorded > 1 ? m->recorded - 1 : 1;
    verdict_time(time, (double)x->charged_ns / (double)m->steps / others);
    text_addf(out, " %9s %11s\n", time, bytes);
}

static bool comes_before(const run_measures *m, int a, int b)
{
    const rank_measures *x = &m->rank[a], *y = &m->rank[b];
    return x->charged_ns != y->charged_ns ? x->charged_ns > y->charged_ns : a < b;
}

// The ranks that kept the others waiting longest, the worst first. Returns how many.
static int worst_ranks(const run_measures *m, int *worst)
{
    int count = 0;
    for (int r = 0; r < m->ranks; r++) {
        if (!m->location[r].is_recorded) continue;
        if (count == MOST_RANKS_SHOWN && !comes_before(m, r, worst[count - 1])) continue;
        int i = count < MOST_RANKS_SHOWN ? count++ : count - 1;
        for (; i > 0 && comes_before(m, r, worst[i - 1]); i--) worst[i] = worst[i - 1];
        worst[i] = r;
    }
    return count;
}

static void add_median(const run_measures *m, text *out)
{
    char time[24];
    verdict_time(time, m->step_ns);
    text_addf(out, "%6s  %-16s %5s %10s", "median", "", "", time);
    for (int i = 0; i < COLUMN_COUNT; i++)
        text_addf(out, " %7.1f %%",
                  100 * (COLUMNS[i] == PHASE_OTHER ? m->other : m->phase[COLUMNS[i]]));
    text_addf(out, " %7.1f %%\n", 100 * m->waited);
}

static void add_table(const run_measures *m, text *out)
{
    int worst[MOST_RANKS_SHOWN];
    const int count = worst_ranks(m, worst);
    text_addf(out,
              "\nshares of the time, a mean of %llu steps; exposed: communication that no pass "
              "hides; waits: for ranks that came later; charged: how long another rank waited for "
              "this one in a step\n",
              (unsigned long long)m->steps);
    add_head(out);
    for (int i = 0; i < count; i++) add_row(m, worst[i], out);
    if (m->recorded > count)
        text_addf(out, "%6s  %d more ranks, for which the others waited less\n", "",
                  m->recorded - count);
    add_median(m, out);
}

void report_add_text(const report *r, text *out)
{
    text_addf(out, "%s\n", r->line);
    for (int i = 0; i < r->evidences; i++) text_addf(out, "  %s\n", r->evidence[i]);
    text_addf(out, "next: %s\n", r->next);
    if (r->measures->steps) add_table(r->measures, out);
}
