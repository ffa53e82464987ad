// translate.c -- `trireme translate`: prints the job file that another system's configuration means. config/translate.c
// writes the text.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "config/job.h"

#include <string.h>

static const flag flags[] = {
    {"--json", FLAG_SWITCH, 0, NULL,
     "Prints one JSON object: the settings, the remarks, and their own value of every key."},
};

static int cmd_translate(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    text out = {0};
    bool json = false;
    TRY(flags_take(flags, 1, &argc, argv, &json, e));
    int files = 0;
    while (2 + files < argc && strncmp(argv[2 + files], "--", 2) != 0) files++;
    if (argc < 2 || strncmp(argv[1], "--", 2) == 0)
        FAIL(E_USAGE, "translate: needs the name of a system and a file of it: trireme translate "
                      "deepspeed ds.json");
    if (!files) FAIL(E_USAGE, "translate %s: needs a file", argv[1]);
    TRY(job_translate(argv[1], files, argv + 2, argc - 2 - files, argv + 2 + files, json, &out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_translate = {
    .name = "translate",
    .run = cmd_translate,
    .usage = "FROM FILE ... [--key value ...] [--json]",
    .help = "Prints the job file that another system's configuration means.",
    .about = "FROM is deepspeed or megatron. Each line of the job says which line of their file it "
             "comes from; "
             "comments say what has "
             "no equal, and which numbers are summed in which type. Keys of the job file may "
             "follow, and win. `train "
             "JOB.yaml --deepspeed FILE` lays the same file over a job. Starts nothing and changes "
             "nothing.",
    .flags = flags,
    .flag_count = 1,
    .takes_job = true,
};
