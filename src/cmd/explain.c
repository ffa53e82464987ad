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
    TRY(inputs_open(j, &in, e));
    TRY(session_explain(j, &in, json, &out, e));
    fwrite(out.at, 1, out.bytes, stdout);
done:
    text_clear(&out);
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
    if (cmd_wants_help(argc, argv)) return cmd_job_help(usage);
    TRY(cmd_open_job(argc, argv, &j, e));
    TRY(explain(j, json, e));
done:
    job_close(j);
    return result == OK ? 0 : cmd_fail(e);
}
