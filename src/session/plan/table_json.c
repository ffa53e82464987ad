// table_json.c -- the JSON object of the table. See table.h.
#include "session/plan/table.h"

#include "parallel/traffic.h"

#include <inttypes.h>
#include <math.h>

static void add_number(const char *key, double value, text *out)
{
    if (isfinite(value))
        text_addf(out, ",\"%s\":%.9g", key, value);
    else
        text_addf(out, ",\"%s\":null", key);
}

static void add_times(const prediction *p, text *out)
{
    text_addf(out, "\"step_ms\":%.9g", 1e3 * p->step_s);
    add_number("tokens_per_s", p->tokens_per_s, out);
    add_number("mfu", p->mfu, out);
    add_number("exposed_ms", 1e3 * p->exposed_s, out);
    add_number("transfer_ms", 1e3 * p->transfer_s, out);
    add_number("bubble", p->bubble, out);
}

static void print_time(const table_row *r, text *out)
{
    if (!r->is_predicted) return;
    text_add(out, ",\"time\":{");
    add_times(&r->prediction, out);
    add_number("days", r->training.bill.days, out);
    add_number("kilowatt_hours", r->training.bill.kilowatt_hours, out);
    add_number("price", r->training.bill.price, out);
    text_add(out, "}");
}

static void print_json_row(const table *t, const table_row *r, text *out)
{
    const memory_estimate *n = &r->estimate;
    int group[PROCESS_GROUPS];
    char name[MESH_NAME_BYTES];
    text_addf(out, "{\"group\":\"%s\",\"name\":\"%s\",\"is_job\":%s,", r->group, r->name,
              r->is_job ? "true" : "false");
    if (r->refused.code != OK) {
        text_add(out, "\"possible\":false}");
        return;
    }
    text_addf(out, "\"possible\":true,\"fits\":%s,\"rank\":%d,\"ranks_alike\":%s,\"bytes\":{",
              table_fits_word(t, n, "null", "true", "false"), n->rank, n->alike ? "true" : "false");
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", plan_category_name((plan_category)c), n->bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "},", n->total);
    if (table_has_tiers(t)) text_addf(out, "\"host_bytes\":%" PRIu64 ",", n->host_total);
    text_addf(out, "\"file_bytes\":%" PRIu64 ",\"sent_per_step\":{", n->file);
    const int count = traffic_groups(n->sent_bytes, group);
    for (int i = 0; i < count; i++)
        text_addf(out, "%s\"%s\":%.0f", i ? "," : "", process_group_name(&n->mesh, group[i], name),
                  n->sent_bytes[group[i]]);
    text_add(out, "}");
    print_time(r, out);
    text_add(out, "}");
}

static void print_machine(const table *t, text *out)
{
    const planner_machine *m = t->o->machine;
    if (!m) return;
    text_add(out, ",\"machine\":{\"name\":");
    text_add_json(out, m->name ? m->name : "");
    add_number("expected_error_percent",
               m->expected_error_percent > 0 ? m->expected_error_percent : NAN, out);
    text_add(out, ",\"assumptions\":");
    text_add_json(out, m->assumptions.chars ? m->assumptions.chars : "");
    text_add(out, "}");
    if (t->row[0].is_predicted) session_training_print(&t->row[0].training, true, out);
}

static void print_advice(const table *t, text *out)
{
    const char *comma = "";
    text_add(out, ",\"guides\":[");
    for (int i = 0; i < ADVICE_RULES; i++) {
        const advice *a = &t->advice[i];
        if (!a->says) continue;
        text_addf(out, "%s{\"guide\":\"%s\",\"says\":\"%s\",\"agrees\":%s,\"reason\":", comma,
                  a->guide, a->says, a->agrees ? "true" : "false");
        text_add_json(out, a->reason);
        text_add(out, "}");
        comma = ",";
    }
    text_add(out, "]");
}

static void print_found(const table *t, const char *key, bool known, const search_found *f,
                        text *out)
{
    text changes = {0}, name = {0};
    job changed;
    text_addf(out, ",\"%s\":", key);
    if (!known) {
        text_add(out, "null");
        return;
    }
    layout_apply(t->j, &f->layout, &changed);
    job_describe_changes(t->j, &changed, &changes);
    layout_print(&f->layout, &name);
    text_add(out, "{\"layout\":");
    text_add_json(out, name.chars ? name.chars : "");
    text_add(out, ",\"changes\":");
    text_add_json(out, changes.chars ? changes.chars : "");
    text_addf(out, ",\"bytes\":%" PRIu64 ",\"time\":{", f->estimate.total);
    add_times(&f->prediction, out);
    text_add(out, "}}");
    if (changes.failed || name.failed) text_fail(out);
    text_clear(&changes);
    text_clear(&name);
}

static void print_search(const table *t, text *out)
{
    const search_result *r = &t->found;
    if (!t->searched) return;
    text_addf(out,
              ",\"search\":{\"layouts\":%zu,\"impossible\":%zu,\"too_large\":%zu,\"slower\":%zu,"
              "\"predicted\":%zu",
              r->tried, r->ended[SEARCH_IMPOSSIBLE], r->ended[SEARCH_TOO_LARGE],
              r->ended[SEARCH_SLOWER], r->ended[SEARCH_PREDICTED]);
    print_found(t, "best", r->has_best, &r->best, out);
    print_found(t, "second", r->has_second, &r->second, out);
    text_add(out, ",\"second_wins_if\":");
    if (t->change.what)
        text_addf(out, "{\"what\":\"%s\",\"times\":%.4g}", t->change.what, t->change.times);
    else
        text_add(out, "null");
    text_add(out, "}");
}

void table_print_json(const table *t, text *out)
{
    const fit_search *l = &t->fit;
    text changes = {0}, budget = {0};
    job_describe_changes(t->j, &l->changed, &changes);
    if (t->budget == MEMORY_ESTIMATE_NO_BUDGET)
        text_add(&budget, "null");
    else
        text_addf(&budget, "%" PRIu64, t->budget);
    text_addf(out,
              "{\"params\":%" PRIu64 ",\"ranks\":%d,\"budget_bytes\":%s"
              ",\"fits\":%s,\"first_fit\":{\"fits\":%s,\"changes\":\"%s\",\"bytes\":%" PRIu64
              ",\"needs_path\":%s},\"rows\":[",
              t->row[0].estimate.params, t->ranks, budget.chars,
              table_fits_word(t, &t->row[0].estimate, "null", "true", "false"),
              table_fits_word(t, &l->estimate, "null", "true", "false"),
              changes.chars ? changes.chars : "", l->estimate.total,
              l->needs_path ? "true" : "false");
    for (int i = 0; i < t->rows; i++) {
        text_add(out, i ? "," : "");
        print_json_row(t, &t->row[i], out);
    }
    text_add(out, "]");
    print_machine(t, out);
    print_advice(t, out);
    print_search(t, out);
    text_add(out, "}\n");
    text_clear(&changes);
    text_clear(&budget);
}
