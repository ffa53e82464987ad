// plan.c -- `trireme plan`: prints the memory and traffic of a job under every strategy, before
// anything runs. session/plan/table.c writes the text.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "session/session.h"

#include <stdio.h>

typedef struct plan_request {
    bool json;
} plan_request;

static const flag flags[] = {
    {"--json", FLAG_SWITCH, offsetof(plan_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static int cmd_plan(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    job *j = NULL;
    session_inputs in = {0};
    text out = {0};
    plan_request r = {.json = false};
    TRY(flags_take(flags, FLAGS, &argc, argv, &r, e));
    TRY(cmd_open_job(argc, argv, &j, e));
    TRY(session_inputs_open_to_plan(j, NULL, &in, e));
    cmd_warn(in.warnings.chars);
    cmd_warn(in.train_warnings.chars);
    TRY(session_plan(j, &in, &(session_plan_options){.json = r.json, .columns = console_columns()},
                     &out, e));
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
    .help = "Prints the memory and traffic of a job under every strategy, and whether it fits.",
    .about =
        "Shows the bytes of memory of each rank, by category, and the bytes that it sends in a "
        "step: for the job as it is, under every data-parallel policy, with every kind of "
        "recompute, and with state in files. Then it says whether the job fits memory.budget, "
        "and if not, names the first change that makes it fit. Starts nothing and allocates "
        "nothing, so the model may be far larger than this machine. The exit code is 0 whether "
        "the job fits or not.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
