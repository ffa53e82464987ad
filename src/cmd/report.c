// report.c -- `trireme report`: says what held a run back, with its evidence and the next thing to try, or what differs
// between two runs. monitor/report/ makes the report out of what lies in the run's folder.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/report_page.h"

#include "monitor/report/report.h"

#include <stdio.h>
#include <string.h>

typedef struct report_request {
    const char *against, *html, *serve;
    bool json;
} report_request;

static const flag flags[] = {
    {"--against", FLAG_TEXT, offsetof(report_request, against), "RUN2",
     "Compares with another run: speed, phases, loss, memory and settings."},
    {"--html", FLAG_TEXT, offsetof(report_request, html), "FILE.html",
     "Writes the page of the run to this file: loss, phases, a step over ranks, memory, waits."},
    {"--serve", FLAG_TEXT, offsetof(report_request, serve), "[ADDRESS:]PORT",
     "Serves the page over HTTP until Ctrl-C, made anew for each request. Without ADDRESS only "
     "this "
     "machine reaches it; port 0 takes a free one."},
    {"--json", FLAG_SWITCH, offsetof(report_request, json), NULL,
     "Prints one JSON object, which is that of report.json without --against."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// A run that was opened, and its report.
typedef struct report_of_run {
    run_view *view;
    report *report;
} report_of_run;

static status open_report(const char *folder, report_of_run *out, err *e)
{
    status result = OK;
    TRY(run_view_open(folder, &out->view, e));
    TRY(report_make(out->view, &out->report, e));
done:
    return result;
}

static void close_report(report_of_run *r)
{
    report_close(r->report);
    run_view_close(r->view);
}

static void print(const json_t *json, const text *lines, bool wants_json)
{
    enum { DIGITS = 6 };
    if (!wants_json) {
        console_print(lines->chars, lines->bytes);
        return;
    }
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    putchar('\n');
}

static status print_report(const char *folder, const report_request *q, err *e)
{
    status result = OK;
    report_of_run a = {0}, b = {0};
    json_t *difference = NULL;
    text lines = {0};
    TRY(open_report(folder, &a, e));
    if (q->against) {
        TRY(open_report(q->against, &b, e));
        TRY(report_compare(a.report, b.report, &difference, &lines, e));
        print(difference, &lines, q->json);
    } else {
        report_add_text(a.report, &lines);
        TRY(text_check(&lines, e));
        print(a.report->json, &lines, q->json);
    }
done:
    text_clear(&lines);
    json_decref(difference);
    close_report(&a);
    close_report(&b);
    return result;
}

static int cmd_report(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    report_request q = {0};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &q, &words, e));
    if (words.count != 1) FAIL(E_USAGE, "report: give the folder of a run");
    if (!!q.against + !!q.html + !!q.serve > 1)
        FAIL(E_USAGE, "report: give one of --against, --html and --serve");
    if (q.html)
        TRY(report_write_html(words.items[0], q.html, e));
    else if (q.serve)
        TRY(report_serve(words.items[0], q.serve, e));
    else
        TRY(print_report(words.items[0], &q, e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_report = {
    .name = "report",
    .run = cmd_report,
    .usage = "RUN [--against RUN2] [--html FILE.html] [--serve [ADDRESS:]PORT] [--json]",
    .help = "Says what held a run back, and what to try next.",
    .about =
        "Reads RUN/log.jsonl and the records of the ranks in RUN/spans, also while the run goes. "
        "Prints a verdict in one line, its evidence, the next thing to try, and the phases of the "
        "ranks that kept the others waiting. With --against it prints what differs from RUN to "
        "RUN2.",
    .flags = flags,
    .flag_count = FLAGS,
};
