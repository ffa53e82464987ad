// plan.c -- `trireme plan`: memory and traffic of a job under every strategy, before anything runs.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "session/session.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: trireme plan JOB.yaml [--key value ...] [--json]\n"
    "\n"
    "Prints what each rank would need of memory, by category, and send in a step: as the job is, "
    "under every\n"
    "data-parallel policy, with every kind of recompute, and with state in files; what fits "
    "memory.budget, and the\n"
    "first change that does where the job does not. Starts nothing and allocates nothing, so the "
    "model may be far\n"
    "larger than this machine. The exit code is 0 whether the job fits or not.\n\n";

static bool take_json(int *argc, char **argv)
{
    bool json = false;
    int n = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else
            argv[n++] = argv[i];
    }
    *argc = n;
    return json;
}

int cmd_plan(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    job *j = NULL;
    inputs in = {0};
    text out = {0};
    const bool json = take_json(&argc, argv);
    if (cmd_wants_help(argc, argv)) return cmd_job_help(usage);
    TRY(cmd_open_job(argc, argv, &j, e));
    TRY(inputs_open_to_plan(j, &in, e));
    TRY(session_plan(j, &in, json, &out, e));
    console_print(out.at, out.bytes);
done:
    text_clear(&out);
    inputs_close(&in);
    job_close(j);
    return result == OK ? 0 : cmd_fail(e);
}
