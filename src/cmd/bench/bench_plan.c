// bench_plan.c -- `trireme bench plan`: predicts runs that others published, and prints how far the predictions are off.
#include "cmd/bench/bench_plan.h"

#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include <math.h>
#include <string.h>

typedef struct plan_request {
    const char *rows, *folder, *fit;
    bool json;
} plan_request;

static const flag flags[] = {
    {"--rows", FLAG_TEXT, offsetof(plan_request, rows), "FILE",
     "Names one file of published rows (default: all files in DIR/rows)."},
    {"--cluster-folder", FLAG_TEXT, offsetof(plan_request, folder), "DIR",
     "Names the folder of cluster files (default: examples/clusters)."},
    {"--fit", FLAG_TEXT, offsetof(plan_request, fit), "SOURCE",
     "Fits the constants to the rows of this source first, and prints them; the others judge "
     "them."},
    {"--json", FLAG_SWITCH, offsetof(plan_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags, SOURCES_MOST = 32 };

// The distinct sources, in order.
static int sources_of(const published_rows *r, const char *out[SOURCES_MOST])
{
    int count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const char *s = r->row[i].text[ROW_SOURCE];
        int k = 0;
        while (k < count && strcmp(out[k], s) != 0) k++;
        if (k == count && count < SOURCES_MOST) out[count++] = s;
    }
    return count;
}

// ---- Text

static void print_row(const published_row *row, text *out)
{
    const char *const *t = row->text;
    text_addf(out, "%-14s %-18s %-14s %5s %-6s tp %-2s pp %-2s cp %-2s vp %-2s mb %-3s %-9s ",
              t[ROW_SOURCE], t[ROW_MODEL], t[ROW_CLUSTER], t[ROW_GPUS], t[ROW_PRECISION], t[ROW_TP],
              t[ROW_PP], t[ROW_CP], t[ROW_VIRTUAL_STAGES], t[ROW_MICRO_BATCH], t[ROW_RECOMPUTE]);
    if (row->refused.code != OK)
        text_addf(out, "not possible: %s\n", row->refused.text);
    else
        text_addf(out, "%9.1f %9.1f %+6.1f %%%s%s\n", row->measured, row->predicted,
                  100 * (row->predicted / row->measured - 1),
                  row->counted ? "" : "  not counted: ", row->counted ? "" : t[ROW_NOTE]);
}

static status print_source(const published_rows *r, const char *source, text *out, err *e)
{
    status result = OK;
    published_errors plain, calibrated;
    int pairs;
    TRY(published_errors_of(r, source, 1, &plain, e));
    TRY(published_errors_of(r, source, source ? published_calibration(r, source) : 1, &calibrated,
                            e));
    const double tau = published_tau(r, source, 0.05, &pairs);
    text_addf(out, "%-16s %4d   %6.1f %6.1f %6.1f %+6.1f   %6.1f %6.1f   ", source ? source : "all",
              plain.rows, 100 * plain.mean, 100 * plain.median, 100 * plain.most, 100 * plain.bias,
              100 * calibrated.mean, 100 * calibrated.median);
    if (pairs)
        text_addf(out, "%5.2f of %d pairs\n", tau, pairs);
    else
        text_add(out, "    -\n");
done:
    return result;
}

static void print_picks(const published_rows *r, text *out)
{
    published_pick pick[PUBLISHED_GROUPS_MOST];
    const int groups = published_picks(r, pick);
    int close = 0;
    double most = 0;
    text_addf(out,
              "\nthe row of the best prediction against the best row, in groups of %d or more\n",
              PUBLISHED_GROUP_LEAST);
    for (int i = 0; i < groups; i++) {
        const char *const *t = pick[i].picked->text;
        text_addf(out, "%-14s %-24s %3d rows: loses %4.1f %%\n", t[ROW_SOURCE], t[ROW_GROUP],
                  pick[i].rows, 100 * pick[i].loss);
        close += pick[i].loss <= 0.03;
        most = fmax(most, pick[i].loss);
    }
    text_addf(out, "within 3 %% in %d of %d groups, %.1f %% at most\n", close, groups, 100 * most);
}

static status print_all(const published_rows *r, text *out, err *e)
{
    status result = OK;
    const char *source[SOURCES_MOST];
    const int count = sources_of(r, source);
    text_addf(out, "tokens a second and GPU:%88s %9s %8s\n", "measured", "predicted", "error");
    for (size_t i = 0; i < r->count; i++) print_row(&r->row[i], out);
    text_addf(out, "\n%-16s %4s   %27s   %13s   %s\n%-16s %4s   %6s %6s %6s %6s   %6s %6s\n", "",
              "", "error, %", "with one row", "Kendall's tau", "source", "rows", "mean", "median",
              "max", "bias", "mean", "median");
    for (int i = 0; i < count; i++) TRY(print_source(r, source[i], out, e));
    TRY(print_source(r, NULL, out, e));
    print_picks(r, out);
done:
    return result;
}

// ---- JSON

static status add_json_source(const published_rows *r, const char *source, text *out, err *e)
{
    status result = OK;
    published_errors plain, calibrated;
    int pairs;
    TRY(published_errors_of(r, source, 1, &plain, e));
    TRY(published_errors_of(r, source, published_calibration(r, source), &calibrated, e));
    const double tau = published_tau(r, source, 0.05, &pairs);
    text_add(out, "{\"source\":");
    text_add_json(out, source);
    text_addf(out, ",\"rows\":%d", plain.rows);
    if (plain.rows)
        text_addf(
            out,
            ",\"mean\":%.4g,\"median\":%.4g,\"max\":%.4g,\"bias\":%.4g,\"calibrated_mean\":%.4g"
            ",\"calibrated_median\":%.4g",
            plain.mean, plain.median, plain.most, plain.bias, calibrated.mean, calibrated.median);
    if (pairs) text_addf(out, ",\"tau\":%.4g", tau);
    text_addf(out, ",\"pairs\":%d}", pairs);
done:
    return result;
}

static void add_json_row(const published_row *row, text *out)
{
    static const published_column shown[] = {ROW_SOURCE, ROW_GROUP, ROW_MODEL, ROW_CLUSTER};
    static const char *const names[] = {"source", "group", "model", "cluster"};
    text_add(out, "{");
    for (int i = 0; i < 4; i++) {
        text_addf(out, "\"%s\":", names[i]);
        text_add_json(out, row->text[shown[i]]);
        text_add(out, ",");
    }
    text_addf(out, "\"line\":%d,\"counted\":%s,\"measured\":%.6g,\"predicted\":", row->line,
              row->counted ? "true" : "false", row->measured);
    if (row->refused.code == OK)
        text_addf(out, "%.6g}", row->predicted);
    else
        text_add(out, "null}");
}

static status add_json(const published_rows *r, text *out, err *e)
{
    status result = OK;
    const char *source[SOURCES_MOST];
    const int count = sources_of(r, source);
    published_pick pick[PUBLISHED_GROUPS_MOST];
    const int groups = published_picks(r, pick);
    text_add(out, "{\"rows\":[");
    for (size_t i = 0; i < r->count; i++) {
        text_add(out, i ? "," : "");
        add_json_row(&r->row[i], out);
    }
    text_add(out, "],\"sources\":[");
    for (int i = 0; i < count; i++) {
        text_add(out, i ? "," : "");
        TRY(add_json_source(r, source[i], out, e));
    }
    text_add(out, "],\"groups\":[");
    for (int i = 0; i < groups; i++) {
        text_add(out, i ? ",{\"source\":" : "{\"source\":");
        text_add_json(out, pick[i].picked->text[ROW_SOURCE]);
        text_add(out, ",\"group\":");
        text_add_json(out, pick[i].picked->text[ROW_GROUP]);
        text_addf(out, ",\"rows\":%d,\"loss\":%.4g}", pick[i].rows, pick[i].loss);
    }
    text_add(out, "]}\n");
done:
    return result;
}

static status predict_all(published_predictor *p, published_rows *r, const plan_request *q,
                          text *out, err *e)
{
    status result = OK;
    if (q->fit) TRY(published_fit(p, r, q->fit, e));
    if (q->fit && !q->json) published_fit_print(p, out);
    for (size_t i = 0; i < r->count; i++) TRY(published_row_predict(p, &r->row[i], e));
    TRY(q->json ? add_json(r, out, e) : print_all(r, out, e));
    TRY(text_check(out, e));
done:
    return result;
}

static int cmd_bench_plan(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    plan_request q = {.folder = "examples/clusters"};
    published_rows rows = {.row = NULL};
    text out = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &q, NULL, e));
    TRY(published_rows_read(q.folder, q.rows, &rows, e));
    published_predictor p = {q.folder, &rows, CLUSTER_CONSTANTS, PUBLISHED_SOFTWARE};
    TRY(predict_all(&p, &rows, &q, &out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    published_rows_clear(&rows);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_bench_plan = {
    .name = "plan",
    .run = cmd_bench_plan,
    .usage = "[--rows FILE] [--cluster-folder DIR] [--fit SOURCE] [--json]",
    .help = "Predicts runs that others published, and prints the errors.",
    .about =
        "Makes the job of each row: model, layout, batch and recompute as they were published, on "
        "the row's cluster. Prints the measured and the predicted tokens a second and GPU. Then, "
        "for each source, the mean, median and largest error, without calibration and with one "
        "factor that makes the source's first row right; Kendall's tau over pairs of one group "
        "that differ by more than 5 %; and for each group of five or more rows how much slower the "
        "row of the best prediction is than the best row. Rows whose run had what the lists lack "
        "are printed and not counted.",
    .flags = flags,
    .flag_count = FLAGS,
};
