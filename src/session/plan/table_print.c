// table_print.c -- the text of the table. See table.h.
#include "session/plan/table.h"

#include <math.h>
#include <string.h>

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
    if (t->j->groups || t->j->lora.how.rank > 0) return;
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
    text_addf(out, "  %-4s", table_fits_word(t, n, "-", "yes", "no"));
    if (table_has_tiers(t)) print_size((double)n->host_total, out);
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
              budget ? "budget " : "no memory.budget, and the memory of the ranks is not known",
              budget ? size : "", budget ? " a rank" : "");
}

static void print_wide_heads(const table *t, text *out)
{
    text_addf(out, "  %-27s", "bytes of the largest rank");
    for (int c = 0; c <= BYTES_WORKSPACE; c++)
        text_addf(out, "  %11s", plan_category_name((plan_category)c));
    text_addf(out, "  %11s  %11s  %11s  %-4s", "other", "runtime", "total", "fits");
    if (table_has_tiers(t)) text_addf(out, "  %11s", "on the host");
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
                  table_fits_word(t, n, "-", "yes", "no"), sent > 0 ? size[3] : "-");
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

static void print_memory(const table *t, const table_form *f, text *out)
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

static void print_change(const table *t, text *out)
{
    if (memory_estimate_fits(&t->row[0].estimate, t->budget, &t->base)) return;
    text_add(out, t->fit.fits ? "does not fit; the first change that does: "
                              : "does not fit, nor does any change; the least: ");
    fit_search_print(t->j, &t->fit, out);
    text_add(out, "\n");
}

status table_print(const table *t, int columns, text *out, err *e)
{
    status result = OK;
    const bool narrow = columns > 0 && columns < WIDE_COLUMNS;
    text lines = {0};
    print_memory(t, narrow ? &NARROW : &WIDE, &lines);
    print_change(t, &lines);
    table_print_times(t, &lines);
    TRY(text_check(&lines, e));
    add_wrapped(lines.chars, narrow ? columns : 0, out);
done:
    text_clear(&lines);
    return result;
}
