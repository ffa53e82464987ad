// table_times.c -- the lower half of the text of the table: times, what they rest on, what guides say, and what the search
// found. See table.h.
#include "session/plan/table.h"

#include <math.h>

static void print_figure(const char *format, double value, int width, text *out)
{
    text cell = {0};
    if (isfinite(value)) text_addf(&cell, format, value);
    text_addf(out, "%*s", width, cell.chars ? cell.chars : "-");
    if (cell.failed) text_fail(out);
    text_clear(&cell);
}

// Where neither is known, the column is left out.
static bool has_price(const table *t)
{
    return t->o->machine->price_per_hour > 0;
}

static bool has_energy(const table *t)
{
    return t->o->machine->watts > 0;
}

static void print_heads(const table *t, text *out)
{
    text_addf(out, "\n  %-26s%9s%10s%7s%9s%8s", "times, predicted", "step ms", "tokens/s", "mfu",
              "exposed", "bubble");
    if (has_price(t))
        text_addf(out, "%9s", "price");
    else if (has_energy(t))
        text_addf(out, "%9s", "kWh");
    text_add(out, "\n");
}

static void print_row(const table *t, const table_row *r, text *out)
{
    const prediction *p = &r->prediction;
    const planner_bill *b = &r->training.bill;
    text_addf(out, "%c %-26s", r->is_job ? '*' : ' ', r->name);
    print_figure(p->step_s < 10 ? "%.2f" : "%.0f", 1e3 * p->step_s, 9, out);
    print_figure("%.4g", p->tokens_per_s, 10, out);
    print_figure("%.1f %%", 100 * p->mfu, 7, out);
    print_figure("%.1f %%", 100 * p->exposed_s / p->step_s, 9, out);
    print_figure("%.1f %%", 100 * p->bubble, 8, out);
    if (has_price(t) || has_energy(t))
        print_figure("%.3g", has_price(t) ? b->price : b->kilowatt_hours, 9, out);
    text_add(out, "\n");
}

static void print_rows(const table *t, text *out)
{
    print_heads(t, out);
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].is_predicted) print_row(t, &t->row[i], out);
    text_add(out, "exposed: the share of a step that waits for collectives; bubble: for other "
                  "stages");
    if (has_price(t) || has_energy(t))
        text_addf(out, "; %s: to %.4g tokens",
                  has_price(t) ? "price, in the cluster file's currency" : "kWh",
                  t->row[0].training.tokens);
    text_add(out, "\n");
}

static void print_machine(const table *t, text *out)
{
    const planner_machine *m = t->o->machine;
    text_addf(out, "\nmachine: %s\n", m->name ? m->name : "not named");
    if (m->assumptions.chars) text_add(out, m->assumptions.chars);
    if (m->expected_error_percent > 0)
        text_addf(out, "expected error: %.3g %%\n", m->expected_error_percent);
    if (t->row[0].is_predicted) session_training_print(&t->row[0].training, false, out);
}

static void print_advice(const table *t, text *out)
{
    text_add(out, "\nguides say\n");
    for (int i = 0; i < ADVICE_RULES; i++) {
        const advice *a = &t->advice[i];
        if (a->says)
            text_addf(out, "  %s: %s -- %s%s\n", a->guide, a->says,
                      a->agrees ? "agrees" : "against it: ", a->reason);
    }
}

// ---- The search

static void print_found(const table *t, const char *what, const search_found *f, text *out)
{
    const prediction *p = &f->prediction;
    char size[24];
    text_bytes(size, (double)f->estimate.total);
    text_addf(out, "%s: ", what);
    layout_print(&f->layout, out);
    text_addf(out, "\n  %.5g ms, %.4g tokens/s", 1e3 * p->step_s, p->tokens_per_s);
    if (!isnan(p->mfu)) text_addf(out, ", mfu %.1f %%", 100 * p->mfu);
    text_addf(out, ", exposed %.1f %%, bubble %.1f %%, %s a rank\n", 100 * p->exposed_s / p->step_s,
              100 * p->bubble, size);
    (void)t;
}

static void print_second(const table *t, text *out)
{
    const search_change *c = &t->change;
    if (!t->found.has_second) return;
    print_found(t, "runner-up", &t->found.second, out);
    if (c->what && c->times > 1)
        text_addf(out, "  it would win if %s were %.2f times as fast\n", c->what, c->times);
    else if (c->what)
        text_addf(out, "  it would win if %s had %.2f times the speed\n", c->what, c->times);
    else
        text_add(out, "  no one rate would make it win, up to 16 times either way\n");
}

static void print_search(const table *t, text *out)
{
    const search_result *r = &t->found;
    text changes = {0};
    job best;
    text_addf(out,
              "\nsearch: %zu layouts of %d ranks; %zu not possible, %zu do not fit, %zu slower by "
              "a bound, %zu predicted\n",
              r->tried, t->ranks, r->ended[SEARCH_IMPOSSIBLE], r->ended[SEARCH_TOO_LARGE],
              r->ended[SEARCH_SLOWER], r->ended[SEARCH_PREDICTED]);
    if (r->ended[SEARCH_IMPOSSIBLE]) text_addf(out, "  not possible, for one: %s\n", r->refused);
    if (!r->has_best) {
        text_add(out, "  no layout fits in memory\n");
        return;
    }
    print_found(t, "best", &r->best, out);
    layout_apply(t->j, &r->best.layout, &best);
    job_describe_changes(t->j, &best, &changes);
    text_addf(out, "  %s\n", changes.chars ? changes.chars : "as the job is");
    if (changes.failed) text_fail(out);
    text_clear(&changes);
    print_second(t, out);
}

void table_print_times(const table *t, text *out)
{
    if (t->o->machine) {
        print_rows(t, out);
        print_machine(t, out);
    } else if (t->o->no_machine) {
        text_addf(out, "no times: %s\n", t->o->no_machine);
    }
    print_advice(t, out);
    if (t->searched) print_search(t, out);
}
