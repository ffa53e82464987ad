// ilab.c -- `trireme ilab model train`: `train` with the flags and the config.yaml of InstructLab in place of a job file.
// config/dialect/instructlab.c says what they mean.
#include "cmd/cmd.h"
#include "cmd/command.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "config/job.h"

#include <stdlib.h>
#include <string.h>

// The arguments of both systems. Each array has room for all.
typedef struct command_args {
    char **ours, **theirs; // ours[0] is the command
    int our_count, their_count;
    const char *config; // of --config; NULL: none
} command_args;

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] && strchr("0123456789.", word[1]) == NULL;
}

// Returns whether an option is a key of the job, "--train.steps", or a flag of `train`.
static bool is_ours(const char *word)
{
    static const char *const FLAGS[] = {"--resume", "--overwrite", "--quiet", "--json"};
    const size_t bytes = strcspn(word, "=");
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        if (strlen(FLAGS[i]) == bytes && strncmp(word, FLAGS[i], bytes) == 0) return true;
    return memchr(word, '.', bytes) != NULL;
}

// Takes the value of --config at argv[*i]: the text behind "=", or the next argument.
static status take_config(int argc, char **argv, int *i, command_args *out, err *e)
{
    const char *equals = strchr(argv[*i], '=');
    out->config = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    return out->config && *out->config ? OK : err_set(e, E_USAGE, "--config: needs a value (FILE)");
}

// An option and the words behind it belong to one system.
static status divide(int argc, char **argv, command_args *out, err *e)
{
    status result = OK;
    bool ours = false;
    TRY(alloc_zeroed(&out->ours, (size_t)argc, sizeof *out->ours, "arguments", e));
    TRY(alloc_zeroed(&out->theirs, (size_t)argc, sizeof *out->theirs, "arguments", e));
    out->ours[out->our_count++] = argv[0];
    for (int i = 1; i < argc; i++) {
        const bool option = is_option(argv[i]);
        if (option && strncmp(argv[i], "--config", strcspn(argv[i], "=")) == 0 &&
            strcspn(argv[i], "=") == strlen("--config")) {
            TRY(take_config(argc, argv, &i, out, e));
            continue;
        }
        if (option) ours = is_ours(argv[i]);
        if (ours)
            out->ours[out->our_count++] = argv[i];
        else
            out->theirs[out->their_count++] = argv[i];
    }
done:
    return result;
}

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
    TRY(divide(argc, argv, &a, e));
    TRY(find_config(a.config, &config, e));
    const job_theirs theirs = {
        .dialect = "instructlab", .file = config.chars, .argc = a.their_count, .argv = a.theirs};
    code = cmd_train_with(a.our_count, a.ours, &theirs);
done:
    text_clear(&config);
    free(a.ours);
    free(a.theirs);
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
        "its config.yaml, and that wins over its defaults. --data-path is the PREFIX of token "
        "shards, which `trireme data prepare` writes. Checkpoints go to --ckpt-output-dir. "
        "Keys of the job file win over all: --train.steps 100. `trireme translate instructlab "
        "config.yaml` prints the job.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .takes_job = true,
};
