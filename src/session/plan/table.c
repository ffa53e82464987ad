// table.c -- `trireme plan`: memory of the largest rank and bytes sent in a step, for the job
// and for other strategies, and the time of a step where a machine is known. See session_plan in session.h. Each row is
// the plan of a changed copy of the job. It allocates nothing of the model, which may be larger than this machine.
#include "session/plan/table.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 24 };

// ---- Rows

static table_row *add_row(table *t, const char *group, const char *name)
{
    table_row *r = &t->row[t->rows++];
    *r = (table_row){.group = group, .changed = *t->j};
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

static status several_micros(const job *j, int ranks, bool *out, err *e)
{
    status result = OK;
    mesh m;
    TRY(job_solve_mesh(j, ranks, &m, e));
    *out = job_micro_batches(j, &m) > 1;
done:
    return result;
}

// `outer` NULL takes the inner policy for both axes of a mesh that has two.
static table_row *add_policy(table *t, const char *name, const char *outer, const char *inner)
{
    table_row *r = add_row(t, "policy", name);
    const bool two = t->j->parallel.size[AXIS_DP_REPLICATE] > 1;
    const char *over = outer ? outer : two ? inner : "ddp";
    r->changed.strategy.dp = (policies){*policy_find(over), *policy_find(inner)};
    return r;
}

// Adds a row with the other value of no_sync.
static void add_other_no_sync(table *t, const char *policy_name)
{
    const bool sums = t->j->strategy.no_sync == NO_SYNC_TRUE;
    char name[48];
    snprintf(name, sizeof name, "%s, no_sync %s", policy_name, sums ? "false" : "true");
    add_policy(t, name, NULL, policy_name)->changed.strategy.no_sync =
        sums ? NO_SYNC_FALSE : NO_SYNC_TRUE;
}

static status add_policies(table *t, err *e)
{
    status result = OK;
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    bool several;
    TRY(several_micros(t->j, t->ranks, &several, e));
    for (int i = 0; i < 4; i++) add_policy(t, names[i], NULL, names[i]);
    for (int i = 2; several && i < 4; i++) add_other_no_sync(t, names[i]);
    if (t->j->parallel.size[AXIS_DP_REPLICATE] > 1) {
        add_policy(t, "hybrid zero2", "ddp", "zero2");
        add_policy(t, "hybrid zero3", "ddp", "zero3");
    }
done:
    return result;
}

static void add_recomputes(table *t)
{
    for (int i = 0; i < RECOMPUTES; i++)
        add_row(t, "recompute", RECOMPUTE_NAMES[i])->changed.strategy.recompute = (recompute_mode)i;
}

bool table_has_tiers(const table *t)
{
    return t->j->strategy.offload.host_is_apart;
}

// zero3 with optimizer state, then gradients, then weights on a tier.
static void add_offloads_to(table *t, memory_tier to, const char *first)
{
    static const plan_state order[] = {PLAN_OPTIMIZER_STATE, PLAN_GRADIENTS, PLAN_WEIGHTS};
    const char *const names[] = {first, "and gradients", "and weights"};
    for (int i = 0; i < 3; i++) {
        table_row *r = add_row(t, "offload", names[i]);
        r->changed.strategy.dp.inner = *policy_find("zero3");
        if (t->j->parallel.size[AXIS_DP_REPLICATE] > 1)
            r->changed.strategy.dp.outer = *policy_find("zero3");
        for (int k = 0; k <= i; k++) r->changed.strategy.offload.tier[order[k]] = to;
    }
}

static void add_offloads(table *t)
{
    if (table_has_tiers(t)) add_offloads_to(t, TIER_HOST, "zero3, optimizer on host");
    add_offloads_to(t, TIER_FILE, "zero3, optimizer in a file");
}

static status fill(table *t, err *e)
{
    status result = OK;
    table_row *own = add_row(t, "job", "as the job is");
    own->is_job = true;
    TRY(add_policies(t, e));
    add_recomputes(t);
    add_offloads(t);
    for (int i = 0; i < t->rows; i++) {
        table_row *r = &t->row[i];
        text changes = {0};
        job_describe_changes(t->j, &r->changed, &changes);
        r->is_job = changes.bytes == 0;
        result = text_check(&changes, e);
        text_clear(&changes);
        if (result != OK) goto done;
        if (i > 0 && r->is_job) {
            r->estimate = own->estimate;
            r->refused = own->refused;
            continue;
        }
        // A row that the plan refuses prints the reason.
        result =
            memory_estimate_of(&r->changed, t->in, t->ranks, &t->base, &r->estimate, &r->refused);
        if (result != OK && result != E_USAGE) FAIL(result, "%s", r->refused.text);
        result = OK;
    }
done:
    return result;
}

// Without a budget it is unknown whether a row fits.
const char *table_fits_word(const table *t, const memory_estimate *n, const char *unknown,
                            const char *yes, const char *no)
{
    if (t->budget == MEMORY_ESTIMATE_NO_BUDGET) return unknown;
    return memory_estimate_fits(n, t->budget, &t->base) ? yes : no;
}

// ---- Times

static status predict_row(const table *t, table_row *r, err *e)
{
    err refused = {.code = OK};
    const planner_machine *m = t->o->machine;
    const status result =
        session_predict(&r->changed, t->in, t->ranks, m, &r->prediction, &refused);
    r->is_predicted = result == OK;
    if (r->is_predicted)
        r->training = session_training_of(&r->changed, t->in, t->ranks, (double)r->estimate.params,
                                          t->o->tokens, m, &r->prediction);
    if (result == OK || result == E_USAGE || result == E_FIT) return OK;
    return err_set(e, result, "%s", refused.text);
}

static status predict_rows(table *t, err *e)
{
    status result = OK;
    for (int i = 0; t->o->machine && i < t->rows; i++) {
        table_row *r = &t->row[i];
        if (r->refused.code != OK) continue;
        TRY(predict_row(t, r, e));
    }
done:
    return result;
}

static bool fits(const table *t, const memory_estimate *n)
{
    return memory_estimate_fits(n, t->budget, &t->base);
}

// The layout of the search, or else the fastest row that fits, or else the first change that fits.
static void choose(const table *t, job *out, double *seconds)
{
    const table_row *best = NULL;
    *out = t->fit.fits ? t->fit.changed : *t->j;
    *seconds = NAN;
    if (t->found.has_best) {
        layout_apply(t->j, &t->found.best.layout, out);
        *seconds = t->found.best.prediction.step_s;
        return;
    }
    for (int i = 0; i < t->rows; i++) {
        const table_row *r = &t->row[i];
        if (r->is_predicted && fits(t, &r->estimate) &&
            (!best || r->prediction.step_s < best->prediction.step_s))
            best = r;
    }
    if (!best) return;
    *out = best->changed;
    *seconds = best->prediction.step_s;
}

static status advise(table *t, err *e)
{
    const planner_machine *m = t->o->machine;
    job chosen;
    double seconds;
    choose(t, &chosen, &seconds);
    const advice_of x = {.j = t->j,
                         .in = t->in,
                         .ranks = t->ranks,
                         .ranks_per_host =
                             m && m->ranks_per_host > 0 ? m->ranks_per_host : t->ranks,
                         .params = t->row[0].estimate.params,
                         .base = &t->base,
                         .budget = t->budget,
                         .machine = m,
                         .chosen = &chosen,
                         .chosen_s = seconds};
    return advice_fill(&x, t->advice, e);
}

// ---- The search

static status search(table *t, err *e)
{
    status result = OK;
    const search_options o = {.machine = t->o->machine,
                              .base = &t->base,
                              .budget = t->budget,
                              .predict = session_predict};
    if (!t->o->search) return OK;
    if (t->j->parallel.batch_split)
        FAIL(E_USAGE, "parallel.batch_split: the search splits batches evenly; valid: even");
    t->searched = true;
    TRY(search_run(t->j, t->in, &o, &t->found, e));
    TRY(search_find_change(t->j, t->in, &o, &t->found, &t->change, e));
done:
    return result;
}

static status write_best(const table *t, job *j, err *e)
{
    status result = OK;
    job best;
    if (!t->o->best) return OK;
    if (!t->found.has_best) FAIL(E_FIT, "--write: no layout fits in memory");
    layout_apply(j, &t->found.best.layout, &best);
    TRY(job_take_changes(j, &best, "plan --search", e));
    job_write_yaml(j, t->o->best);
    TRY(text_check(t->o->best, e));
done:
    return result;
}

status session_plan(job *j, const session_inputs *in, const session_plan_options *o, text *out,
                    err *e)
{
    status result = OK;
    table t = {.j = j, .in = in, .o = o, .ranks = j->launch.ranks};
    TRY(alloc_zeroed(&t.row, ROWS, sizeof *t.row, "the table of strategies", e));
    TRY(memory_estimate_read_base(j, in, &t.base, e));
    t.budget = t.base.budget;
    TRY(fill(&t, e));
    if (t.row[0].refused.code != OK) FAIL(E_USAGE, "%s", t.row[0].refused.text);
    TRY(fit_search_run(j, in, t.ranks, t.budget, &t.base, &t.fit, e));
    TRY(predict_rows(&t, e));
    TRY(search(&t, e));
    TRY(advise(&t, e));
    if (o->json)
        table_print_json(&t, out);
    else
        TRY(table_print(&t, o->columns, out, e));
    TRY(text_check(out, e));
    TRY(write_best(&t, j, e));
done:
    free(t.row);
    return result;
}
