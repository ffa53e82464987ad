// translate.c -- `trireme translate`: prints the job file that another system's configuration means. config/translate.c
// writes the text.
#include "cmd/check/check.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "config/job.h"

#include <string.h>

typedef struct command_request {
    bool json, check;
    int64_t steps;
    const char *python;
} command_request;

#define AT(member) offsetof(command_request, member)
static const flag flags[] = {
    {"--json", FLAG_SWITCH, AT(json), NULL,
     "Prints one JSON object: the settings, the remarks, and their own value of every key; with "
     "--check the steps of both."},
    {"--check", FLAG_SWITCH, AT(check), NULL,
     "Runs some steps of both, and compares losses, gradient norms and memory."},
    {"--steps", FLAG_COUNT, AT(steps), "N", "Sets the number of steps of --check (default: 5)."},
    {"--python", FLAG_TEXT, AT(python), "PROGRAM",
     "Names the Python of --check, which has the packages of the original (default: python3)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// Returns the exit code, or -1 and *e.
static int run_check(const command_request *q, int files, int argc, char **argv, err *e)
{
    if (files > 1) {
        err_set(e, E_USAGE, "--check: found %d files; valid: one", files);
        return -1;
    }
    if (q->steps < 1 || q->steps > CHECK_STEPS_MOST) {
        err_set(e, E_USAGE, "--steps: found %lld; valid: 1 to %d", (long long)q->steps,
                CHECK_STEPS_MOST);
        return -1;
    }
    return check_run(&(check_request){.from = argv[1],
                                      .file = argv[2],
                                      .keys = argc - 3,
                                      .key = argv + 3,
                                      .steps = q->steps,
                                      .python = q->python,
                                      .json = q->json});
}

static int cmd_translate(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    text out = {0};
    command_request q = {.steps = 5, .python = "python3"};
    int code = 0;
    TRY(flags_take(flags, FLAGS, &argc, argv, &q, e));
    int files = 0;
    while (2 + files < argc && strncmp(argv[2 + files], "--", 2) != 0) files++;
    if (argc < 2 || strncmp(argv[1], "--", 2) == 0)
        FAIL(E_USAGE, "translate: needs the name of a system and a file of it: trireme translate "
                      "deepspeed ds.json");
    if (!files) FAIL(E_USAGE, "translate %s: needs a file", argv[1]);
    TRY(job_translate(argv[1], files, argv + 2, argc - 2 - files, argv + 2 + files, q.json, &out,
                      e));
    if (q.check)
        code = run_check(&q, files, argc, argv, e);
    else
        console_print(out.chars, out.bytes);
    if (code < 0) result = e->code;
done:
    text_clear(&out);
    return result == OK ? code : cmd_fail(e);
}

const command command_translate = {
    .name = "translate",
    .run = cmd_translate,
    .usage = "FROM FILE ... [--key value ...] [--json]\n"
             "--check FROM FILE [--key value ...] [--steps N] [--python PROGRAM] [--json]",
    .help = "Prints the job file that another system's configuration means.",
    .about = "FROM is a system: deepspeed, accelerate, megatron, instructlab, torch, tensorflow, "
             "trainer (transformers), trl, axolotl or llamafactory. "
             "Each line of the job says which line of their file it comes from; "
             "comments say what has "
             "no equal, and which numbers are summed in which type. Keys of the job file may "
             "follow, and win. `train "
             "JOB.yaml --deepspeed FILE` lays the same file over a job. Starts nothing and changes "
             "nothing without --check, which needs model.path and data.train, trains in a "
             "temporary folder, and exits with 0 where the runs agree, 1 where they do not, and 2 "
             "where the original cannot run here.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
