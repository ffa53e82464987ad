// accelerate_config.c -- `trireme accelerate config`: writes the configuration file of HuggingFace Accelerate, from the
// answers of a user, from this machine alone (default), or from an older file (update).
#include "cmd/accelerate/accelerate_file.h"

#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct config_request {
    const char *file, *precision;
} config_request;

static const flag flags[] = {
    {"--config_file", FLAG_TEXT, offsetof(config_request, file), "FILE",
     "Names the file (default: default_config.yaml, in accelerate/ of $HF_HOME or "
     "~/.cache/huggingface)."},
    {"--mixed_precision", FLAG_TEXT, offsetof(config_request, precision), "no|fp16|bf16",
     "Sets the precision of the file that `default` writes (default: no)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status make_folder_of(const char *path, err *e)
{
    char *folder = NULL;
    const char *slash = strrchr(path, '/');
    status result = OK;
    if (!slash || slash == path) return OK;
    TRY(text_copy(path, &folder, e));
    folder[slash - path] = 0;
    TRY(file_make_directories(folder, e));
done:
    free(folder);
    return result;
}

static status config_ask(const char *path, bool is_default_path, err *e)
{
    status result = OK;
    json_t *config = NULL;
    TRY(accelerate_ask(&config, e));
    if (is_default_path) TRY(make_folder_of(path, e));
    TRY(accelerate_save(path, config, accelerate_is_json(path), e));
    console_line("accelerate configuration saved at %s", path);
done:
    json_decref(config);
    return result;
}

// The file of this machine: all GPUs, or else one rank on the CPU.
static json_t *config_of_machine(const char *precision)
{
    device_description d;
    const bool has_gpu = device_describe("cuda", NULL, &d, NULL) == OK && d.count > 0;
    return json_pack("{s:s, s:s, s:s, s:i, s:b}", "compute_environment", "LOCAL_MACHINE",
                     "mixed_precision", precision, "distributed_type",
                     has_gpu && d.count > 1 ? "MULTI_GPU" : "NO", "num_processes",
                     has_gpu ? d.count : 1, "use_cpu", !has_gpu);
}

// Accelerate writes JSON here, whatever the name of the file: YAML readers read it, too.
static status config_default(const char *path, const char *precision, err *e)
{
    status result = OK;
    json_t *few = NULL, *config = NULL;
    if (file_exists(path)) {
        console_line(
            "Configuration already exists at %s, will not override. Run `trireme accelerate "
            "config`, or name another file with --config_file.",
            path);
        return OK;
    }
    if (strcmp(precision, "no") != 0 && strcmp(precision, "fp16") != 0 &&
        strcmp(precision, "bf16") != 0)
        FAIL(E_USAGE, "--mixed_precision: found %.*s; valid: no, fp16, bf16",
             TEXT_CUT(precision, 60));
    few = config_of_machine(precision);
    if (!few) FAIL(E_MEMORY, "no memory for a configuration of Accelerate");
    TRY(accelerate_complete(few, &config, e));
    TRY(make_folder_of(path, e));
    TRY(accelerate_save(path, config, true, e));
    console_line("accelerate configuration saved at %s", path);
done:
    json_decref(config);
    json_decref(few);
    return result;
}

static status config_update(const char *path, err *e)
{
    status result = OK;
    json_t *config = NULL;
    TRY(accelerate_load(path, &config, e));
    TRY(accelerate_save(path, config, accelerate_is_json(path), e));
    console_line("Successfully updated the configuration file at %s.", path);
done:
    json_decref(config);
    return result;
}

static int cmd_accelerate_config(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    config_request r = {.file = NULL};
    flag_texts words = {0};
    char *path = NULL;
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    const char *what = words.count ? words.items[0] : "";
    if (words.count > 1 || (*what && strcmp(what, "default") != 0 && strcmp(what, "update") != 0))
        FAIL(E_USAGE, "accelerate config: found %.*s; valid: default, update, or nothing",
             TEXT_CUT(words.items[words.count - 1], 60));
    if (r.precision && strcmp(what, "default") != 0)
        FAIL(E_USAGE, "--mixed_precision: valid for `accelerate config default` only");
    if (r.file)
        TRY(text_copy(r.file, &path, e));
    else
        TRY(accelerate_default_path(&path, e));
    if (strcmp(what, "default") == 0)
        TRY(config_default(path, r.precision ? r.precision : "no", e));
    else if (strcmp(what, "update") == 0)
        TRY(config_update(path, e));
    else
        TRY(config_ask(path, !r.file, e));
done:
    free(path);
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_accelerate_config = {
    .name = "config",
    .run = cmd_accelerate_config,
    .usage = "[--config_file FILE]\n"
             "default [--mixed_precision no|fp16|bf16] [--config_file FILE]\n"
             "update [--config_file FILE]",
    .help = "Writes the configuration file of HuggingFace Accelerate.",
    .about = "Asks Accelerate's questions on the terminal, or reads an answer from each line of "
             "standard input; an empty line takes the default. `default` asks nothing, writes a "
             "small file for this machine, and leaves an existing file as it is. `update` brings "
             "an older file into the newest form.",
    .flags = flags,
    .flag_count = FLAGS,
};
