// plan.c -- `trireme plan`: prints the memory and traffic of a job under every strategy, the times of its steps where a
// machine is known, and the layout that one should run, before anything runs. session/plan/table.c writes the text.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/planned.h"

#include "base/file.h"

#include <stdio.h>

typedef struct plan_request {
    session_plan_options o;
    machine_files machine;
    const char *tokens, *write; // as given; NULL: not given
} plan_request;

static const flag flags[] = {
    {"--cluster", FLAG_TEXT, offsetof(plan_request, machine.cluster), "FILE",
     "Plans for the machines that this cluster file describes, which need not be here."},
    {"--machine", FLAG_TEXT, offsetof(plan_request, machine.machine), "FILE",
     "Reads the rates of this machine from FILE, which `trireme bench calibrate` writes (default: "
     "trireme/machine.json in the user's configuration folder, where it is)."},
    {"--search", FLAG_SWITCH, offsetof(plan_request, o.search), NULL,
     "Finds the layout with the shortest step: policies, tp, pp and its schedule, cp, "
     "micro-batch and recompute."},
    {"--tokens", FLAG_TEXT, offsetof(plan_request, tokens), "N",
     "Prints days, energy and price for N tokens (default: the tokens of the job)."},
    {"--write", FLAG_TEXT, offsetof(plan_request, write), "FILE",
     "Writes the job with the layout that --search finds to this file."},
    {"--json", FLAG_SWITCH, offsetof(plan_request, o.json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status check_request(plan_request *q, err *e)
{
    status result = OK;
    int64_t tokens = 0;
    if (q->tokens && (!text_to_count(q->tokens, &tokens) || tokens < 1))
        FAIL(E_USAGE, "--tokens: found '%s'; valid: 1 or more, as 15e12 or 300e9", q->tokens);
    if (q->write && !*q->write) FAIL(E_USAGE, "--write: needs the name of a file");
    if (q->write && !q->o.search) FAIL(E_USAGE, "--write: valid with --search");
    q->o.tokens = (double)tokens;
done:
    return result;
}

// Without a flag the machine file of this user is read where it is. Only a search needs one.
static status open_machine(const plan_request *q, const job *j, planner_machine *machine,
                           bool *known, err *why, err *e)
{
    status result = OK;
    *known = q->machine.cluster != NULL;
    if (*known) return OK;
    result = session_machine_open(j, q->machine.machine, machine, why);
    *known = result == OK;
    const bool needed = q->machine.machine || q->o.search || result != E_USAGE;
    if (result != OK && needed) FAIL(result, "%s", why->text);
    result = OK;
done:
    return result;
}

static status plan_job(job *j, plan_request *q, planner_machine *machine, err *e)
{
    status result = OK;
    session_inputs in = {0};
    text out = {0}, best = {0};
    err why = {.code = OK};
    bool known = false;
    TRY(session_inputs_open_to_plan(j, NULL, &in, e));
    cmd_warn(in.warnings.chars);
    cmd_warn(in.train_warnings.chars);
    TRY(open_machine(q, j, machine, &known, &why, e));
    q->o.machine = known ? machine : NULL;
    q->o.no_machine = known ? NULL : why.text;
    q->o.columns = console_columns();
    q->o.best = q->write ? &best : NULL;
    TRY(session_plan(j, &in, &q->o, &out, e));
    if (q->write) TRY(file_replace(q->write, best.chars, best.bytes, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    text_clear(&best);
    session_inputs_close(&in);
    return result;
}

static int cmd_plan(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    planned_job p = {.job = NULL};
    plan_request q = {.tokens = NULL};
    TRY(flags_take(flags, FLAGS, &argc, argv, &q, e));
    TRY(check_request(&q, e));
    TRY(planned_job_open_on(argc, argv, &q.machine, &p, e));
    TRY(plan_job(p.job, &q, &p.machine, e));
done:
    planned_job_close(&p);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_plan = {
    .name = "plan",
    .run = cmd_plan,
    .usage = "JOB.yaml [--key value ...] [--cluster FILE | --machine FILE] [--tokens N] [--json]\n"
             "JOB.yaml [--key value ...] --search [--write FILE] [--cluster FILE | --machine FILE]",
    .help =
        "Prints the memory, traffic and times of a job under every strategy, and finds the best.",
    .about =
        "Shows the bytes of memory of each rank, by category, and the bytes that it sends in a "
        "step: for the job as it is, under every data-parallel policy, with every kind of "
        "recompute, and with state in files. Then it says whether the job fits memory.budget, "
        "and if not, names the first change that makes it fit. With the rates of this machine or "
        "with a cluster file it also predicts how long a step takes, and prints what the "
        "prediction "
        "assumes, the days, the energy and the price of the training, and what guides say. "
        "With --search it finds the layout with the shortest step of all that fit, the "
        "runner-up, and what would have to change for that one to win. Starts nothing and "
        "allocates nothing, so the model may be far larger than this machine. The exit code is 0 "
        "whether the job fits or not.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
