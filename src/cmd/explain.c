// explain.c -- `trireme explain`: what a job would do, before anything runs.
#include "cmd/cmd.h"

#include "session/session.h"

#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: trireme explain JOB.yaml [--key value ...] [--json]\n"
                            "\n"
                            "Prints every effective value of the job and where it came from, the "
                            "plan (bytes per rank by category) and\n"
                            "the schedule of one step. Starts nothing and changes nothing.\n\n";

static status explain(job *j, bool json, err *e)
{
    status result = OK;
    text out = {0};
    inputs in = {0};
    trainer_options o;
    plan *p = NULL;
    schedule s = {0};
    uint64_t params;
    double flops;
    TRY(inputs_open(j, &in, e));
    TRY(session_options(j, &in, j->launch.ranks, &o, e));
    TRY(trainer_plan(&o, &p, &s, &params, &flops, e));
    if (json) text_add(&out, "{\"job\":");
    job_explain(j, json, &out);
    if (json)
        text_addf(&out, ",\"params\":%llu,\"flops_per_rank_and_step\":%.17g,\"plan\":",
                  (unsigned long long)params, flops);
    else
        text_addf(&out, "\nmodel: %llu parameters; %.4g FLOP per rank and step\n",
                  (unsigned long long)params, flops);
    plan_print(p, json, &out);
    text_add(&out, json ? ",\"schedule\":" : "\n");
    schedule_print(&s, json, &out);
    text_add(&out, json ? "}\n" : "");
    fwrite(out.at, 1, out.bytes, stdout);
done:
    text_clear(&out);
    plan_free(p);
    schedule_clear(&s);
    inputs_close(&in);
    return result;
}

// Takes --json out of the arguments; all others are the job's.
static bool take_json(int *argc, char **argv)
{
    bool found = false;
    int n = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            found = true;
        else
            argv[n++] = argv[i];
    }
    *argc = n;
    return found;
}

int cmd_explain(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    job *j = NULL;
    bool json = take_json(&argc, argv);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return cmd_job_help(usage);
    const char *path = argc > 1 && strncmp(argv[1], "--", 2) != 0 ? argv[1] : NULL;
    int skip = path ? 2 : 1;
    TRY(job_open(path, argc - skip, argv + skip, &j, e));
    TRY(explain(j, json, e));
done:
    job_close(j);
    return result == OK ? 0 : cmd_fail(e);
}
