// table.c -- `trireme plan`: memory of the largest rank and bytes sent in a step, for the job
// and for other strategies. See session_plan in session.h. Each row is the plan of a changed copy
// of the job. It allocates nothing of the model, which may be larger than this machine.
#include "session/plan/fit_search.h"

#include "base/alloc.h"
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
    bool is_job; // `changed` equals the job
    memory_estimate estimate;
    err refused; // code OK: the plan allows it
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

// Returns whether the device has a memory of its own.
static bool is_apart(const table *t)
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
    if (is_apart(t)) add_offloads_to(t, TIER_HOST, "zero3, optimizer on host");
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

// ---- Text

static void print_gigabytes(const char *before, double bytes, text *out)
{
    text_addf(out, bytes < 1e11 ? "%s%.3g" : "%s%.0f", before, bytes / 1e9);
}

// Groups differ in bytes per parameter; the table has them.
static void print_model(const table *t, text *out)
{
    const double params = (double)t->row[0].estimate.params;
    const int states = optim_state_tensors(&t->j->optimizer);
    const int weight = (int)dtype_bytes(job_dtype(t->j)), master = job_dtype(t->j) == F32 ? 0 : 4;
    const int each = weight + 4 + master + 4 * states;
    text_addf(out, "model: %.0f parameters", params);
    print_gigabytes(", ", 4 * params, out);
    text_add(out, " GB in fp32\n");
    if (t->j->groups) return;
    text_addf(out, "state: %d bytes per parameter (weights %d, gradients 4, optimizer %d)", each,
              weight, master + 4 * states);
    print_gigabytes(", ", each * params, out);
    text_add(out, " GB before it is sharded\n");
}

static void print_size(double bytes, text *out)
{
    char size[24];
    text_bytes(size, bytes);
    text_addf(out, "  %11s", bytes > 0 ? size : "-");
}

// Without a budget it is unknown whether a row fits.
static const char *fits_word(const table *t, const memory_estimate *n, const char *unknown,
                             const char *yes, const char *no)
{
    if (t->budget == MEMORY_ESTIMATE_NO_BUDGET) return unknown;
    return memory_estimate_fits(n, t->budget, &t->base) ? yes : no;
}

static void print_row(const table *t, const table_row *r, text *out)
{
    const memory_estimate *n = &r->estimate;
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
    text_addf(out, "  %-4s", fits_word(t, n, "-", "yes", "no"));
    if (is_apart(t)) print_size((double)n->host_total, out);
    print_size((double)n->file, out);
    for (int k = 0; k < PROCESS_GROUPS; k++) sent += n->sent_bytes[k];
    print_size(sent, out);
    if (!n->alike) text_addf(out, "  rank %d", n->rank);
    text_add(out, "\n");
}

// Appends "4", with a split "[3, 1] sequences by rank", and where ranks will measure "up to 4".
static void print_micro_batch(const table *t, text *out)
{
    const batch_split s = job_batch_split(t->j, &t->row[0].estimate.mesh);
    if (job_measures_split(t->j)) text_add(out, "up to ");
    if (!s.of) text_addf(out, "%lld", (long long)s.each);
    for (int i = 0; s.of && i < s.ranks; i++) text_addf(out, i ? ", %d" : "[%d", s.of[i]);
    if (s.of) text_add(out, "] sequences by rank");
}

static void print_job(const table *t, text *out)
{
    const memory_estimate *n = &t->row[0].estimate;
    char size[24];
    const bool budget = t->budget != MEMORY_ESTIMATE_NO_BUDGET;
    text_bytes(size, (double)t->budget);
    text_addf(out, "job: %d ranks (", t->ranks);
    for (int a = 0; a < AXES; a++)
        text_addf(out, "%s%s %d", a ? ", " : "", axis_name((axis)a), n->mesh.size[a]);
    text_addf(out, "), global batch %lld in micro-batches of ",
              (long long)t->j->train.global_batch);
    print_micro_batch(t, out);
    text_addf(out, " x %lld tokens, %s; %s%s%s\n\n", (long long)t->in->seq_len,
              job_precision_name(t->j),
              budget ? "budget " : "no memory.budget, and more ranks than this machine starts",
              budget ? size : "", budget ? " a rank" : "");
}

static void print_wide_heads(const table *t, text *out)
{
    text_addf(out, "  %-27s", "bytes of the largest rank");
    for (int c = 0; c <= BYTES_WORKSPACE; c++)
        text_addf(out, "  %11s", plan_category_name((plan_category)c));
    text_addf(out, "  %11s  %11s  %11s  %-4s", "other", "runtime", "total", "fits");
    if (is_apart(t)) text_addf(out, "  %11s", "on the host");
    text_addf(out, "  %11s  %11s\n", "in files", "sent a step");
}

static void print_narrow_heads(const table *t, text *out)
{
    (void)t;
    text_addf(out, "  %-26s%12s%12s%12s %-4s%11s\n", "bytes of the largest rank", "state",
              "activations", "total", "fits", "sent");
}

// As print_row, in 80 columns. State is all that is kept for parameters.
static void print_narrow_row(const table *t, const table_row *r, text *out)
{
    const memory_estimate *n = &r->estimate;
    double state = 0, sent = 0;
    char size[4][24];
    for (int c = 0; c <= BYTES_BUFFERS; c++) state += (double)n->bytes[c];
    for (int k = 0; k < PROCESS_GROUPS; k++) sent += n->sent_bytes[k];
    const double figures[] = {state, (double)n->bytes[BYTES_ACTIVATIONS], (double)n->total, sent};
    for (int i = 0; i < 4; i++) text_bytes(size[i], figures[i]);
    text_addf(out, "%c %-26s", r->is_job ? '*' : ' ', r->name);
    if (r->refused.code != OK)
        text_addf(out, "  not possible: %s\n", r->refused.text);
    else
        text_addf(out, "%12s%12s%12s %-4s%11s\n", size[0], size[1], size[2],
                  fits_word(t, n, "-", "yes", "no"), sent > 0 ? size[3] : "-");
}

// The table is for a terminal of 80 columns, or as wide as all its columns.
typedef struct table_form {
    void (*print_heads)(const table *t, text *out);
    void (*print_row)(const table *t, const table_row *r, text *out);
    const char *legend;
} table_form;

enum { WIDE_COLUMNS = 192 };

static const table_form WIDE = {print_wide_heads, print_row,
                                "* as the job is; other: data, kernels; runtime: the program "
                                "itself, as measured; sent a step: by the formulas of a ring\n"};
static const table_form NARROW = {print_narrow_heads, print_narrow_row,
                                  "* as the job is; state: weights, gradients, optimizer and "
                                  "buffers; total: also workspace, data and "
                                  "the program itself; sent: in a step, by the formulas of a ring; "
                                  "--json and 192 columns show all\n"};

// Appends lines, and breaks those that are longer than `columns` before a word. 0: none is.
static void add_wrapped(const char *lines, int columns, text *out)
{
    int column = 0, indent = 4;
    for (const char *word = lines; *word;) {
        const int spaces = (int)strspn(word, " "), bytes = (int)strcspn(word + spaces, " \n");
        if (columns > 0 && column > indent && column + spaces + bytes > columns) {
            text_addf(out, "\n%*s%.*s", indent, "", bytes, word + spaces);
            column = indent + bytes;
        } else {
            text_addf(out, "%.*s", spaces + bytes, word);
            column += spaces + bytes;
        }
        word += spaces + bytes;
        if (*word == '\n') text_add(out, "\n"), column = 0, word++;
    }
}

static void print_table(const table *t, const table_form *f, text *out)
{
    const char *group = "";
    print_model(t, out);
    print_job(t, out);
    f->print_heads(t, out);
    for (int i = 0; i < t->rows; i++) {
        if (strcmp(group, t->row[i].group) != 0 && i > 0) text_addf(out, "%s\n", t->row[i].group);
        group = t->row[i].group;
        f->print_row(t, &t->row[i], out);
    }
    text_addf(out, "\n%s", f->legend);
}

static void print_change(const table *t, const fit_search *l, text *out)
{
    if (memory_estimate_fits(&t->row[0].estimate, t->budget, &t->base)) return;
    text_add(out, l->fits ? "does not fit; the first change that does: "
                          : "does not fit, nor does any change; the least: ");
    fit_search_print(t->j, l, out);
    text_add(out, "\n");
}

// ---- JSON

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
              fits_word(t, n, "null", "true", "false"), n->rank, n->alike ? "true" : "false");
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", plan_category_name((plan_category)c), n->bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "},", n->total);
    if (is_apart(t)) text_addf(out, "\"host_bytes\":%" PRIu64 ",", n->host_total);
    text_addf(out, "\"file_bytes\":%" PRIu64 ",\"sent_per_step\":{", n->file);
    const int count = traffic_groups(n->sent_bytes, group);
    for (int i = 0; i < count; i++)
        text_addf(out, "%s\"%s\":%.0f", i ? "," : "", process_group_name(&n->mesh, group[i], name),
                  n->sent_bytes[group[i]]);
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
              t->row[0].estimate.params, t->ranks, budget.chars,
              fits_word(t, &t->row[0].estimate, "null", "true", "false"),
              fits_word(t, &l->estimate, "null", "true", "false"),
              changes.chars ? changes.chars : "", l->estimate.total,
              l->needs_path ? "true" : "false");
    for (int i = 0; i < t->rows; i++) {
        text_add(out, i ? "," : "");
        print_json_row(t, &t->row[i], out);
    }
    text_add(out, "]}\n");
    text_clear(&changes);
    text_clear(&budget);
}

status session_plan(const job *j, const session_inputs *in, const session_plan_options *o,
                    text *out, err *e)
{
    status result = OK;
    table t = {.j = j, .in = in, .ranks = j->launch.ranks};
    const bool narrow = o->columns > 0 && o->columns < WIDE_COLUMNS;
    fit_search l;
    text lines = {0};
    TRY(alloc_zeroed(&t.row, ROWS, sizeof *t.row, "the table of strategies", e));
    TRY(memory_estimate_read_base(j, &t.base, e));
    t.budget = t.base.budget;
    TRY(fill(&t, e));
    if (t.row[0].refused.code != OK) FAIL(E_USAGE, "%s", t.row[0].refused.text);
    TRY(fit_search_run(j, in, t.ranks, t.budget, &t.base, &l, e));
    if (o->json) {
        print_json(&t, &l, out);
    } else {
        print_table(&t, narrow ? &NARROW : &WIDE, &lines);
        print_change(&t, &l, &lines);
        TRY(text_check(&lines, e));
        add_wrapped(lines.chars, narrow ? o->columns : 0, out);
    }
    TRY(text_check(out, e));
done:
    text_clear(&lines);
    free(t.row);
    return result;
}
