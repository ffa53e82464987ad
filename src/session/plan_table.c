// plan_table.c -- `trireme plan`: what the job and other strategies of it need of every rank's memory
// and send in a step, side by side. See session.h. Every row is the plan of a changed copy of the
// job; nothing is allocated, so the model may be larger than this machine.
#include "session/fit_search.h"

#include "parallel/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24 };

typedef struct table_row {
    const char *group; // "policy", "recompute", "offload"
    char name[48];
    job changed;
    bool is_job; // as the job is
    memory_estimate need;
    err refused; // code OK: it can be done
} table_row;

typedef struct table {
    const job *j;
    const session_inputs *in;
    int ranks;
    memory_estimate_base base;
    uint64_t budget;
    table_row *row;
    int rows;
} table;

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
    *out = j->train.global_batch / mesh_data_ranks(&m) > j->train.micro_batch;
done:
    return result;
}

// The same word on both axes where there are two; `outer` NULL means that.
static table_row *add_policy(table *t, const char *name, const char *outer, const char *inner)
{
    table_row *r = add_row(t, "policy", name);
    const bool two = t->j->parallel.dp_replicate > 1;
    const char *over = outer ? outer : two ? inner : "ddp";
    r->changed.strategy.dp = (policies){*policy_find(over), *policy_find(inner)};
    return r;
}

// Where sharded gradients are reduced after each micro-batch, the row that sums them first, and the
// reverse.
static void add_other_order(table *t, const char *word)
{
    const bool sums = t->j->strategy.no_sync == NO_SYNC_TRUE;
    char name[48];
    snprintf(name, sizeof name, "%s, no_sync %s", word, sums ? "false" : "true");
    add_policy(t, name, NULL, word)->changed.strategy.no_sync = sums ? NO_SYNC_FALSE : NO_SYNC_TRUE;
}

static status add_policies(table *t, err *e)
{
    status result = OK;
    static const char *const words[] = {"ddp", "zero1", "zero2", "zero3"};
    bool several;
    TRY(several_micros(t->j, t->ranks, &several, e));
    for (int i = 0; i < 4; i++) add_policy(t, words[i], NULL, words[i]);
    for (int i = 2; several && i < 4; i++) add_other_order(t, words[i]);
    if (t->j->parallel.dp_replicate > 1) {
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

// zero3, then one state after the other to files.
static void add_offloads(table *t)
{
    static const plan_state order[] = {PLAN_OPTIMIZER_STATE, PLAN_GRADIENTS, PLAN_WEIGHTS};
    static const char *const names[] = {"zero3, optimizer in a file", "and gradients",
                                        "and weights"};
    for (int i = 0; i < 3; i++) {
        table_row *r = add_row(t, "offload", names[i]);
        r->changed.strategy.dp.inner = *policy_find("zero3");
        if (t->j->parallel.dp_replicate > 1) r->changed.strategy.dp.outer = *policy_find("zero3");
        for (int k = 0; k <= i; k++) r->changed.strategy.offload.tier[order[k]] = TIER_FILE;
    }
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
        text_clear(&changes);
        // What the job's keys exclude is a row that says so.
        result = memory_estimate_of(&r->changed, t->in, t->ranks, &t->base, &r->need, &r->refused);
        if (result != OK && result != E_USAGE) FAIL(result, "%s", r->refused.text);
        result = OK;
    }
done:
    return result;
}

// ---- Text

static void print_gigabytes(const char *before, double bytes, text *out)
{
    text_addf(out, bytes < 1e11 ? "%s%.3g" : "%s%.0f", before, bytes / 1e9);
}

// Parameter arithmetic: 7B parameters are 28 GB in fp32, training takes 4 to 8 times that.
static void print_model(const table *t, text *out)
{
    const double params = (double)t->row[0].need.params;
    const int states = optim_state_tensors(&t->j->optimizer);
    const int weight = (int)dtype_bytes(t->j->train.precision),
              master = t->j->train.precision == F32 ? 0 : 4;
    const int each = weight + 4 + master + 4 * states;
    text_addf(out, "model: %.0f parameters", params);
    print_gigabytes(", ", 4 * params, out);
    print_gigabytes(" GB in fp32; training takes 4 to 8 times that with activations: ", 16 * params,
                    out);
    print_gigabytes(" to ", 32 * params, out);
    text_addf(out, " GB\nstate: %d bytes per parameter (weights %d, gradients 4, optimizer %d)",
              each, weight, master + 4 * states);
    print_gigabytes(", ", each * params, out);
    text_add(out, " GB in all\n");
}

static void print_size(double bytes, text *out)
{
    char size[24];
    text_bytes(size, bytes);
    text_addf(out, "  %11s", bytes > 0 ? size : "-");
}

// Without a budget nobody can tell.
static const char *fits_word(const table *t, uint64_t bytes, const char *unknown, const char *yes,
                             const char *no)
{
    return t->budget == MEMORY_ESTIMATE_NO_BUDGET ? unknown : bytes <= t->budget ? yes : no;
}

static void print_row(const table *t, const table_row *r, text *out)
{
    const memory_estimate *n = &r->need;
    double sent = 0;
    text_addf(out, "%c %-27s", r->is_job ? '*' : ' ', r->name);
    if (r->refused.code != OK) {
        text_addf(out, "  not possible: %s\n", r->refused.text);
        return;
    }
    for (int c = 0; c <= BYTES_WORKSPACE; c++) print_size((double)n->bytes[c], out);
    print_size((double)(n->bytes[BYTES_DATA] + n->bytes[BYTES_KERNELS]), out);
    print_size((double)n->bytes[BYTES_RUNTIME], out);
    print_size((double)n->total, out);
    text_addf(out, "  %-4s", fits_word(t, n->total, "-", "yes", "no"));
    print_size((double)n->file, out);
    for (int k = 0; k < PROCESS_GROUPS; k++) sent += n->sent_bytes[k];
    print_size(sent, out);
    if (!n->alike) text_addf(out, "  rank %d", n->rank);
    text_add(out, "\n");
}

static void print_table(const table *t, text *out)
{
    const memory_estimate *n = &t->row[0].need;
    char size[24];
    const char *group = "";
    const bool budget = t->budget != MEMORY_ESTIMATE_NO_BUDGET;
    print_model(t, out);
    text_bytes(size, (double)t->budget);
    text_addf(out, "job: %d ranks (", t->ranks);
    for (int a = 0; a < AXES; a++)
        text_addf(out, "%s%s %d", a ? ", " : "", axis_name((axis)a), n->size[a]);
    text_addf(out,
              "), global batch %lld in micro-batches of %lld x %lld tokens, %s; %s%s%s\n\n  %-27s",
              (long long)t->j->train.global_batch, (long long)t->j->train.micro_batch,
              (long long)t->in->seq_len, dtype_name(t->j->train.precision),
              budget ? "budget " : "no memory.budget, and more ranks than this machine starts",
              budget ? size : "", budget ? " a rank" : "", "bytes of the largest rank");
    for (int c = 0; c <= BYTES_WORKSPACE; c++)
        text_addf(out, "  %11s", plan_category_name((plan_category)c));
    text_addf(out, "  %11s  %11s  %11s  %-4s  %11s  %11s\n", "other", "runtime", "total", "fits",
              "in files", "sent a step");
    for (int i = 0; i < t->rows; i++) {
        if (strcmp(group, t->row[i].group) != 0 && i > 0) text_addf(out, "%s\n", t->row[i].group);
        group = t->row[i].group;
        print_row(t, &t->row[i], out);
    }
    text_add(out, "\n* as the job is; other: data, kernels; runtime: the program itself, as "
                  "measured; sent a step: by "
                  "the formulas of a ring\n");
}

// ---- JSON

static void print_json_row(const table *t, const table_row *r, text *out)
{
    const memory_estimate *n = &r->need;
    text_addf(out, "{\"group\":\"%s\",\"name\":\"%s\",\"is_job\":%s,", r->group, r->name,
              r->is_job ? "true" : "false");
    if (r->refused.code != OK) {
        text_add(out, "\"possible\":false}");
        return;
    }
    text_addf(out, "\"possible\":true,\"fits\":%s,\"rank\":%d,\"ranks_alike\":%s,\"bytes\":{",
              fits_word(t, n->total, "null", "true", "false"), n->rank,
              n->alike ? "true" : "false");
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", plan_category_name((plan_category)c), n->bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "},\"file_bytes\":%" PRIu64 ",\"sent_per_step\":{",
              n->total, n->file);
    for (int k = 0; k < PROCESS_GROUPS; k++)
        text_addf(out, "%s\"%s\":%.0f", k ? "," : "", process_group_name(k), n->sent_bytes[k]);
    text_add(out, "}}");
}

static void print_json(const table *t, const fit_search *l, text *out)
{
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
              t->row[0].need.params, t->ranks, budget.chars,
              fits_word(t, t->row[0].need.total, "null", "true", "false"),
              fits_word(t, l->need.total, "null", "true", "false"),
              changes.chars ? changes.chars : "", l->need.total, l->wants_path ? "true" : "false");
    for (int i = 0; i < t->rows; i++) {
        text_add(out, i ? "," : "");
        print_json_row(t, &t->row[i], out);
    }
    text_add(out, "]}\n");
    text_clear(&changes);
    text_clear(&budget);
}

status session_plan(const job *j, const session_inputs *in, bool json, text *out, err *e)
{
    status result = OK;
    table t = {.j = j, .in = in, .ranks = j->launch.ranks};
    fit_search l;
    t.row = calloc(ROWS, sizeof *t.row);
    if (!t.row) FAIL(E_IO, "no memory for the table");
    TRY(memory_estimate_base_open(j, &t.base, e));
    t.budget = t.base.budget;
    TRY(fill(&t, e));
    if (t.row[0].refused.code != OK) FAIL(E_USAGE, "%s", t.row[0].refused.text);
    TRY(fit_search_run(j, in, t.ranks, t.budget, &t.base, &l, e));
    if (json) {
        print_json(&t, &l, out);
        goto done;
    }
    print_table(&t, out);
    if (t.row[0].need.total > t.budget) {
        text_add(out, l.fits ? "does not fit; the first change that does: "
                             : "does not fit, nor does any change; the least: ");
        fit_search_print(j, &l, out);
        text_add(out, "\n");
    }
done:
    memory_estimate_base_close(&t.base);
    free(t.row);
    return result;
}
