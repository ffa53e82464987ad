// env.c -- `trireme env`: what a maintainer asks for first, in one block for an issue: the program, the system, processor,
// memory, GPUs, network, variables, and with --python the packages beside it. Values of secrets are never printed.
#define _GNU_SOURCE // environ
#include "cmd/accelerate/accelerate_file.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "cmd/doctor/facts.h"

#include "base/alloc.h"
#include "base/file.h"
#include "comm/registry.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct env_request {
    bool json, python;
} env_request;

static const flag flags[] = {
    {"--python", FLAG_SWITCH, offsetof(env_request, python), NULL,
     "Also asks the python3 of PATH for its version and those of its packages."},
    {"--json", FLAG_SWITCH, offsetof(env_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static void add_communicators(facts *f)
{
    text out = {0};
    for (int i = 0; COMM_WORDS[i]; i++) {
        comm_description d;
        if (strcmp(COMM_WORDS[i], "auto") == 0) continue;
        if (comm_describe(COMM_WORDS[i], 2, false, true, &d, NULL) == OK)
            text_addf(&out, "%s%s", out.bytes ? " " : "", COMM_WORDS[i]);
    }
    facts_put(f, "Trireme", "communicators", "%s", out.chars ? out.chars : "");
    text_clear(&out);
}

static void add_program(facts *f)
{
    text path = {0};
    err why = {0};
    device_description d;
    facts_put(f, "Trireme", "version", "%s", TRIREME_VERSION);
    facts_add_program(&path);
    facts_put(f, "Trireme", "program", "%s", path.chars ? path.chars : "");
#ifdef __clang__
    facts_put(f, "Trireme", "C compiler", "%s", __VERSION__);
#else
    facts_put(f, "Trireme", "C compiler", "gcc %s", __VERSION__);
#endif
    const bool built =
        device_describe("cuda", NULL, &d, &why) == OK || !strstr(why.text, "was built without it");
    facts_put(f, "Trireme", "CUDA", built ? "built in" : "not built in");
#ifdef TRIREME_UCX
    facts_put(f, "Trireme", "UCX", "built in");
#else
    facts_put(f, "Trireme", "UCX", "not built in");
#endif
    add_communicators(f);
    text_clear(&path);
}

// The configuration that `accelerate` takes where it is given none.
static status add_accelerate(facts *f, err *e)
{
    status result = OK;
    char *path = NULL;
    json_t *config = NULL, *value;
    const char *key;
    TRY(accelerate_default_path(&path, e));
    if (!file_exists(path)) goto done;
    err why = {0};
    if (accelerate_load(path, &config, &why) != OK) {
        facts_put(f, "Accelerate's configuration", "file", "%s", why.text);
        goto done;
    }
    facts_put(f, "Accelerate's configuration", "file", "%s", path);
    json_object_foreach(config, key, value)
    {
        text out = {0};
        if (json_is_string(value))
            text_add(&out, json_string_value(value));
        else
            accelerate_print_python(value, &out);
        facts_put(f, "Accelerate's configuration", key, "%s", out.chars ? out.chars : "");
        text_clear(&out);
    }
done:
    json_decref(config);
    free(path);
    return result;
}

// ---- Output

static int longest_name(const json_t *section)
{
    int most = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)section, name, value)
    {
        const int bytes = (int)strlen(name);
        if (bytes > most && bytes <= 32) most = bytes;
    }
    return most;
}

static void print_text(const facts *f)
{
    const char *section, *name;
    json_t *all, *value;
    bool first = true;
    json_object_foreach(f->root, section, all)
    {
        const int width = longest_name(all);
        if (!first) console_line("%s", "");
        first = false;
        console_line("%s", section);
        json_object_foreach(all, name, value)
            console_line("  %-*s  %s", width, name, json_string_value(value));
    }
}

static int cmd_env(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    env_request r = {0};
    facts f = {.root = json_object()};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    add_program(&f);
    facts_add_system(&f);
    facts_add_gpus(&f);
    facts_add_variables(&f, environ);
    if (r.python) facts_add_python(&f);
    TRY(add_accelerate(&f, e));
    if (f.failed || !f.root) {
        result = alloc_failed(0, "the facts of this machine", e);
        goto done;
    }
    if (r.json) {
        json_dumpf(f.root, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        print_text(&f);
    }
done:
    json_decref(f.root);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_env = {
    .name = "env",
    .run = cmd_env,
    .usage = "[--python] [--json]",
    .help = "Prints the versions of the program, the system and the libraries, for an issue.",
    .about =
        "Prints in one block what PyTorch's collect_env, DeepSpeed's ds_report and `accelerate "
        "env` print: the program and how it was built, the system, processor, memory, limits, "
        "GPUs and their libraries, interfaces, and the variables that change a run. Values of "
        "variables that may be secrets are not printed.",
    .flags = flags,
    .flag_count = FLAGS,
};
