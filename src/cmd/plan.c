// plan.c -- `trireme plan`: memory and traffic of a job under every strategy, before anything runs.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "session/session.h"

#include <stdio.h>

typedef struct request {
    bool json;
} request;

static const flag flags[] = {
    {"--json", FLAG_SWITCH, offsetof(request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static int cmd_plan(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    job *j = NULL;
    session_inputs in = {0};
    text out = {0};
    request r = {.json = false};
    TRY(flags_take(flags, FLAGS, &argc, argv, &r, e));
    TRY(cmd_open_job(argc, argv, &j, e));
    TRY(session_inputs_open_to_plan(j, &in, e));
    cmd_warn(in.warnings.chars);
    TRY(session_plan(j, &in, r.json, &out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    session_inputs_close(&in);
    job_close(j);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_plan = {
    .name = "plan",
    .run = cmd_plan,
    .usage = "JOB.yaml [--key value ...] [--json]",
    .help = "Prints the memory and traffic of a job under every strategy, and what fits.",
    .about =
        "Shows what each rank needs of memory, by category, and sends in a step: as the job "
        "is, under every data-parallel policy, with every kind of recompute, and with state in "
        "files; then what fits memory.budget, and the first change that does where the job "
        "does not. Starts nothing and allocates nothing, so the model may be far larger than "
        "this machine. The exit code is 0 whether the job fits or not.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
