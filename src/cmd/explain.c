// explain.c -- `trireme explain`: what a job would do, before anything runs.
#include "cmd/cmd.h"

#include "base/file.h"
#include "session/session.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: trireme explain JOB.yaml [--key value ...] [--rank R] [--svg FILE] [--even] [--json]\n"
    "\n"
    "Prints every effective value of the job and where it came from, the plan (bytes per rank by "
    "category) and\n"
    "the schedule of one step. Where the job has a pipeline, also a picture of it, with the share "
    "of time in which\n"
    "its stages are idle: in closed form, and simulated. Starts nothing and changes nothing.\n"
    "\n"
    "  --rank R     plan and schedule of this rank (default 0)\n"
    "  --svg FILE   writes the picture of the pipeline to FILE\n"
    "  --even       the picture as if all parts of the pipeline took the same; otherwise by their "
    "FLOPs\n"
    "  --json       one object\n\n";

// The command's own flags.
typedef struct request {
    explain_options o;
    const char *rank, *svg; // as given; NULL: not
} request;

static status check_request(request *q, const job *j, err *e)
{
    status result = OK;
    int64_t rank = 0;
    if (q->rank && (!text_to_count(q->rank, &rank) || rank < 0 || rank >= j->launch.ranks))
        FAIL(E_USAGE, "--rank: found '%s'; valid: 0 to %d", q->rank, j->launch.ranks - 1);
    if (q->svg && !*q->svg) FAIL(E_USAGE, "--svg: needs the name of a file");
    if (q->svg && j->parallel.pp == 1)
        FAIL(E_USAGE, "--svg: there is no pipeline to draw; valid: with parallel.pp 2 or more");
    q->o.rank = (int)rank;
done:
    return result;
}

static status explain(job *j, request *q, err *e)
{
    status result = OK;
    text out = {0}, picture = {0};
    inputs in = {0};
    TRY(inputs_open_to_explain(j, &in, e));
    TRY(check_request(q, j, e));
    if (q->svg) q->o.svg = &picture;
    TRY(session_explain(j, &in, &q->o, &out, e));
    if (q->svg) TRY(file_replace(q->svg, picture.at, picture.bytes, e));
    fwrite(out.at, 1, out.bytes, stdout);
done:
    text_clear(&out);
    text_clear(&picture);
    inputs_close(&in);
    return result;
}

// Takes the command's own flags out of the arguments; all others are the job's.
static int take_flags(int argc, char **argv, request *q)
{
    int n = 0;
    for (int i = 0; i < argc; i++) {
        const char *given;
        if (strcmp(argv[i], "--json") == 0)
            q->o.json = true;
        else if (strcmp(argv[i], "--even") == 0)
            q->o.even = true;
        else if ((given = cmd_take_value("--rank", argc, argv, &i)))
            q->rank = given;
        else if ((given = cmd_take_value("--svg", argc, argv, &i)))
            q->svg = given;
        else
            argv[n++] = argv[i];
    }
    return n;
}

int cmd_explain(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    job *j = NULL;
    request q = {.rank = NULL};
    argc = take_flags(argc, argv, &q);
    if (cmd_wants_help(argc, argv)) return cmd_job_help(usage);
    TRY(cmd_open_job(argc, argv, &j, e));
    TRY(explain(j, &q, e));
done:
    job_close(j);
    return result == OK ? 0 : cmd_fail(e);
}
