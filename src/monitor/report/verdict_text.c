// verdict_text.c -- see verdict_text.h. Keys that a sentence names are keys of the job file.
#include "monitor/report/verdict_text.h"

#include "monitor/report/statistics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double SHOWN = 0.005; // smaller shares are left out

void verdict_time(char out[24], double ns)
{
    if (ns >= 1e9)
        (void)snprintf(out, 24, "%.2f s", ns * 1e-9);
    else if (ns >= 1e6)
        (void)snprintf(out, 24, "%.1f ms", ns * 1e-6);
    else
        (void)snprintf(out, 24, "%.1f us", ns * 1e-3);
}

// ---- The line

static void add_subject(const run_measures *m, const straggler *s, text *out)
{
    if (s->rank >= 0)
        text_addf(out, "rank %d on host %s", s->rank, m->host[s->host]);
    else
        text_addf(out, "host %s, all its ranks", m->host[s->host]);
}

void verdict_add_line(const run_measures *m, const verdict *v, text *out)
{
    const double percent = 100 * v->share;
    text_addf(out, "%s", v->word);
    switch (v->kind) {
    case VERDICT_UNKNOWN:
        text_add(out, ": no rank has a record");
        break;
    case VERDICT_HEALTHY:
        if (m->steps < VERDICT_STEPS)
            text_add(out, ": too few steps");
        else
            text_addf(out, ": compute takes %.1f %% of the time, and nothing else stands out",
                      100 * m->compute);
        break;
    case VERDICT_COMPUTE:
        text_addf(out, ": passes and updates take %.1f %% of the time", percent);
        break;
    case VERDICT_INPUT:
        text_addf(out, ": ranks wait for batches for %.1f %% of the time", percent);
        break;
    case VERDICT_COMM:
        text_addf(out, ": communication that nothing hides takes %.1f %% of the time",
                  100 * m->phase[PHASE_COMM]);
        break;
    case VERDICT_CHECKPOINT:
        text_addf(out, ": checkpoints take %.1f %% of the time", percent);
        break;
    case VERDICT_MEMORY:
        text_addf(out, " rank %d on host %s: its memory grows by %.1f %% in 1,000 steps", v->rank,
                  v->host, percent);
        break;
    default:
        text_add(out, " ");
        add_subject(m, v->straggler, out);
        text_addf(out, ": the others wait for it for %.1f %% of a step", 100 * v->straggler->share);
    }
}

// ---- Evidence

static void add_phases(const run_measures *m, text *out)
{
    char time[24];
    const char *comma = "; ";
    verdict_time(time, m->step_ns);
    text_addf(out, "a step takes %s, median of steps %llu to %llu", time,
              (unsigned long long)m->first, (unsigned long long)m->last);
    for (int p = 0; p < SPANS_PHASES; p++) {
        const double share = p == PHASE_OTHER ? m->other : m->phase[p];
        if (share < SHOWN) continue;
        text_addf(out, "%s%s%s %.1f %%", comma, p == PHASE_COMM ? "exposed " : "",
                  spans_phase_word((spans_phase)p), 100 * share);
        if (p == PHASE_COMM && m->waited >= SHOWN)
            text_addf(out, " (of it waits for later ranks %.1f %%)", 100 * m->waited);
        comma = ", ";
    }
    text_add(out, "\n");
}

static void add_straggler(const run_measures *m, const straggler *s, text *out)
{
    text_add(out, "the others waited for ");
    add_subject(m, s, out);
    text_addf(out, " in %llu of %llu steps, for %.1f %% of a step (median); of all steps %.1f %%\n",
              (unsigned long long)s->slow_steps, (unsigned long long)m->steps, 100 * s->share,
              100 * (double)s->lost_ns / m->steps_ns);
    text_addf(out, "its %s explains %.0f %% of the wait; chronic since step %llu%s\n",
              straggler_cause_word(s->cause), 100 * s->explained,
              (unsigned long long)s->chronic_step, s->is_chronic ? "" : ", and not any more");
}

// Chronic stragglers that are not the verdict, and delays that were none.
static void add_others(const run_measures *m, const verdict *v, text *out)
{
    uint64_t steps = 0;
    double lost = 0;
    for (int i = 0; i < straggler_watch_count(m->watch); i++) {
        const straggler *s = straggler_watch_get(m->watch, i);
        if (s == v->straggler) continue;
        if (s->chronic_step && s->cause != STRAGGLER_UNCLEAR) {
            add_straggler(m, s, out);
            continue;
        }
        steps += s->slow_steps;
        lost += (double)s->lost_ns;
    }
    if (steps)
        text_addf(out, "one-off delays: %llu slow steps, %.1f %% of the time of all steps\n",
                  (unsigned long long)steps, 100 * lost / m->steps_ns);
}

static void add_memory(const run_measures *m, text *out)
{
    char bytes[24];
    if (m->growing < 0) return;
    const rank_measures *x = &m->rank[m->growing];
    text_bytes(bytes, x->bytes);
    text_addf(out, "the memory of rank %d, %s, grows by %.2f %% in 1,000 steps\n", m->growing,
              bytes, 100 * x->growth);
}

static void add_saves(const run_measures *m, text *out)
{
    double seconds = 0;
    const run_view *view = m->view;
    if (m->phase[PHASE_SAVE] < SHOWN || !view->saves) return;
    for (size_t i = 0; i < view->saves; i++) seconds += view->save[i].seconds;
    text_addf(out, "%zu checkpoints took %.2f s each\n", view->saves, seconds / view->saves);
}

// Of predicted steps one rank of each stage stands for the others.
static void add_records(const run_measures *m, text *out)
{
    const spans_head *first = NULL;
    for (int r = m->ranks - 1; r >= 0; r--)
        if (m->view->rank[r]) first = m->view->rank[r]->head;
    if (first && strcmp(first->boot, SPANS_SIMULATED) == 0)
        text_addf(out, "the steps were predicted for %s, and nothing ran\n", first->device);
    else if (m->recorded < m->ranks)
        text_addf(out, "%d of %d ranks have a record\n", m->recorded, m->ranks);
}

void verdict_add_evidence(const run_measures *m, const verdict *v, text *out)
{
    const double stages_differ = 0.05;
    if (m->view->error) {
        text_add(out, "the run failed: ");
        text_add_printable(out, m->view->error, strlen(m->view->error), "");
        text_add(out, "\n");
    }
    add_records(m, out);
    if (m->recorded && m->steps < VERDICT_STEPS)
        text_addf(out, "too few steps: %llu were measured, a verdict takes %d\n",
                  (unsigned long long)m->steps, VERDICT_STEPS);
    if (!m->steps) return;
    if (v->straggler) add_straggler(m, v->straggler, out);
    add_phases(m, out);
    if (isfinite(m->matmul_share))
        text_addf(out, "mfu %.0f %%, median of the log's steps\n", 100 * m->matmul_share);
    add_saves(m, out);
    add_memory(m, out);
    if (m->stage_excess >= stages_differ)
        text_addf(out, "stage %d is %.0f %% slower than the fastest stage: parallel.split\n",
                  m->slow_stage, 100 * m->stage_excess);
    add_others(m, v, out);
}

// ---- What to try next

static const char *text_of(const run_measures *m, const char *key)
{
    const char *value = run_view_text(m->view, key);
    return value ? value : "";
}

static void add_next_of_compute(const run_measures *m, text *out)
{
    const double low = 0.5;
    if (isfinite(m->matmul_share) && m->matmul_share < low)
        text_addf(out,
                  "Raise train.micro_batch: the matrix products reach %.0f %% of their peak, and "
                  "larger ones reach more.",
                  100 * m->matmul_share);
    else if (strcmp(text_of(m, "precision"), "fp32") == 0)
        text_add(out, "Try train.precision: bf16, or more ranks: the devices are busy.");
    else
        text_add(out,
                 "Take more ranks or faster devices; parallel.recompute: none computes least.");
}

static void add_next_of_comm(const run_measures *m, text *out)
{
    const bool waits = m->waited > m->phase[PHASE_COMM] / 2;
    if (m->stages > 1)
        text_add(out,
                 "Lower train.micro_batch or raise train.global_batch, so that a step has more "
                 "micro-batches, or try parallel.pp_schedule: zb.");
    else if (waits)
        text_add(out, "Compare the ranks in the table: they wait for each other in turn. Where "
                      "ranks share cores, lower launch.ranks or launch.threads_per_rank.");
    else if (strstr(text_of(m, "policy"), "zero3"))
        text_add(out, "Try parallel.reshard_after_forward: false where memory allows it, or raise "
                      "train.accumulation.");
    else
        text_add(out, "Raise train.accumulation, so that ranks reduce gradients after more tokens; "
                      "parallel.hook: bf16 halves the bytes.");
}

static void add_next_of_saves(const run_measures *m, text *out)
{
    const double wanted = 0.05;
    double seconds = 0;
    const run_view *view = m->view;
    for (size_t i = 0; i < view->saves; i++) seconds += view->save[i].seconds / view->saves;
    const double steps = ceil(seconds * (1 - wanted) / wanted / (m->step_ns * 1e-9));
    text_addf(out,
              "Raise train.save_every to %.0f or more, and checkpoints take %.0f %% of the time.",
              fmax(steps, 1), 100 * wanted);
}

static void add_next_of_straggler(const run_measures *m, const verdict *v, text *out)
{
    const straggler *s = v->straggler;
    const char *host = m->host[s->host];
    text who = {0};
    add_subject(m, s, &who);
    if (s->cause == STRAGGLER_COMPUTE)
        text_addf(out,
                  "Look for what else computes on host %s, and at its clock rates and "
                  "temperatures; launch.threads_per_rank sets how many cores a rank takes.",
                  host);
    if (s->cause == STRAGGLER_INPUT)
        text_addf(out,
                  "Look at the disk from which %s reads data.train: a copy on a disk of the host "
                  "itself is faster.",
                  who.chars);
    if (s->cause == STRAGGLER_LINK)
        text_addf(out,
                  "Measure the links of host %s with `trireme bench link`; launch.comm chooses "
                  "another communicator.",
                  host);
    text_clear(&who);
}

void verdict_add_next(const run_measures *m, const verdict *v, text *out)
{
    switch (v->kind) {
    case VERDICT_UNKNOWN:
        text_add(out, "Train with a version that records its ranks in train.out/spans.");
        break;
    case VERDICT_HEALTHY:
        if (m->steps < VERDICT_STEPS)
            text_addf(out, "Train for more than %d steps: raise train.steps.", VERDICT_STEPS);
        else if (m->phase[PHASE_COPY] >= 0.1)
            text_add(out, "Raise parallel.offload.slots: copies and files take part of the time.");
        else
            text_add(out, "Nothing needs a change.");
        break;
    case VERDICT_COMPUTE:
        add_next_of_compute(m, out);
        break;
    case VERDICT_INPUT:
        text_add(out, "Put the files of data.train on a faster disk, or leave the loader more "
                      "cores with a lower launch.threads_per_rank.");
        break;
    case VERDICT_COMM:
        add_next_of_comm(m, out);
        break;
    case VERDICT_CHECKPOINT:
        add_next_of_saves(m, out);
        break;
    case VERDICT_MEMORY:
        text_add(out, "Lower train.save_every, so that little is lost when memory is full, and "
                      "report the leak with this report.");
        break;
    default:
        add_next_of_straggler(m, v, out);
    }
}
