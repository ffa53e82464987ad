// explain.c -- `trireme explain`: prints the values, the plan and the schedule of a job before
// anything runs. session/explain_job.c writes the text.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/planned.h"

#include "base/file.h"

#include <stdio.h>

// The flags of the command.
typedef struct explain_request {
    explain_options o;
    const char *rank, *svg, *trace; // as given; NULL: not given
    machine_files machine;
    bool time;
} explain_request;

static const flag flags[] = {
    {"--rank", FLAG_TEXT, offsetof(explain_request, rank), "R",
     "Shows the plan and the schedule of rank R (default: 0)."},
    {"--svg", FLAG_TEXT, offsetof(explain_request, svg), "FILE",
     "Writes the picture of the pipeline to this file; with --time the step in time, of any job."},
    {"--time", FLAG_SWITCH, offsetof(explain_request, time), NULL,
     "Predicts how long a step and each of its instructions take."},
    {"--machine", FLAG_TEXT, offsetof(explain_request, machine.machine), "FILE",
     "Predicts for the machine of this file of `bench calibrate` (default: this user's)."},
    {"--cluster", FLAG_TEXT, offsetof(explain_request, machine.cluster), "FILE",
     "Predicts for the machines that this cluster file describes."},
    {"--trace", FLAG_TEXT, offsetof(explain_request, trace), "FOLDER",
     "Writes the predicted step as a trace: step.tar for Perfetto, and records that `report` "
     "reads."},
    {"--even", FLAG_SWITCH, offsetof(explain_request, o.even), NULL,
     "Draws the pipeline as if all model chunks took the same time, not as their FLOPs say."},
    {"--json", FLAG_SWITCH, offsetof(explain_request, o.json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status check_flags(const explain_request *q, err *e)
{
    status result = OK;
    if (q->trace && !*q->trace) FAIL(E_USAGE, "--trace: needs the name of a folder");
    if (!q->time && (q->trace || q->machine.machine || q->machine.cluster))
        FAIL(E_USAGE, "%s: needs --time",
             q->trace             ? "--trace"
             : q->machine.machine ? "--machine"
                                  : "--cluster");
    if (q->time && q->o.even) FAIL(E_USAGE, "--even and --time: found both; valid: one of them");
done:
    return result;
}

static status check_request(explain_request *q, const job *j, err *e)
{
    status result = OK;
    int64_t rank = 0;
    if (q->rank && (!text_to_count(q->rank, &rank) || rank < 0 || rank >= j->launch.ranks))
        FAIL(E_USAGE, "--rank: found '%s'; valid: 0 to %d", q->rank, j->launch.ranks - 1);
    if (q->svg && !*q->svg) FAIL(E_USAGE, "--svg: needs the name of a file");
    if (q->svg && !q->time && j->parallel.size[AXIS_PP] == 1)
        FAIL(E_USAGE,
             "--svg: there is no pipeline to draw; valid: with parallel.pp 2 or more, or --time");
    q->o.rank = (int)rank;
done:
    return result;
}

// `machine` NULL: without times.
static status explain(job *j, explain_request *q, const planner_machine *machine, err *e)
{
    status result = OK;
    text out = {0}, picture = {0};
    session_inputs in = {0};
    // The memory of this machine does not matter to another one.
    TRY(j->own.planned ? session_inputs_open_to_plan(j, NULL, &in, e)
                       : session_inputs_open_to_explain(j, &in, e));
    cmd_warn(in.warnings.chars);
    cmd_warn(in.train_warnings.chars);
    TRY(check_request(q, j, e));
    if (q->svg) q->o.svg = &picture;
    q->o.machine = machine;
    q->o.trace = q->trace;
    TRY(session_explain(j, &in, &q->o, &out, e));
    if (q->svg) TRY(file_replace(q->svg, picture.chars, picture.bytes, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    text_clear(&picture);
    session_inputs_close(&in);
    return result;
}

static int cmd_explain(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    planned_job p = {.job = NULL};
    explain_request q = {.rank = NULL};
    TRY(flags_take(flags, FLAGS, &argc, argv, &q, e));
    TRY(check_flags(&q, e));
    TRY(q.time ? planned_job_open(argc, argv, &q.machine, &p, e)
               : cmd_open_job(argc, argv, &p.job, e));
    TRY(explain(p.job, &q, q.time ? &p.machine : NULL, e));
done:
    planned_job_close(&p);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_explain = {
    .name = "explain",
    .run = cmd_explain,
    .usage = "JOB.yaml [--key value ...] [--rank R] [--svg FILE] [--even] [--json]\n"
             "JOB.yaml [--key value ...] --time [--cluster FILE | --machine FILE] [--trace FOLDER]",
    .help = "Prints every effective value of a job and its origin, the plan and the schedule.",
    .about = "Shows the bytes of a rank by category and the schedule of one step. Of a pipeline it "
             "also draws a picture and prints the bubble (the share of time in which stages wait), "
             "analytic and simulated. With --time it predicts how long a step takes, shows the "
             "begin and "
             "the duration of each instruction and what it waits for, and why stages are idle. "
             "Starts nothing and changes nothing.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
