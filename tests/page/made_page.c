// made_page.c -- writes a made-up run and its page, for the test in a browser and for the picture of docs/images.
//   made_page FOLDER RANKS   writes FOLDER/log.jsonl, FOLDER/spans/, FOLDER/page.html
#include "made_run.h"
#include "monitor/page/page.h"
#include "monitor/report/report.h"
#include "monitor/run_view.h"

#include <stdio.h>

// made_run.h evaluates nothing.
static status add_evals(const char *folder, int steps, err *e)
{
    status result = OK;
    char *path = NULL;
    FILE *log = NULL;
    TRY(file_join(folder, "log.jsonl", &path, e));
    log = fopen(path, "a");
    if (!log) FAIL(E_IO, "%s: cannot open it", path);
    for (int step = 50; step <= steps; step += 50)
        fprintf(log, "{\"event\":\"eval\",\"step\":%d,\"loss\":%.9g}\n", step,
                2.1 + 2 * exp(-step / 100.0));
done:
    if (log) fclose(log);
    free(path);
    return result;
}

static status write_page(const char *folder, int ranks, err *e)
{
    status result = OK;
    run_view *v = NULL;
    report *r = NULL;
    char *path = NULL;
    text page = {0};
    const made_run run = {.ranks = ranks,
                          .steps = 400,
                          .step_ms = 120,
                          .hosts = ranks > 1 ? 2 : 1,
                          .micro = 2,
                          .stages = ranks > 8 ? 2 : 1,
                          .cause = MADE_COMPUTE,
                          .slow_rank = ranks * 3 / 8,
                          .slow_by = 0.2,
                          .slow_from = 150,
                          .jitter = 0.08,
                          .comm = 0.12,
                          .input = 0.03,
                          .save_every = 100,
                          .save = 0.01,
                          .spike_step = 320};
    TRY(made_run_write(folder, &run, e));
    TRY(add_evals(folder, run.steps, e));
    TRY(run_view_open(folder, &v, e));
    TRY(report_make(v, &r, e));
    TRY(page_make(v, r, &page, e));
    TRY(file_join(folder, "page.html", &path, e));
    TRY(file_replace(path, page.chars, page.bytes, e));
done:
    text_clear(&page);
    report_close(r);
    run_view_close(v);
    free(path);
    return result;
}

int main(int argc, char **argv)
{
    err e = {0};
    if (argc != 3) return 2;
    if (write_page(argv[1], atoi(argv[2]), &e) != OK) fprintf(stderr, "%s\n", e.text);
    return e.code == OK ? 0 : 1;
}
