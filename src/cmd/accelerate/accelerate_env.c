// accelerate_env.c -- `trireme accelerate env`: the facts of the program, the system and a configuration file, in the lines
// of `accelerate env`.
#include "cmd/accelerate/accelerate_file.h"

#include "base/file.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "cmd/doctor/facts.h"

#include <stdlib.h>

typedef struct env_request {
    const char *file;
} env_request;

static const flag flags[] = {
    {"--config_file", FLAG_TEXT, offsetof(env_request, file), "FILE",
     "Names the configuration file to print (default: default_config.yaml, in accelerate/ of "
     "$HF_HOME or ~/.cache/huggingface)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static const char HEAD[] = "\nCopy-and-paste the text below in your GitHub issue\n\n",
                  NO_FILE[] = "\tNot found\n";

static void print_machine(void)
{
    text platform = {0}, self = {0};
    device_description cpu, gpu;
    facts_add_platform(&platform);
    facts_add_program(&self);
    console_line("- `Trireme` version: %s", TRIREME_VERSION);
    console_line("- Platform: %s", platform.chars ? platform.chars : "");
    console_line("- `trireme` location: %s", self.chars ? self.chars : "");
    console_line("- C compiler: %s", __VERSION__);
    if (device_describe("cpu", NULL, &cpu, NULL) == OK)
        console_line("- CPU: %d cores, kernels for %s", proc_usable_cores(), cpu.kind);
    const bool has_gpu = facts_gpu(&gpu, NULL);
    console_line("- Accelerator: %s", has_gpu ? "CUDA" : "N/A");
    console_line("- System RAM: %.2f GB", facts_memory_gib());
    if (has_gpu) console_line("- GPU type: %d x %s", gpu.count, gpu.title);
    text_clear(&platform);
    text_clear(&self);
}

// Prints every key as Python prints it.
static status print_config(const json_t *config, err *e)
{
    status result = OK;
    const char *key;
    json_t *value;
    text out = {0};
    json_object_foreach((json_t *)config, key, value)
    {
        text_addf(&out, "\t- %s: ", key);
        if (json_is_string(value))
            text_add(&out, json_string_value(value));
        else
            accelerate_print_python(value, &out);
        text_add(&out, "\n");
    }
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    return result;
}

static int cmd_accelerate_env(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    env_request r = {.file = NULL};
    char *path = NULL;
    json_t *config = NULL;
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    if (r.file)
        TRY(text_copy(r.file, &path, e));
    else
        TRY(accelerate_default_path(&path, e));
    const bool found = r.file || file_exists(path);
    if (found) TRY(accelerate_load(path, &config, e));
    console_print(HEAD, sizeof HEAD - 1);
    print_machine();
    console_line(r.file ? "- `Accelerate` config passed:" : "- `Accelerate` default config:");
    if (found)
        TRY(print_config(config, e));
    else
        console_print(NO_FILE, sizeof NO_FILE - 1);
done:
    json_decref(config);
    free(path);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_accelerate_env = {
    .name = "env",
    .run = cmd_accelerate_env,
    .usage = "[--config_file FILE]",
    .help = "Prints the program, the system and the configuration file of HuggingFace Accelerate.",
    .flags = flags,
    .flag_count = FLAGS,
};
