// fine_tuners.c -- `trireme trl sft` and its like, `trireme axolotl train` and `trireme llamafactory-cli train`: `train` with
// another fine-tuning system's file and options in place of a job file. Their dialects say what these mean.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/two_systems.h"

#include "config/job.h"

#include <string.h>

static int cmd_trl(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    command_args a = {.ours = NULL};
    int code = 0;
    TRY(command_args_divide(argc, argv, &a, e));
    a.theirs[a.their_count++] = "--command";
    a.theirs[a.their_count++] = argv[0];
    const job_theirs theirs = {
        .dialect = "trl", .file = a.config, .argc = a.their_count, .argv = a.theirs};
    code = cmd_train_with(a.our_count, a.ours, &theirs);
done:
    command_args_clear(&a);
    return result == OK ? code : cmd_fail(e);
}

// The file is the first argument.
static int train_file(const char *dialect, int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    command_args a = {.ours = NULL};
    int code = 0;
    const bool has_file = argc > 1 && argv[1][0] != '-';
    const char *file = has_file ? argv[1] : NULL;
    if (has_file) argv[1] = argv[0];
    TRY(command_args_divide(argc - has_file, argv + has_file, &a, e));
    if (!file) file = a.config;
    if (!file) FAIL(E_USAGE, "%s: needs a file: %s train FILE", argv[0], dialect);
    const job_theirs theirs = {
        .dialect = dialect, .file = file, .argc = a.their_count, .argv = a.theirs};
    code = cmd_train_with(a.our_count, a.ours, &theirs);
done:
    command_args_clear(&a);
    return result == OK ? code : cmd_fail(e);
}

static int cmd_axolotl(int argc, char **argv)
{
    return train_file("axolotl", argc, argv);
}

static int cmd_llamafactory(int argc, char **argv)
{
    return train_file("llamafactory", argc, argv);
}

static const flag FLAGS[] = {
    {"--config", FLAG_TEXT, 0, "FILE", "Names the configuration."},
    {"--resume", FLAG_TEXT, 0, "auto|never|DIR",
     "Chooses the checkpoint to resume from, as in train."},
    {"--overwrite", FLAG_SWITCH, 0, NULL,
     "Removes the run in the output folder, and starts a new one there."},
    {"--quiet", FLAG_SWITCH, 0, NULL, "Prints no progress."},
    {"--json", FLAG_SWITCH, 0, NULL, "Prints each event of the run as one JSON object a line."},
};

#define TRL_COMMAND(word, what)                                                                    \
    {                                                                                              \
        .name = word, .run = cmd_trl, .usage = "--config FILE [--key value ...]", .help = what,    \
        .about = "It takes the keys of TRL's configuration as options, too, as --learning_rate; "  \
                 "they win over the file, and keys of the job file, as --train.steps 100, win "    \
                 "over all. `trireme translate trl FILE` prints the job.",                         \
        .flags = FLAGS, .flag_count = sizeof FLAGS / sizeof *FLAGS, .takes_job = true,             \
    }

static const command TRL_COMMAND_OF[] = {
    TRL_COMMAND("sft", "Trains on samples as TRL's command does."),
    TRL_COMMAND("dpo", "Trains on preferences as TRL's command does."),
    TRL_COMMAND("kto", "Trains on good and bad answers as TRL's command does."),
    TRL_COMMAND("orpo", "Trains on preferences as TRL's ORPOTrainer does."),
};

static const command *const TRL[] = {&TRL_COMMAND_OF[0], &TRL_COMMAND_OF[1], &TRL_COMMAND_OF[2],
                                     &TRL_COMMAND_OF[3], NULL};

const command command_trl = {
    .name = "trl",
    .help = "Holds the commands of TRL that fine-tune.",
    .subcommands = TRL,
};

#define FILE_COMMAND(function, system)                                                             \
    {                                                                                              \
        .name = "train", .run = function, .usage = "FILE [--key value ...]",                       \
        .help = "Trains as " system "'s command does.",                                            \
        .about = "It takes the keys of FILE as options, too; they win over the file, and keys of " \
                 "the job file, as --train.steps 100, win over all. `trireme translate` prints "   \
                 "the job.",                                                                       \
        .flags = FLAGS, .flag_count = sizeof FLAGS / sizeof *FLAGS, .takes_job = true,             \
    }

static const command command_axolotl_train = FILE_COMMAND(cmd_axolotl, "axolotl");
static const command command_llamafactory_train = FILE_COMMAND(cmd_llamafactory, "LLaMA-Factory");
static const command *const AXOLOTL[] = {&command_axolotl_train, NULL};
static const command *const LLAMAFACTORY[] = {&command_llamafactory_train, NULL};

const command command_axolotl = {
    .name = "axolotl",
    .help = "Holds the command of axolotl that trains.",
    .subcommands = AXOLOTL,
};

const command command_llamafactory = {
    .name = "llamafactory-cli",
    .help = "Holds the command of LLaMA-Factory that trains.",
    .subcommands = LLAMAFACTORY,
};
