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
    char *path = NULL;
    text page = {0};
    const made_run run = {.ranks = ranks,
                          .steps = 400,
                          .step_ms = 120,
                          .hosts = ranks > 1 ? 2 : 1,
                          .micro = 2,
                          .stages = ranks > 1 ? 2 : 1,
                          .cause = MADE_COMPUTE,
                          .slow_rank = ranks * 3 / 8,
                          .slow_by = 0.2,
                          .slow_from = 150,
                          .jitter = 0.08,
                          .comm = 0.12,
                          .input = 0.03,
                          .creep = 0.3,
                          .save_every = 100,
                          .save = 0.01,
                          .spike_step = 320};
    char *evidence[] = {"rank 3 computes 20 % longer than the median of its stage, since step 150",
                        "others waited 21 ms of 145 ms for it in each of the last 32 steps"};
    const report r = {
        .verdict = "COMPUTE STRAGGLER",
        .line = "COMPUTE STRAGGLER rank 3 on host a: it adds 17 % to each step",
        .evidence = evidence,
        .evidences = 2,
        .next =
            "compare the clock rate and the neighbours of this rank's cores with those of rank 2"};
    TRY(made_run_write(folder, &run, e));
    TRY(add_evals(folder, run.steps, e));
    TRY(run_view_open(folder, &v, e));
    TRY(page_make(v, ranks == 8 ? &r : NULL, &page, e));
    TRY(file_join(folder, "page.html", &path, e));
    TRY(file_replace(path, page.chars, page.bytes, e));
done:
    text_clear(&page);
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
