// ilab.c -- `trireme ilab model train`: `train` with the flags and the config.yaml of InstructLab in place of a job file.
// config/dialect/instructlab.c says what they mean.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/two_systems.h"

#include "base/file.h"
#include "base/text.h"
#include "config/job.h"

#include <stdlib.h>
#include <string.h>

// The file of --config, of ILAB_GLOBAL_CONFIG, or the one in InstructLab's folder where it is there. An empty text: none.
static status find_config(const char *given, text *out, err *e)
{
    const char *variable = getenv("ILAB_GLOBAL_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");
    if (!given && variable && *variable) given = variable;
    if (given) {
        text_add(out, given);
    } else if ((xdg && *xdg) || home) {
        text_addf(out, "%s%s/instructlab/config.yaml", xdg && *xdg ? xdg : home,
                  xdg && *xdg ? "" : "/.config");
        if (out->chars && !file_exists(out->chars)) text_clear(out);
    }
    return out->failed ? text_check(out, e) : OK;
}

static int cmd_ilab(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    command_args a = {.ours = NULL};
    text config = {0};
    int code = 0;
    TRY(command_args_divide(argc, argv, &a, e));
    TRY(find_config(a.config, &config, e));
    const job_theirs theirs = {
        .dialect = "instructlab", .file = config.chars, .argc = a.their_count, .argv = a.theirs};
    code = cmd_train_with(a.our_count, a.ours, &theirs);
done:
    text_clear(&config);
    command_args_clear(&a);
    return result == OK ? code : cmd_fail(e);
}

static const flag flags[] = {
    {"--config", FLAG_TEXT, 0, "FILE",
     "Names InstructLab's configuration (default: ILAB_GLOBAL_CONFIG, or "
     "~/.config/instructlab/config.yaml)."},
    {"--resume", FLAG_TEXT, 0, "auto|never|DIR",
     "Chooses the checkpoint to resume from, as in train."},
    {"--overwrite", FLAG_SWITCH, 0, NULL,
     "Removes the run in --ckpt-output-dir, and starts a new one there."},
    {"--quiet", FLAG_SWITCH, 0, NULL, "Prints no progress."},
    {"--json", FLAG_SWITCH, 0, NULL, "Prints each event of the run as one JSON object a line."},
};

const command command_ilab_model_train = {
    .name = "train",
    .run = cmd_ilab,
    .usage = "[flags of ilab model train] [--config FILE] [--key value ...]",
    .help = "Trains as InstructLab's command does.",
    .about =
        "It takes the flags of InstructLab's command, as --data-path, --model-path, --num-epochs, "
        "--effective-batch-size, --gpus and --learning-rate; they win over the section train of "
        "its config.yaml, and that wins over its defaults. --data-path is a JSONL file of "
        "conversations, or the PREFIX of token shards, which `trireme data prepare` writes; "
        "--lora-rank trains an adapter, over weights in NF4 by default. Checkpoints go to "
        "--ckpt-output-dir. "
        "Keys of the job file win over all: --train.steps 100. `trireme translate instructlab "
        "config.yaml` prints the job.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .takes_job = true,
};
