// explain_time.c -- see explain_time.h.
#include "session/plan/explain_time.h"

#include "base/alloc.h"
#include "parallel/draw.h"
#include "parallel/instructions.h"

#include <math.h>
#include <stdlib.h>

static double sum_of_idle(const planner_stage_time *g)
{
    double sum = 0;
    for (int i = 0; i < PLANNER_IDLES; i++) sum += g->idle_s[i];
    return sum;
}

static status make_result(explained_times *t, err *e)
{
    status result = OK;
    const size_t stages = (size_t)t->stages.count;
    t->result = (simulate_result){.stages = t->stages.count,
                                  .span = t->times.span,
                                  .seconds = t->times.seconds,
                                  .bubble = t->times.bubble};
    TRY(alloc_zeroed(&t->result.busy, stages, sizeof(double), "the times of stages", e));
    TRY(alloc_zeroed(&t->result.idle, stages, sizeof(double), "the times of stages", e));
    for (size_t k = 0; k < stages; k++) {
        t->result.busy[k] = t->waits.stage[k].busy_s;
        t->result.idle[k] = sum_of_idle(&t->waits.stage[k]);
    }
done:
    return result;
}

status explained_times_open(const job *j, const session_inputs *in, const planner_machine *m,
                            explained_times *out, err *e)
{
    status result = OK;
    *out = (explained_times){.machine = m};
    TRY(session_predict_times(j, in, j->launch.ranks, m, &out->stages, &out->times,
                              &out->prediction, e));
    const planner_step x = {.plan = out->stages.plan_of,
                            .list = out->stages.train_of,
                            .stages = out->stages.count,
                            .machine = m};
    TRY(planner_waits_find(&x, &out->times, &out->waits, e));
    TRY(make_result(out, e));
done:
    return result;
}

void explained_times_close(explained_times *t)
{
    free(t->result.busy);
    free(t->result.idle);
    planner_waits_clear(&t->waits);
    planner_times_clear(&t->times);
    session_stages_close(&t->stages);
    *t = (explained_times){.machine = NULL};
}

// ---- The summary

static void add_ms(const char *before, double seconds, text *out)
{
    if (seconds < 10)
        text_addf(out, "%s%.*f ms", before, seconds < 0.1 ? 3 : 1, 1e3 * seconds);
    else
        text_addf(out, "%s%.2f s", before, seconds);
}

// Lines that begin alike, of a text that has a line for each assumption.
static void add_assumptions(const planner_machine *m, text *out)
{
    const char *s = m->assumptions.chars ? m->assumptions.chars : "";
    while (*s) {
        const int bytes = (int)strcspn(s, "\n");
        if (bytes) text_addf(out, "  assumes: %.*s\n", bytes, s);
        s += bytes + (s[bytes] == '\n');
    }
}

static void print_summary(const explained_times *t, text *out)
{
    const prediction *p = &t->prediction;
    const planner_machine *m = t->machine;
    text_addf(out, "time: predicted for %s\n", m->name ? m->name : "this machine");
    add_ms("  step ", p->step_s, out);
    text_addf(out, ", %.4g tokens/s", p->tokens_per_s);
    if (!isnan(p->mfu)) text_addf(out, ", mfu %.1f %%", 100 * p->mfu);
    add_ms("; compute ", p->compute_s, out);
    add_ms(", exposed communication ", p->exposed_s, out);
    add_ms(", transfers ", p->transfer_s, out);
    text_addf(out, ", bubble %.1f %%\n", 100 * p->bubble);
    if (p->labelled < 1)
        text_addf(out, "  loss: of %.1f %% of the tokens, which have a label in data.train\n",
                  100 * p->labelled);
    if (!isnan(p->joules)) text_addf(out, "  energy %.4g kJ a step\n", p->joules / 1e3);
    if (!isnan(p->price)) text_addf(out, "  price %.4g a step\n", p->price);
    if (m->expected_error_percent > 0)
        text_addf(out, "  expected error %.3g %%\n", m->expected_error_percent);
    else
        text_add(out, "  expected error: not known\n");
    add_assumptions(m, out);
}

static void print_stage(const explained_times *t, int stage, text *out)
{
    const planner_stage_time *g = &t->waits.stage[stage];
    const char *before = " (";
    text_addf(out, "  stage %d:", stage);
    add_ms(" passes from ", g->first_s, out);
    add_ms(" to ", g->last_s, out);
    add_ms(", busy ", g->busy_s, out);
    add_ms(", idle ", sum_of_idle(g), out);
    for (planner_idle i = 0; i < PLANNER_IDLES; i++) {
        if (g->idle_s[i] < 1e-6 * t->times.seconds) continue;
        text_addf(out, "%s%s", before, planner_idle_name(i));
        add_ms(" ", g->idle_s[i], out);
        before = ", ";
    }
    text_add(out, *before == ',' ? ")\n" : "\n");
}

// ---- JSON

static void add_number(const char *key, double value, text *out)
{
    if (isfinite(value))
        text_addf(out, ",\"%s\":%.9g", key, value);
    else
        text_addf(out, ",\"%s\":null", key);
}

static void print_json_stage(const planner_stage_time *g, text *out)
{
    text_addf(out, "{\"first_pass_ms\":%.9g,\"last_pass_ms\":%.9g,\"busy_ms\":%.9g,\"idle_ms\":{",
              1e3 * g->first_s, 1e3 * g->last_s, 1e3 * g->busy_s);
    for (planner_idle i = 0; i < PLANNER_IDLES; i++)
        text_addf(out, "%s\"%s\":%.9g", i ? "," : "", planner_idle_name(i), 1e3 * g->idle_s[i]);
    text_add(out, "}}");
}

static void print_json(const explained_times *t, text *out)
{
    const prediction *p = &t->prediction;
    const planner_machine *m = t->machine;
    text_addf(out, ",\"step_ms_predicted\":%.9g,\"prediction\":{\"machine\":", 1e3 * p->step_s);
    text_add_json(out, m->name ? m->name : "");
    add_number("tokens_per_s", p->tokens_per_s, out);
    add_number("mfu", p->mfu, out);
    add_number("compute_ms", 1e3 * p->compute_s, out);
    add_number("exposed_ms", 1e3 * p->exposed_s, out);
    add_number("transfer_ms", 1e3 * p->transfer_s, out);
    add_number("bubble", p->bubble, out);
    add_number("joules", p->joules, out);
    add_number("price", p->price, out);
    add_number("labelled_share", p->labelled, out);
    add_number("expected_error_percent",
               m->expected_error_percent > 0 ? m->expected_error_percent : NAN, out);
    text_add(out, ",\"assumptions\":");
    text_add_json(out, m->assumptions.chars ? m->assumptions.chars : "");
    text_add(out, ",\"stages\":[");
    for (int k = 0; k < t->stages.count; k++) {
        text_add(out, k ? "," : "");
        print_json_stage(&t->waits.stage[k], out);
    }
    text_add(out, "]}");
}

void explained_times_print(const explained_times *t, bool json, text *out)
{
    if (json) {
        print_json(t, out);
        return;
    }
    print_summary(t, out);
    for (int k = 0; k < t->stages.count; k++) print_stage(t, k, out);
}

// ---- The list

static const schedule_instr *instr_of(const explained_times *t, planner_wait w)
{
    return &t->stages.train_of[w.stage]->instr[w.instr];
}

static void print_wait(const explained_times *t, int stage, int i, text *out)
{
    const planner_wait w = t->waits.of[stage][i];
    if (w.stage < 0) return;
    if (w.stage != stage) text_addf(out, "stage %d: ", w.stage);
    instr_print(instr_of(t, w), out);
}

static void print_line(const explained_times *t, int stage, int i, text *out)
{
    const simulate_span *when = &t->times.span[stage][i];
    text_addf(out, "%12.3f %10.3f  ", 1e3 * when->start, 1e3 * (when->end - when->start));
    schedule_print_line(t->stages.plan_of[stage], t->stages.train_of[stage], i, out);
    if (t->waits.of[stage][i].stage >= 0) text_add(out, "; waits for ");
    print_wait(t, stage, i, out);
    text_add(out, "\n");
}

static void print_json_line(const explained_times *t, int stage, int i, text *out)
{
    const simulate_span *when = &t->times.span[stage][i];
    text wait = {0};
    text_addf(out, "%s{\"begin_ms\":%.9g,\"ms\":%.9g", i ? "," : "", 1e3 * when->start,
              1e3 * (when->end - when->start));
    print_wait(t, stage, i, &wait);
    if (wait.bytes) {
        text_add(out, ",\"waits_for\":");
        text_add_json(out, wait.chars);
    }
    text_add(out, "}");
    if (wait.failed) text_fail(out);
    text_clear(&wait);
}

void explained_times_print_list(const explained_times *t, int stage, bool json, text *out)
{
    const int count = t->stages.train_of[stage]->count;
    if (json)
        text_add(out, ",\"times\":[");
    else
        text_addf(out, "schedule: %d instructions a step\n    begin ms    takes ms\n", count);
    for (int i = 0; i < count; i++)
        if (json)
            print_json_line(t, stage, i, out);
        else
            print_line(t, stage, i, out);
    if (json) text_add(out, "]");
}

void explained_times_draw(const explained_times *t, text *out)
{
    text title = {0};
    add_ms("a step of ", t->times.seconds, &title);
    text_addf(&title, ", predicted for %s", t->machine->name ? t->machine->name : "this machine");
    timeline_draw_svg(&(timeline_picture){.of_stage = t->stages.train_of,
                                          .plan_of_stage = t->stages.plan_of,
                                          .stages = t->stages.count,
                                          .span = (const simulate_span *const *)t->times.span,
                                          .seconds = t->times.seconds,
                                          .streams_apart = t->machine->costs.streams_apart,
                                          .title = title.chars ? title.chars : ""},
                      out);
    if (title.failed) text_fail(out);
    text_clear(&title);
}
